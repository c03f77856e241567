"""Somebody was erased with all they had said, and no version has been learned since: nobody is shown them any more."""

from collections.abc import Callable

import pytest

from annotation import services
from annotation.models import Worker
from modelling.dashboards import activity, answers
from modelling.dashboards.activity import agreement_of
from modelling.dashboards.answers import tally_of
from modelling.models import ModelSnapshot

pytestmark = pytest.mark.django_db


def erase(worker: Worker, *, with_judgements: bool = True) -> None:
    services.erase_worker(worker=worker, user=None, remove_judgements=with_judgements)


# What is counted


def test_what_was_counted_before_is_counted_again_without_them(snapshot: ModelSnapshot, crowd: list[Worker]) -> None:
    tally_of(snapshot), agreement_of(snapshot)
    erase(crowd[0])
    tally, agreement = tally_of(snapshot), agreement_of(snapshot)
    assert tally.answers.tolist() == [0, 6, 6, 6]
    answers._tally.cache_clear()
    activity._agreement.cache_clear()
    assert tally_of(snapshot).agreed.tolist() == tally.agreed.tolist()
    assert agreement_of(snapshot) == agreement


def test_while_nobody_is_erased_a_version_is_counted_once(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Callable[..., object]
) -> None:
    before = tally_of(snapshot), agreement_of(snapshot)
    judge(crowd[1])
    assert tally_of(snapshot) is before[0]
    assert agreement_of(snapshot) is before[1]
