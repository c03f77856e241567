"""Suggested pairs: who gets which, and the random pairs alongside."""

from collections import Counter
from itertools import combinations
from random import Random
from uuid import uuid4

import pytest
from django.utils import timezone

from annotation import services
from annotation.models import Item, Judgement, Project, Suggestion, Worker
from annotation.services import lease_pairs
from annotation.storage import event_log, queries
from tests.annotation.services.pairs.test_leasing import make_large_study
from tests.conftest import make_items

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_suggestions_are_used_except_for_the_random_share(project: Project) -> None:
    make_items(project, [f"Birds, {n}." for n in range(40)], "birds")
    lo, hi = Item.objects.filter(group="birds").order_by("-pk")[:2][::-1]
    Project.objects.update(random_share=50, redundancy=1000)
    Suggestion.objects.create(project=project, item_lo=lo, item_hi=hi, gain=1.0)
    policies: Counter[str] = Counter()
    for seed in range(40):
        worker = services.enrol(project=Project.objects.get(pk=project.pk))
        policies[lease_pairs(worker=worker, rng=Random(seed))[0].policy] += 1
    assert 8 <= policies["suggested"] <= 32
    assert policies["random"] == 40 - policies["suggested"]


def test_a_suggestion_is_not_issued_to_a_worker_who_has_had_the_pair(worker: Worker, rng: Random) -> None:
    first = lease_pairs(worker=worker, rng=rng)[0]
    suggestion = Suggestion.objects.create(
        project=worker.project, gain=9.0, item_lo=first.item_lo, item_hi=first.item_hi
    )
    assert queries.suggested_pairs(worker, 10) == []
    other = services.enrol(project=worker.project)
    assert queries.suggested_pairs(other, 10) == [(suggestion.pk, first.item_lo_id, first.item_hi_id)]


def test_a_worker_gets_their_own_suggestions_first_then_those_issued_least(worker: Worker) -> None:
    stranger = services.enrol(project=worker.project)
    items = list(Item.objects.filter(group="cats"))
    pairs = [(0, 1, None, 9.0, 1), (0, 2, None, 1.0, 0), (1, 2, worker, 0.5, 3), (1, 3, stranger, 9.0, 0)]
    for lo, hi, of, gain, issued in pairs:
        Suggestion.objects.create(
            project=worker.project, worker=of, item_lo=items[lo], item_hi=items[hi], gain=gain, issued=issued
        )
    found = [(lo, hi) for _pk, lo, hi in queries.suggested_pairs(worker, 10)]
    assert found == [(items[lo].pk, items[hi].pk) for lo, hi in ((1, 2), (0, 2), (0, 1))]


def test_workers_share_out_the_suggestions(project: Project) -> None:
    study = make_large_study(project, random_share=0)
    items = list(Item.objects.filter(active=True))
    rows = [
        Suggestion(project=study, item_lo=lo, item_hi=hi, gain=1.0)
        for lo, hi in zip(items[::2], items[1::2], strict=True)
    ]
    Suggestion.objects.bulk_create(rows)
    for seed in range(3):
        leased = lease_pairs(worker=services.enrol(project=study), rng=Random(seed))
        assert {pair.policy for pair in leased} == {"suggested"}
    assert set(Suggestion.objects.values_list("issued", flat=True)) == {1}, "15 suggestions for 3 x 5 pairs"


def test_pairs_beside_suggestions_do_not_depend_on_how_often_items_were_issued(project: Project) -> None:
    """Otherwise the random share would depend on the answers, through the items that the model likes to suggest."""
    study = make_large_study(project, random_share=100)
    items = list(Item.objects.filter(active=True).order_by("pk"))
    often_issued = {item.pk for item in items[:8]}  # so many that 60 random pairs cannot miss them all
    Item.objects.filter(pk__in=often_issued).update(load=100)
    Suggestion.objects.create(project=study, item_lo=items[0], item_hi=items[1], gain=1.0)
    leased = [
        pair for seed in range(60) for pair in lease_pairs(worker=services.enrol(project=study), rng=Random(seed))[:1]
    ]
    assert any(often_issued & {pair.item_lo_id, pair.item_hi_id} for pair in leased)
    n_pairs = len(items) * (len(items) - 1) / 2
    for pair in leased:
        assert pair.policy == "random"
        assert pair.propensity == pytest.approx(1 / n_pairs, rel=0.15), "full pairs change it a little"


def test_another_purpose_removes_the_suggestions(project: Project, worker: Worker) -> None:
    lo, hi = Item.objects.filter(group="cats")[:2]
    Suggestion.objects.create(project=project, item_lo=lo, item_hi=hi, gain=1.0)
    services.change_project(project=project, user=None, changes={"title": "Animals"})
    assert Suggestion.objects.count() == 1
    services.change_project(project=project, user=None, changes={"suggestions": "none"})
    assert Suggestion.objects.count() == 0


def test_a_pair_that_the_worker_judged_in_an_imported_file_is_not_issued(project: Project, worker: Worker) -> None:
    cats = list(Item.objects.filter(group="cats"))
    Item.objects.exclude(pk__in=[item.pk for item in cats]).update(active=False)
    pairs = list(combinations(cats, 2))
    judged = [make_judgement(worker, lo, hi) for lo, hi in pairs[:-1]]
    event_log.append(judged)
    Suggestion.objects.create(project=project, item_lo=pairs[0][0], item_hi=pairs[0][1], gain=1.0)
    leased = lease_pairs(worker=worker, rng=Random(1))
    assert [(lease.item_lo, lease.item_hi) for lease in leased] == pairs[-1:]


def make_judgement(worker: Worker, lo: Item, hi: Item) -> Judgement:
    return Judgement(
        uuid=uuid4(),
        project=worker.project,
        worker=worker,
        item_lo=lo,
        item_hi=hi,
        choice="lo",
        source="import",
        created_at=timezone.now(),
    )
