"""Judgements as pages: a source of mini-batches that holds what reading the whole log would hold."""

from random import Random

import numpy as np
import pytest

from annotation.models import Item, Project
from modelling import inputs
from modelling.crowdgppl import CrowdGPPL, SortedLabels
from modelling.inputs import JudgementPages, ids_of, moment_of, read_inputs
from tests.modelling.histories import answer, make_study
from tests.modelling.test_accounting import take_one_back

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Project:
    """Workers on several pages; some skip, some take back, and an item nobody judged was withdrawn."""
    monkeypatch.setattr(inputs, "PAGE_WORKERS", 7)
    rng = Random(0)
    project = make_study("pages", [some_answer(rng) for _ in range(200)])
    Item.objects.filter(project=project, key="item-5").update(active=False)
    for _ in range(12):
        take_one_back(project, rng)
    return project


def some_answer(rng: Random) -> tuple[int, int, int, str]:
    a, b = rng.sample(range(5), 2)
    return rng.randrange(25), a, b, rng.choice(("first", "second", "tie", "skip"))


def test_pages_hold_what_reading_the_whole_log_holds(study: Project) -> None:
    whole, pages = read_inputs(study), JudgementPages(study, moment_of(study))
    assert np.array_equal(pages.item_ids, ids_of(whole.items))
    assert np.array_equal(pages.worker_ids, ids_of(whole.workers))
    assert (len(pages), pages.n_items, pages.n_users) == (len(whole.labels), 5, len(whole.workers))
    everybody = pages.of_users(np.arange(pages.n_users))
    for name in ("u", "a", "b", "y"):
        assert np.array_equal(getattr(everybody, name), getattr(whole.labels, name))


def test_pages_give_the_fit_of_arrays_to_the_last_bit(study: Project) -> None:
    pages, arrays = JudgementPages(study, moment_of(study)), SortedLabels.of(read_inputs(study).labels)
    ours, theirs = (
        CrowdGPPL(n_components=2, batch_size=8, personal_variance=4.0).fit(source, n_items=5)
        for source in (pages, arrays)
    )
    assert np.array_equal(ours.predict_utilities(), theirs.predict_utilities())
    assert np.array_equal(ours.predict_proba([0, 3], [0, 1], [2, 4]), theirs.predict_proba([0, 3], [0, 1], [2, 4]))


def test_what_happens_after_the_moment_does_not_count(study: Project) -> None:
    moment = moment_of(study)
    before, rng = len(JudgementPages(study, moment)), Random(1)
    opened = JudgementPages(study, moment)
    answer(study, [some_answer(rng) for _ in range(30)])
    take_one_back(study, rng)
    assert len(JudgementPages(study, moment)) == before
    assert len(opened.of_users(np.arange(opened.n_users))) == before


def test_a_log_that_says_something_else_than_before_stops_the_fit(study: Project) -> None:
    opened = JudgementPages(study, moment_of(study))
    opened.worker_ids = np.roll(opened.worker_ids, 1)
    with pytest.raises(ValueError, match="changed while they were read"):
        opened.of_users(np.arange(3))
