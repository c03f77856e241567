"""The reliability page shows the figures of the exported file, and the self-consistency of the progress page."""

from collections.abc import Callable
from itertools import combinations

import pytest
from django.test import Client
from django.utils.translation import override

from annotation.importing.judgements import ImportedJudgement, import_judgements
from annotation.models import Project, User, Worker
from modelling.dashboards.progress import compute_agreement
from modelling.dashboards.reliability import reliability_page
from modelling.exports.catalogue import TABLES
from modelling.exports.points import resolve_point
from modelling.models import ModelSnapshot
from modelling.training.reliability import versions as version_reliability
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db


def test_page_and_file_have_the_same_figures(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    page, rows = reliability_page(snapshot), list(TABLES["reliability"](resolve_point(snapshot.project)).rows)
    in_file = {row[0]: row[3:7] for row in rows if row[1] is None and row[2] is None}
    on_page = {m.name: (m.estimate.value, m.estimate.low, m.estimate.high, m.estimate.n)
               for m in page.measures if m.estimate}  # fmt: skip
    assert on_page == in_file
    assert {"ssr", "split_half", "alpha", "tie_rate"} <= set(in_file)
    for table, column in zip(page.tables, (1, 2), strict=True):
        infit = {row[column]: row[3] for row in rows if row[0] == "infit" and row[column]}
        assert len(infit) == table.total
        assert {each.fit.name: each.fit.infit for each in table.shown}.items() <= infit.items()
    text = log_in(owner).get("/projects/pets/reliability/").text
    assert f"{in_file['ssr'][0]:.3f}" in text
    assert "No pairs were suggested by the model" in text
    for table in page.tables:
        for each in table.shown:
            assert f'<a href="{each.url}"><bdi>{each.fit.name}</bdi></a>' in text
            assert log_in(owner).get(each.url).status_code == 200


def test_self_consistency_is_that_of_the_progress_page(snapshot: ModelSnapshot) -> None:
    found, agreement = version_reliability.get_reliability(snapshot), compute_agreement(snapshot)
    estimate = found.measures["self_consistency"]
    assert agreement.within == (pytest.approx(estimate.value) if estimate else None)


def test_imported_judgements_have_no_order_effect(
    project: Project, worker: Worker, judge: Callable[..., object], owner: User, log_in: Callable[[User], Client]
) -> None:
    """The order of a file says nothing about when its judgements were made."""
    keys = ["cats-1", "cats-2", "cats-3", "cats-4"]
    rows = [
        ImportedJudgement(line=line, worker="m001", a=a, b=b, choice="a")
        for line, (a, b) in enumerate(combinations(keys, 2), start=1)
    ]
    import_judgements(project=project, user=owner, rows=rows)
    imported = update_one("test")
    assert imported is not None
    measures = {each.name: each for each in reliability_page(imported).measures}
    assert measures["order_effect"].estimate is None
    assert "Without imported judgements" in log_in(owner).get("/projects/pets/reliability/").text

    for _ in range(6):
        judge(worker, "left")
    mixed = update_one("test")
    assert mixed is not None
    estimate = version_reliability.get_reliability(mixed).measures["order_effect"]
    assert estimate is not None
    assert estimate.n == 4  # two of the six answers in each third


def test_large_studies_get_the_measures_that_need_no_workers(
    snapshot: ModelSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = version_reliability.get_reliability(snapshot)
    version_reliability._cached_reliability.cache_clear()
    monkeypatch.setattr(version_reliability, "MAX_JUDGEMENTS", 10)
    large = version_reliability.get_reliability(snapshot)
    version_reliability._cached_reliability.cache_clear()
    for name in ("ssr", "tie_rate"):
        ours, theirs = large.measures[name], whole.measures[name]
        assert ours is not None
        assert theirs is not None
        assert ours.value == pytest.approx(theirs.value, abs=1e-6)
    assert "alpha" not in large.measures
    assert large.workers == []


def test_labels_are_in_german(snapshot: ModelSnapshot) -> None:
    with override("de"):
        measures = reliability_page(snapshot).measures
    assert measures[2].label == "Split-Half-Korrelation"
