"""Flags of workers: careless ones are found with their evidence, honest and dissenting ones are left alone."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Project, User
from annotation.services import Receipt
from modelling.dashboards.answers import Tally, asked_again
from modelling.dashboards.flags import flags_of
from modelling.updating import run_one
from tests.conftest import make_items

ANSWERS, HONEST_TIME = 60, 9000.0


def tally(**given: float) -> Tally:
    """Two workers: one who stands out in what is given, and the usual one."""
    usual = {
        "answers": ANSWERS, "decided": ANSWERS, "agreed": 45, "foreseen": 51, "median_ms": HONEST_TIME,
        "sided": ANSWERS, "left": 31, "repeated": 6, "contradicted": 1,
    }  # fmt: skip
    return Tally(**{name: np.array([given.get(name, value), value]) for name, value in usual.items()})


def test_nothing_stands_out_about_a_usual_worker() -> None:
    assert flags_of(tally(), 1) == []


@pytest.mark.parametrize(
    ("given", "name", "evidence"),
    [
        ({"left": 58}, "one_sided", "left in 58 of 60 answers"),
        ({"left": 2}, "one_sided", "right in 58 of 60 answers"),
        ({"median_ms": 900.0}, "hasty", "median 0.9 s, usual are 5.0 s"),
        ({"contradicted": 5}, "contradictory", "in 5 of 6 pairs asked again"),
        ({"agreed": 29, "foreseen": 36}, "like_nobody", "the crowd expects 48 % of the answers, their own model 60 %"),
    ],
)
def test_each_flag_shows_its_evidence(given: dict[str, float], name: str, evidence: str) -> None:
    (flag,) = flags_of(tally(**given), 0)
    assert (flag.name, flag.evidence) == (name, evidence)


def test_a_dissenter_who_is_like_themselves_is_not_flagged() -> None:
    assert flags_of(tally(agreed=12, foreseen=52), 0) == []


def test_few_answers_are_too_few_to_flag() -> None:
    few = {"answers": 10, "decided": 10, "sided": 10, "left": 10, "median_ms": 100.0, "agreed": 4, "foreseen": 5}
    assert flags_of(tally(repeated=2, contradicted=2, **few), 0) == []


def test_fair_sides_are_hardly_ever_called_one_sided() -> None:
    lefts = np.random.default_rng(0).binomial(ANSWERS, 0.5, 5_000)
    assert sum(any(flag.name == "one_sided" for flag in flags_of(tally(left=left), 0)) for left in lefts) <= 2


def test_pairs_asked_again_are_counted_once_each_and_contradictions_among_them() -> None:
    u = np.array([0, 0, 0, 0, 0, 1, 1])
    a, b = np.array([1, 1, 2, 2, 3, 1, 1]), np.array([5, 5, 6, 6, 7, 5, 5])
    y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    repeated, contradicted = asked_again(u, a, b, y)
    assert (sorted(repeated), list(contradicted)) == ([0, 0, 1], [0])


@pytest.mark.django_db
def test_who_takes_the_left_one_every_time_is_flagged_on_the_page_and_in_the_file(
    project: Project, owner: User, judge: Callable[..., Receipt], log_in: Callable[[User], Client]
) -> None:
    make_items(project, [f"A dog has {n} legs." for n in range(8)], group="birds")
    lazy = services.enrol(project=project)
    for _ in range(24):
        judge(lazy, "left")
    assert run_one("test") is not None
    client = log_in(owner)
    assert "left in 24 of 24 answers" in client.get("/projects/pets/workers/?sort=flagged").text
    assert "one_sided" in client.get("/projects/pets/workers.csv").text
