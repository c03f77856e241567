"""Assessments of workers: careless ones are found, dissenters are not, and all pages and files show the same odds."""

from collections.abc import Callable
from uuid import uuid4

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone, translation
from scipy.stats import multivariate_normal

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from annotation.storage import event_log
from benchmarks.planning.worker_assessment import CARELESS, HONEST, flagged, run_crowd
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.state import posterior_from_state
from modelling.dashboards.workers.assessment import Assessment, AssessmentNames, load_assessment
from modelling.exports.catalogue import TABLES
from modelling.exports.points import resolve_point
from modelling.findings.workers.assessment import assess_workers, linked_lists
from modelling.findings.workers.cross_prediction import Prior, crowd_without, find_evidence
from modelling.findings.workers.hypotheses import Explanation, odds, side_evidence, time_evidence
from modelling.findings.workers.patterns import AnswerSheet, find_alike, find_patterns
from modelling.findings.workers.versions import get_assessments
from modelling.models import ModelSnapshot, WorkerAssessment
from modelling.training.versions import clean_up_versions
from modelling.updater.update import update_one
from modelling.web.api.tokens import create_token
from tests.modelling.samples.two_camps import make_study

NAN = np.nan


def answers(pairs: list[tuple[int, int, float]], left: list[float] | None = None, ms: float = NAN) -> AnswerSheet:
    a, b, y = (np.array(column) for column in zip(*pairs, strict=True))
    n = len(pairs)
    sides = np.full(n, NAN) if left is None else np.array(left)
    return AnswerSheet(np.zeros(n, dtype=int), a, b, y.astype(float), sides, np.full(n, ms), np.full(n, 300.0))


# Evidence


def test_evidence_is_the_probability_of_the_answers() -> None:
    """Against the orthant probability of z plus noise."""
    K = np.array([[1.5, 0.8, -0.4], [0.8, 2.0, 0.3], [-0.4, 0.3, 0.7]])
    mean, y = np.array([0.5, -0.3, 0.2]), np.array([1.0, 0.0, 1.0])
    sign = 2.0 * y - 1.0
    noisy = np.outer(sign, sign) * (K + np.eye(3))
    exact = np.log(multivariate_normal(np.zeros(3), noisy).cdf(sign * mean)) + 3.0 * np.log(2.0)
    found = find_evidence(Prior(mean, K), y, 0.0)
    assert found.total == pytest.approx(exact, abs=0.01)
    others = multivariate_normal(np.zeros(2), noisy[:2, :2]).cdf(sign[:2] * mean[:2])
    left_out = np.log(np.exp(exact - 3.0 * np.log(2.0)) / others)
    assert found.log_probability[2] == pytest.approx(left_out, abs=0.02)


def test_ranks_without_a_worker_are_within_linked_items() -> None:
    """Items 0 to 3 were never compared with items 4 to 7, and item 8 with none."""
    rng = np.random.default_rng(2)
    part, u = rng.integers(0, 2, 150), np.repeat(np.arange(3), 50)
    a, step = rng.integers(0, 4, 150), rng.integers(1, 4, 150)
    a, b = 4 * part + a, 4 * part + (a + step) % 4
    y = np.where(rng.random(150) < 0.75, a < b, a > b).astype(float)
    unknown = np.full(150, NAN)
    sheet = AnswerSheet(u, a, b, y, unknown, unknown, np.full(150, 300.0))
    assert [each.tolist() for each in linked_lists(sheet, np.arange(9), 9)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    model = CrowdGPPL(random_state=1).fit(PairwiseLabels(u, a, b, y), n_items=9, n_users=3)
    moves = [facts.largest_move for facts in assess_workers(model, sheet, np.arange(9)) if facts.largest_move]
    assert moves
    assert all(1 <= rank <= 4 for _item, *before_and_after in moves for rank in before_and_after)


def test_the_crowd_without_a_worker_is_that_of_the_other_sites() -> None:
    rng = np.random.default_rng(3)
    u, a = np.repeat(np.arange(6), 20), rng.integers(0, 8, 120)
    b = (a + rng.integers(1, 8, 120)) % 8
    labels = PairwiseLabels(u, a, b, (a < b).astype(float))
    model = CrowdGPPL(max_iterations=5).fit(labels)
    post = posterior_from_state(model.to_state())
    sites = model.store.load(np.array([2]))
    found = crowd_without(post, sites.a, sites.b, 2, sites)
    D = np.zeros((len(sites), 8))
    D[np.arange(len(sites)), sites.a] += 1.0
    D[np.arange(len(sites)), sites.b] -= 1.0
    J = np.linalg.inv(np.diag(1.0 / np.maximum(sites.lam, 1e-6)) + D @ post.A @ D.T)
    S = np.linalg.inv(np.linalg.inv(post.S_t) - D.T @ J @ D)
    t = S @ (post.h - D.T @ J @ (sites.eta / np.maximum(sites.lam, 1e-6)))
    np.testing.assert_allclose(found.scores, t, atol=1e-6)
    np.testing.assert_allclose(found.consensus.K, D @ S @ D.T, atol=1e-6)


def test_sides_that_follow_a_pattern_are_evidence() -> None:
    n = 60
    always, alternating = np.ones(n), np.arange(n) % 2.0
    random = np.random.default_rng(0).integers(0, 2, n).astype(float)
    assert side_evidence(always)[0] > 30
    assert side_evidence(alternating)[0] > 30
    assert side_evidence(random)[0] < 0
    assert side_evidence(np.full(n, NAN))[0] == 0.0


def test_a_worker_with_unshared_preferences_is_safer_among_others_like_that() -> None:
    """The same weak evidence for preferences of one's own, in crowds with and without other such workers."""
    weak = Explanation(ordinary=-20.0, followed=-15.0, alone=0.5, careless=0.0, since=0)
    follower = Explanation(ordinary=12.0, followed=12.0, alone=4.0, careless=0.0, since=0)
    loner = Explanation(ordinary=-20.0, followed=-15.0, alone=8.0, careless=0.0, since=0)
    among_followers, among_loners = (odds([weak, *[other] * 40])[0] for other in (follower, loner))
    assert among_loners[0] < among_followers[0]
    assert among_followers.sum() == pytest.approx(1.0)
    assert odds([loner])[0][1] > 0.9, "preferences that no one shares are different, not careless"


def test_speed_alone_convicts_no_one() -> None:
    assert time_evidence(0, 0) == 0.0
    assert time_evidence(60, 60) == 3.0
    assert -1.0 <= time_evidence(0, 60) < 0.0


def test_patterns_are_counted() -> None:
    cycle = [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 0.0)]
    found = find_patterns(answers([*cycle, (0, 1, 0.0), (3, 4, 1.0)], left=[1.0, 1.0, 0.0, 1.0, NAN], ms=900.0))
    assert (found.repeated, found.contradicted) == (1, 1)
    assert (found.left, found.sided) == (3, 4)
    assert (found.too_fast, found.timed) == (5, 5)
    assert find_patterns(answers(cycle)).circular == find_patterns(answers(cycle)).triples == 1
    assert find_patterns(answers([(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0)])).circular == 0


def test_two_workers_with_the_same_answers_are_alike() -> None:
    rng = np.random.default_rng(5)
    pairs = [(int(a), int(b)) for a in range(9) for b in range(a + 1, 9)]
    sheets = {}
    for worker in range(6):
        same = np.random.default_rng(8 if worker > 3 else worker).random(len(pairs)) < 0.5
        sheets[worker] = answers([(a, b, float(y)) for (a, b), y in zip(pairs, same, strict=True)])
    tendency = {worker: rng.uniform(-0.2, 0.2, len(pairs)) for worker in sheets}
    found = find_alike(sheets, tendency, 9)
    assert {worker: (each.other, each.same, each.shared) for worker, each in found.items()} == {
        4: (5, 36, 36),
        5: (4, 36, 36),
    }


def test_careless_workers_are_found_and_dissenters_are_not() -> None:
    """One crowd of each kind; the benchmark of the same name has twenty."""
    found: dict[str, list[float]] = {}
    roles, facts, _seconds = run_crowd("shared", 101)
    for role in (*CARELESS, *HONEST):
        found[role] = [flagged([each]) for each in facts if roles[each.worker] == role]
    careless = [flag for role in CARELESS for flag in found[role]]
    honest = [flag for role in HONEST for flag in found[role]]
    assert np.mean(careless) >= 0.8
    assert sum(honest) <= 1
    assert sum(found["dissenting"]) == 0
    assert all(each.different > 0.5 for each in facts if roles[each.worker] == "dissenting")


# Versions, pages, files and the API


def add_worker(project: Project, answer: Callable[[int], str], n: int = 40) -> Worker:
    """Enrol a worker who gives these answers to random pairs."""
    rng = np.random.default_rng(9)
    worker = services.enrol(project=project)
    items = list(Item.objects.filter(project=project, active=True).order_by("pk"))
    pairs = [(lo, hi) for lo in range(len(items)) for hi in range(lo + 1, len(items))]
    rows = [
        Judgement(
            uuid=uuid4(), project=project, worker=worker, item_lo=items[pairs[k][0]], item_hi=items[pairs[k][1]],
            round=1, choice=answer(place), lo_was_left=True, source="simulated", response_ms=4000,
            created_at=timezone.now(),
        )
        for place, k in enumerate(rng.choice(len(pairs), n, replace=False).tolist())
    ]  # fmt: skip
    event_log.append(rows)
    return worker


@pytest.fixture
def lazy(project: Project) -> Worker:
    """A worker who always chooses the left text, in a study of two honest camps."""
    make_study(project, n_labels=960)
    worker = add_worker(project, lambda place: "lo")
    assert update_one("test") is not None
    return worker


@pytest.mark.django_db
def test_every_surface_shows_the_same_odds(
    lazy: Worker, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    snapshot, client = ModelSnapshot.objects.get(), log_in(owner)
    found = get_assessments(project, snapshot)
    row = found[lazy.pk]
    assert row.careless > 0.9
    assert not [each for each in found.values() if each.careless > 0.5 and each.worker_id != lazy.pk]
    table = {cells[0]: cells for cells in TABLES["assessments"](resolve_point(project)).rows}
    assert table[lazy.code][3:6] == (row.careless, row.different, row.ordinary)
    api = Client(headers={"authorization": f"Bearer {create_token(user=owner, name='test', scope='read', days=7)[1]}"})
    response = api.get(f"/api/v1/projects/pets/workers/{lazy.code}").json()["assessment"]
    assert (response["careless"], response["answers"], response["version"]) == (row.careless, 40, 1)
    listed = api.get("/api/v1/projects/pets/workers").json()["rows"]
    assert {each["code"]: each["assessment"] for each in listed}[lazy.code] == response
    file = client.get("/projects/pets/workers.csv").text
    assert f",{row.careless},{row.different},{row.ordinary},40" in file
    page = client.get(f"/projects/pets/workers/{lazy.code}/").text
    assert "Careless or different?" in page
    assert "The text on the left was chosen in 40 of 40 answers." in page
    assert "would change" in page
    table_page = client.get("/projects/pets/workers/?sort=careless").text
    assert "looks careless" in table_page
    for text in (page, table_page):
        assert "cheat" not in text.lower()
    shown = load_assessment(lazy, snapshot)
    assert shown is not None
    with translation.override("de"):
        assert "In 40 von 40 Antworten wurde der linke Text gewählt." in shown.evidence


@pytest.mark.django_db
def test_a_step_and_an_excluded_worker_keep_the_last_assessment(
    lazy: Worker, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    add_worker(project, lambda place: "hi", n=3)
    step = update_one("test")
    assert step is not None
    assert step.kind == ModelSnapshot.Kind.STEP
    assert get_assessments(project, step)[lazy.pk].snapshot.number == 1
    services.exclude_worker(worker=lazy, user=owner, reason="always left")
    refit = update_one("test")
    assert refit is not None
    assert not WorkerAssessment.objects.filter(snapshot=refit, worker=lazy).exists()
    assert get_assessments(project, refit)[lazy.pk].snapshot.number == 1
    assert "in version 1" in log_in(owner).get(f"/projects/pets/workers/{lazy.code}/").text


@pytest.mark.django_db
def test_assessments_of_pruned_versions_are_deleted(lazy: Worker, project: Project) -> None:
    assert WorkerAssessment.objects.filter(worker=lazy).exists()
    ModelSnapshot.objects.update(pruned_at=timezone.now())
    clean_up_versions(project)
    assert not WorkerAssessment.objects.exists()


@pytest.mark.django_db
def test_a_failed_assessment_leaves_the_version(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr("modelling.findings.workers.versions.assess_workers", fail)
    make_study(project)
    assert update_one("test") is not None
    assert not WorkerAssessment.objects.exists()


def test_sentences_name_the_signs_of_automated_answers() -> None:
    evidence = {
        "predicted": 58, "agreed": 57, "since": 0, "moved": 1, "ranked": 20, "largest_move": [7, 3, 4],
        "left": 30, "sided": 60, "repeated": 4, "contradicted": 0, "triples": 12, "circular": 0, "too_fast": 55,
        "timed": 60, "signs": ["noiseless", "fast"],
    }  # fmt: skip
    row = WorkerAssessment(answers=60, careless=0.01, different=0.04, ordinary=0.95, evidence=evidence)
    shown = Assessment(row, AssessmentNames({}, {7: "dogs"}))
    assert (shown.verdict, shown.looks_automated, shown.is_careless) == ("ordinary", True, False)
    assert [flag.name for flag in shown.flags] == ["automated"]
    assert "Answers that were too fast to have read both texts: 55 of 60." in shown.evidence
    assert shown.exclusion_effect == (
        "Without this worker 1 of 20 items would change its rank. The largest change: “dogs” from rank 3 to 4."
    )
