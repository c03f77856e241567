"""Flags: careless workers are flagged with evidence, honest and dissenting workers are not."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Project, User
from annotation.services import Receipt
from modelling.dashboards.common.judgements import WorkerTally, repeated_pairs
from modelling.dashboards.workers.flags import find_flags
from modelling.updater.update import update_one
from tests.conftest import make_items

JUDGEMENTS, HONEST_TIME = 60, 9000.0


def tally(**given: float) -> WorkerTally:
    """Two workers: one with these values, and a typical one."""
    typical = {
        "judgements": JUDGEMENTS, "decided": JUDGEMENTS, "agreed": 45, "explained": 51, "timed": JUDGEMENTS,
        "median_ms": HONEST_TIME, "characters_per_second": 25.0,
        "sided": JUDGEMENTS, "left": 31, "repeated": 6, "contradicted": 1,
    }  # fmt: skip
    return WorkerTally(**{name: np.array([given.get(name, value), value]) for name, value in typical.items()})


def test_a_typical_worker_is_not_flagged() -> None:
    assert find_flags(tally(), 1) == []


@pytest.mark.parametrize(
    ("given", "name", "evidence"),
    [
        ({"left": 58}, "one_sided", "chose the text on the left in 58 of 60 judgements"),
        ({"left": 2}, "one_sided", "chose the text on the right in 58 of 60 judgements"),
        ({"median_ms": 900.0}, "hasty", "median response time 0.9 s; typical: 5.0 s (n = 60)"),
        ({"median_ms": 900.0, "timed": 12}, "hasty", "median response time 0.9 s; typical: 5.0 s (n = 12)"),
        (
            {"median_ms": 4000.0, "characters_per_second": 240.0},
            "hasty",
            "median response time 4.0 s, 240 characters per second; typical: 6.5 s (n = 60)",
        ),
        ({"contradicted": 5}, "contradictory", "different answers to 5 of 6 repeated pairs"),
    ],
)
def test_each_flag_shows_its_evidence(given: dict[str, float], name: str, evidence: str) -> None:
    (flag,) = find_flags(tally(**given), 0)
    assert (flag.name, flag.evidence) == (name, evidence)


def test_a_consistent_dissenter_is_not_flagged() -> None:
    assert find_flags(tally(agreed=12, explained=52), 0) == []


def test_a_worker_with_few_judgements_is_not_flagged() -> None:
    few = {
        "judgements": 10,
        "decided": 10,
        "sided": 10,
        "left": 10,
        "timed": 9,
        "median_ms": 100.0,
        "agreed": 4,
        "explained": 5,
    }
    assert find_flags(tally(repeated=2, contradicted=2, **few), 0) == []


def test_random_sides_are_almost_never_flagged_as_one_sided() -> None:
    lefts = np.random.default_rng(0).binomial(JUDGEMENTS, 0.5, 5_000)
    assert sum(any(flag.name == "one_sided" for flag in find_flags(tally(left=left), 0)) for left in lefts) <= 2


def test_repeated_pairs_and_contradictions_are_counted_once_per_pair() -> None:
    u = np.array([0, 0, 0, 0, 0, 1, 1])
    a, b = np.array([1, 1, 2, 2, 3, 1, 1]), np.array([5, 5, 6, 6, 7, 5, 5])
    y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    repeated, contradicted = repeated_pairs(u, a, b, y)
    assert (sorted(repeated), list(contradicted)) == ([0, 0, 1], [0])


@pytest.mark.django_db
def test_a_worker_who_always_chooses_left_is_flagged_on_the_page_and_in_the_file(
    project: Project, owner: User, judge: Callable[..., Receipt], log_in: Callable[[User], Client]
) -> None:
    make_items(project, [f"A dog has {n} legs." for n in range(8)], group="birds")
    lazy = services.enrol(project=project)
    for _ in range(24):
        judge(lazy, "left")
    assert update_one("test") is not None
    client = log_in(owner)
    page = client.get("/projects/pets/workers/?sort=flagged").text
    assert "chose the text on the left in 24 of 24 judgements" in page
    assert "one_sided" in client.get("/projects/pets/workers.csv").text
