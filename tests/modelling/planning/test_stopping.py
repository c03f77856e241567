"""The stop rule: its probabilities against plain counting, its forecast against a longer study, and pausing."""

from collections.abc import Callable
from decimal import Decimal
from math import comb

import numpy as np
import pytest
from django.test import Client
from scipy.stats import kendalltau

from annotation import services
from annotation.models import Assignment, Item, Project, Recruitment, User, Worker
from annotation.services import Receipt
from modelling.dashboards.planning.stopping import StoppingPage, format_about, stopping_page
from modelling.models import ModelSnapshot
from modelling.planning.policy import PairQuestion, Purpose, pair_gains
from modelling.planning.posterior import OrderPosterior
from modelling.planning.stop_rule import StopRuleResult, pause_if_certain
from modelling.planning.stopping import (
    Forecast,
    candidates,
    certainty,
    continue_study,
    cut_probabilities,
    expected_tau,
    stated_probabilities,
)
from modelling.updater.update import update_one
from tests.modelling.samples.cached_fits import cached_fits as cached_fits

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]
SAMPLING = 0.03  # two shares of about 1,000 samples each
N = 15


@pytest.fixture
def posterior() -> OrderPosterior:
    rng = np.random.default_rng(8)
    root = rng.standard_normal((N, N)) / np.sqrt(N)
    return OrderPosterior(np.sort(rng.standard_normal(N))[::-1], 0.1 * root @ root.T + 0.02 * np.eye(N))


def test_certainty_is_what_counting_over_samples_gives(posterior: OrderPosterior) -> None:
    rng = np.random.default_rng(1)
    samples = rng.multivariate_normal(posterior.mean, posterior.cov, size=4000)
    tops = [set(np.argsort(-row)[:4].tolist()) == set(range(4)) for row in samples]
    taus = [kendalltau(row, posterior.mean).statistic for row in samples[:500]]
    found = certainty(posterior, 4, np.random.default_rng(2))
    assert found.probability == pytest.approx(np.mean(tops), abs=2 * SAMPLING)
    assert found.tau == pytest.approx(np.mean(taus), abs=0.01)


def test_limits_of_certainty(posterior: OrderPosterior) -> None:
    rng = np.random.default_rng(1)
    sure = OrderPosterior(posterior.mean, 1e-8 * np.eye(N))
    assert certainty(sure, 4, rng).probability == 1.0
    assert expected_tau(sure) == pytest.approx(1.0, abs=0.01)
    ignorant = OrderPosterior(np.zeros(N), np.eye(N))
    assert cut_probabilities(ignorant, rng)[3] < 0.01
    assert expected_tau(ignorant) == 0.0


def forecast(posterior: OrderPosterior, top_k: int, n: int, policy: Purpose | None, seed: int = 3) -> Forecast:
    found = continue_study(posterior, top_k, n, policy, 0.2, np.random.default_rng(seed))
    return Forecast.of(found.judgements, found.probability)


def test_more_judgements_never_make_the_forecast_worse_and_suggestions_need_fewer(posterior: OrderPosterior) -> None:
    random, top = forecast(posterior, 4, 100, None), forecast(posterior, 4, 100, "top")
    for found in (random, top):
        assert found.judgements[0] == 0
        for curve in (found.low, found.probability, found.high):
            assert (np.diff(curve) >= 0).all()
        assert (found.low <= found.probability).all()
        assert (found.probability <= found.high).all()
    assert (top.needed(0.8) or 0) < (random.needed(0.8) or 0)


def test_the_forecast_starts_at_the_certainty_of_now(posterior: OrderPosterior) -> None:
    found = forecast(posterior, 4, 100, "order")
    now = cut_probabilities(posterior, np.random.default_rng(4))[3]
    assert found.low[0] == found.probability[0] == found.high[0] == pytest.approx(now, abs=2 * SAMPLING)


def test_the_forecast_is_when_simulated_answers_reach_the_target(posterior: OrderPosterior) -> None:
    """Against studies with a true order, whose measurements of random pairs are observed one by one."""
    rng, target, reached = np.random.default_rng(6), 0.8, []
    found = continue_study(posterior, 4, 100, None, 1.0, rng)
    standard = rng.standard_normal((300, N))
    for truth in posterior.sample(60, rng):
        now = posterior
        for count, step in zip(found.judgements[1:], np.diff(found.judgements), strict=True):
            precision = pair_gains(OrderPosterior(posterior.mean, now.cov), PairQuestion(), rng)[1]
            a = rng.integers(0, N, step)
            b = (a + rng.integers(1, N, step)) % N
            measured = truth[a] - truth[b] + rng.standard_normal(step) / np.sqrt(precision[a, b])
            X = np.zeros((step, N))
            X[np.arange(step), a], X[np.arange(step), b] = 1.0, -1.0
            gain = now.cov @ X.T @ np.linalg.inv(X @ now.cov @ X.T + np.diag(1.0 / precision[a, b]))
            mean = now.mean + gain @ (measured - X @ now.mean)
            now = OrderPosterior(mean, now.cov - gain @ X @ now.cov)
            if stated_probabilities(mean[None], now.cov, 4, standard)[0] >= target:
                reached.append(count)
                break
        else:
            reached.append(np.inf)
    summary = Forecast.of(found.judgements, found.probability)
    by_then = [np.mean(np.array(reached) <= n) for n in found.judgements]
    forecast = [
        np.mean(np.maximum.accumulate(found.probability, axis=1)[:, at] >= target) for at in range(len(by_then))
    ]
    np.testing.assert_allclose(by_then, forecast, atol=0.2)  # two shares of 60
    assert summary.earliest(target) <= summary.needed(target)  # type: ignore[operator]


def test_judgements_needed_are_interpolated() -> None:
    curve = np.array([0.5, 0.7, 0.9])
    found = Forecast(np.array([0, 100, 300]), curve, curve - 0.1, curve + 0.1)
    assert found.needed(0.4) == 0
    assert found.needed(0.8) == 200
    assert (found.earliest(0.8), found.latest(0.8)) == (100, 300)
    assert found.needed(0.95) is None


def test_a_forecast_looks_only_at_items_near_the_boundary() -> None:
    n = 400
    large = OrderPosterior(np.linspace(3, -3, n), 0.01 * np.eye(n))
    kept = candidates(large, 5)
    assert len(kept) == 100
    assert set(range(20)) <= set(kept.tolist())


# Pages and pausing


@pytest.fixture
def snapshot(project: Project, crowd: list[Worker]) -> ModelSnapshot:
    Project.objects.update(pairs=Project.Pairs.ANY, top_k=2, redundancy=20)
    version = update_one("test")
    assert version is not None
    return version


def say(snapshot: ModelSnapshot, probability: float) -> None:
    """Store this probability in the version's diagnostics."""
    snapshot.diagnostics["stopping"]["probability"] = probability
    ModelSnapshot.objects.filter(pk=snapshot.pk).update(diagnostics=snapshot.diagnostics)


def test_a_version_stores_what_the_page_says(snapshot: ModelSnapshot, owner: User, log_in: LogIn) -> None:
    found = StopRuleResult.load(snapshot)
    assert found is not None
    assert (found.top_k, found.groups) == (2, 1)
    text = log_in(owner).get("/projects/pets/stopping/").text
    assert f"with a probability of {100 * found.probability:.0f} %" in text
    assert "more judgements" in text
    assert "previous version" not in text, "this is the first one"


def test_each_group_has_its_own_top_where_pairs_stay_within_groups(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(top_k=2)
    version = update_one("test")
    assert version is not None
    page = stopping_page(version)
    assert page is not None
    assert page.found.groups == 2
    assert "over the 2 groups" in page.sentence


def test_without_enough_items_there_is_no_stop_rule(
    project: Project, crowd: list[Worker], owner: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    assert "No model yet" in client.get("/projects/pets/stopping/").text
    Project.objects.update(top_k=50)
    assert update_one("test") is not None
    assert "no group has more than 50 items" in client.get("/projects/pets/stopping/").text


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("wanted", "said", "paused"), [(True, 0.95, True), (False, 0.95, False), (True, 0.6, False)], ids=str
)
def test_the_study_is_paused_if_the_owner_wants_and_two_versions_are_certain(
    wanted: bool, said: float, paused: bool, snapshot: ModelSnapshot, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    Project.objects.update(stop_pauses=wanted)
    say(snapshot, 0.95)
    assert not pause_if_certain(snapshot), "one version is not enough"
    judge(crowd[0])
    later = update_one("test")
    assert later is not None
    say(later, said)
    assert pause_if_certain(later) is paused
    project = Project.objects.get()
    assert project.state == ("paused" if paused else "open")
    if paused:
        page = stopping_page(ModelSnapshot.objects.get(pk=later.pk))
        assert page is not None
        assert page.paused_at is not None
        services.change_project(project=project, user=None, changes={"state": "open"})
        assert not pause_if_certain(later), "a study that is opened again stays open"


def test_the_cost_follows_from_the_pay(snapshot: ModelSnapshot) -> None:
    Recruitment.objects.create(project=snapshot.project, reward=Decimal("3.00"), currency="GBP")
    Project.objects.update(judgements_per_worker=40)
    curves = {"forecast": [0.5, 0.9, 0.95], "forecast_low": [0.5, 0.6, 0.9], "forecast_high": [0.5, 0.98, 0.99]}
    stored = {**snapshot.diagnostics["stopping"], "judgements": [0, 240, 900], **curves, "probability": 0.5}
    ModelSnapshot.objects.update(diagnostics={**snapshot.diagnostics, "stopping": stored})
    page = stopping_page(ModelSnapshot.objects.get())
    assert isinstance(page, StoppingPage)
    assert page.advice == (
        "About 240 more judgements (about 18 GBP) are needed to reach 90 %. "
        "8 of 10 simulated continuations need 200 to 900."
    )


def advice(snapshot: ModelSnapshot, forecast: list[float], low: list[float], high: list[float]) -> str:
    """The page's advice for a version with these curves after 0 and 400 more judgements."""
    curves = {"forecast": forecast, "forecast_low": low, "forecast_high": high}
    stored = {**snapshot.diagnostics["stopping"], "judgements": [0, 400], **curves, "probability": forecast[0]}
    ModelSnapshot.objects.update(diagnostics={**snapshot.diagnostics, "stopping": stored})
    page = stopping_page(ModelSnapshot.objects.get())
    assert page is not None
    return page.advice


def test_an_uncertain_forecast_says_so(snapshot: ModelSnapshot) -> None:
    assert advice(snapshot, [0.5, 0.9], [0.5, 0.6], [0.5, 1.0]) == (
        "About 400 more judgements are needed to reach 90 %. "
        "8 of 10 simulated continuations need from 320 to more than 400."
    )
    unclear = advice(snapshot, [0.5, 0.8], [0.5, 0.6], [0.5, 1.0])
    assert unclear == "At least 320 more judgements are needed to reach 90 %; perhaps many more."
    assert advice(snapshot, [0.1, 0.2], [0.1, 0.1], [0.1, 0.8]).startswith("More than 400 more judgements are needed")


def test_the_page_warns_where_pairs_have_no_room_for_the_judgements_needed(snapshot: ModelSnapshot) -> None:
    assert advice(snapshot, [0.5, 0.9], [0.5, 0.6], [0.5, 1.0]).startswith("About 400 more")
    taken, pairs = (
        Assignment.objects.filter(slot__isnull=False).count(),
        comb(Item.objects.filter(active=True).count(), 2),
    )
    enough = -(-(400 + taken) // pairs)
    for redundancy, shown in ((enough, False), (enough - 1, True)):
        Project.objects.update(redundancy=redundancy)
        page = stopping_page(ModelSnapshot.objects.get())
        assert page is not None
        assert page.outlook.room == pairs * redundancy - taken
        assert bool(page.room_line) is shown


@pytest.mark.parametrize(
    ("by_cut", "sentence"),
    [
        ([0.2, 0.3, 0.8, 0.4], "Consider the top 3 instead: they are correct with a probability of 80 %."),
        ([0.8, 0.3, 0.2, 0.4], "Consider the top item alone: it is correct with a probability of 80 %."),
    ],
)
def test_a_clearer_boundary_is_suggested(snapshot: ModelSnapshot, by_cut: list[float], sentence: str) -> None:
    stored = {**snapshot.diagnostics["stopping"], "probability": 0.3, "by_cut": by_cut}
    ModelSnapshot.objects.update(diagnostics={**snapshot.diagnostics, "stopping": stored})
    page = stopping_page(ModelSnapshot.objects.get())
    assert page is not None
    assert page.other_cut == sentence


def test_an_improbable_boundary_is_not_recommended(snapshot: ModelSnapshot) -> None:
    stored = {**snapshot.diagnostics["stopping"], "probability": 0.0, "by_cut": [0.14, 0.0, 0.1, 0.0]}
    ModelSnapshot.objects.update(diagnostics={**snapshot.diagnostics, "stopping": stored})
    page = stopping_page(ModelSnapshot.objects.get())
    assert page is not None
    assert (page.other_cut, page.stability_line) == ("", "")


@pytest.mark.parametrize(("number", "text"), [(7, "7"), (243, "240"), (1234, "1,250"), (123_456, "123,500")])
def test_forecasts_are_rounded(number: int, text: str) -> None:
    assert format_about(number) == text
