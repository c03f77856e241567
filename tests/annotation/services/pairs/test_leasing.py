"""Leasing and pair selection: balanced, no unplanned repeats, never beyond the redundancy."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation import services
from annotation.http import throttling
from annotation.models import Assignment, Item, Judgement, Project, Suggestion, Worker
from annotation.services import Receipt, lease_pairs
from annotation.services.pairs.selection import Candidate, PairSelector, sample_pair, search_pair
from annotation.services.participation.quotas import renew_quotas
from annotation.services.verification import find_problems
from tests.annotation.variety import find_repetitions, judge_all
from tests.conftest import make_items

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

QUERIES = 12  # queries per answer
QUERIES_WITH_LEASES = 33  # queries per answer that also leases pairs


def pairs_of(leases: list[Assignment]) -> list[tuple[int, int]]:
    return [(lease.item_lo_id, lease.item_hi_id) for lease in leases]


def test_at_most_five_pairs_are_leased_and_asking_again_returns_the_same(worker: Worker, rng: Random) -> None:
    first, second = (lease_pairs(worker=worker, rng=rng) for _ in range(2))
    assert len(first) == 5
    assert pairs_of(first) == pairs_of(second)
    assert len(set(pairs_of(first))) == 5


def test_no_more_pairs_are_leased_than_the_worker_needs(worker: Worker, rng: Random) -> None:
    worker.project.judgements_per_worker = 3
    assert len(lease_pairs(worker=worker, rng=rng)) == 3


def test_answers_on_another_device_since_the_page_was_asked_for_lower_the_number_of_new_leases(
    worker: Worker, rng: Random
) -> None:
    worker.project.judgements_per_worker = 6
    for lease in lease_pairs(worker=worker, rng=rng)[:3]:
        services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")
    assert len(lease_pairs(worker=worker, rng=rng, done=0)) == 3, "with the three answers the six that are wanted"


def test_the_owner_can_allow_twenty_pairs_ahead(project: Project, rng: Random) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(30)], "birds")
    project.pairs_ahead = 20
    worker = services.enrol(project=project)
    leases = lease_pairs(worker=worker, rng=rng)
    assert len(set(pairs_of(leases))) == 20
    assert find_repetitions(pairs_of(leases)) == []
    for lease in leases[:4]:
        services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")
    again = lease_pairs(worker=worker, rng=rng)
    assert len(again) == 20
    assert pairs_of(again)[:16] == pairs_of(leases)[4:]


def test_more_than_five_pairs_ahead_leave_enough_for_others(project: Project, rng: Random) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(6)], "birds")
    Item.objects.exclude(group="birds").update(active=False)
    project.pairs_ahead, project.redundancy = 20, 5
    workers = [services.enrol(project=project) for _ in range(8)]
    held = [len(lease_pairs(worker=worker, rng=rng)) for worker in workers]
    assert held == [7, 6, 6, 5, 5, 5, 5, 5]  # a tenth of 75 free slots, then of 68, 62 ..., but at least five


def test_a_pair_is_never_issued_to_more_workers_than_its_redundancy(project: Project, rng: Random) -> None:
    project.redundancy = 2
    project.save()
    for _ in range(9):
        lease_pairs(worker=services.enrol(project=project), rng=rng)
    issued = Counter(pairs_of(list(Assignment.objects.all())))
    assert max(issued.values()) == 2
    assert len(issued) == 6 + 3, "every pair within a group is in use"


def test_the_least_judged_items_come_first(project: Project, rng: Random) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(6)], "birds")
    Item.objects.exclude(group="birds").update(load=100)
    leases = lease_pairs(worker=services.enrol(project=project), rng=rng)
    assert {lease.item_lo.group for lease in leases} == {"birds"}


def test_loads_count_issued_pairs(project: Project, worker: Worker, rng: Random) -> None:
    lease_pairs(worker=worker, rng=rng)
    counts = Counter(item for pair in pairs_of(list(Assignment.objects.all())) for item in pair)
    assert dict(Item.objects.exclude(load=0).values_list("pk", "load")) == counts


def test_pairs_cross_groups_if_the_study_allows_it(project: Project, worker: Worker, rng: Random) -> None:
    worker.project.pairs = Project.Pairs.ANY
    groups = {(lease.item_lo.group, lease.item_hi.group) for lease in lease_pairs(worker=worker, rng=rng)}
    assert ("cats", "dogs") in groups


def test_no_item_is_paired_with_itself(rng: Random) -> None:
    """Checks both sampling and exhaustive search."""
    group = {1: [2, 3, 4], 2: [1, 3, 4], 3: [1, 2, 4], 4: [1, 2, 3]}
    candidates = [Candidate(item, "", 0, frozenset()) for item in group]
    sampled = (sample_pair(list(group), group.__getitem__, rng, tries=1) for _ in range(50_000))
    searched = (search_pair(candidates, rng) for _ in range(50_000))
    assert not [pair for pairs in (sampled, searched) for pair in pairs if pair is None or pair.lo >= pair.hi]


def test_items_with_the_same_text_are_distinct_items(project: Project) -> None:
    make_items(project, ["The same words."] * 5, "twins")
    for seed in range(20):
        for lease in lease_pairs(worker=services.enrol(project=project), rng=Random(seed)):
            assert lease.item_lo_id < lease.item_hi_id


def expire(**leases: object) -> None:
    long_ago = timezone.now() - timedelta(days=1)
    Assignment.objects.filter(**leases).update(issued_at=long_ago, expires_at=long_ago + timedelta(minutes=1))


def test_an_expired_lease_frees_the_pair_and_a_late_answer_is_accepted(project: Project, rng: Random) -> None:
    Item.objects.filter(group="cats").update(active=False)
    Project.objects.update(redundancy=1)
    slow, quick = services.enrol(project=project), services.enrol(project=Project.objects.get(pk=project.pk))
    slow.project.redundancy = 1
    lost = lease_pairs(worker=slow, rng=rng)
    assert len(lost) == 3
    assert lease_pairs(worker=quick, rng=rng) == []
    expire(worker=slow)
    won = lease_pairs(worker=quick, rng=rng)
    assert set(pairs_of(won)) == set(pairs_of(lost))
    receipts = [
        services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")
        for worker, lease in ((quick, won[0]), (slow, next(x for x in lost if pairs_of([x]) == pairs_of(won[:1]))))
    ]
    assert [receipt.judgement.late for receipt in receipts] == [False, True]
    assert Judgement.objects.count() == 2
    assert list(find_problems(project)) == []


@pytest.fixture
def shift_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Return a function that moves the server's clock forward or back."""
    off, now = [timedelta()], timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + off[0])

    def shift(by: timedelta) -> None:
        off[0] += by

    return shift


LEASE, PAUSE = timedelta(minutes=30), timedelta(minutes=5)
AGES = [timedelta(minutes=minutes) for minutes in (0, 10, 20, 29)]


@pytest.mark.parametrize("age", AGES, ids=str)
@pytest.mark.parametrize("back", [timedelta(minutes=5), timedelta(minutes=25), timedelta(hours=1)], ids=str)
def test_setting_the_clock_back_does_not_extend_a_lease_beyond_twice_its_length(
    project: Project,
    worker: Worker,
    rng: Random,
    shift_clock: Callable[[timedelta], None],
    age: timedelta,
    back: timedelta,
) -> None:
    """Another worker requests the only pair every five minutes until the lease has expired."""
    Item.objects.exclude(key__in=["dogs-1", "dogs-2"]).update(active=False)
    Project.objects.update(redundancy=1)
    worker.project.refresh_from_db()
    assert len(lease_pairs(worker=worker, rng=rng)) == 1
    shift_clock(age - back)
    waiting, lived = services.enrol(project=worker.project), age
    while not lease_pairs(worker=waiting, rng=rng):
        shift_clock(PAUSE)
        lived += PAUSE
    assert lived <= 2 * LEASE


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)], ids=["forward", "back"])
def test_a_clock_change_loses_no_answer_and_keeps_the_order(
    project: Project, worker: Worker, rng: Random, shift_clock: Callable[[timedelta], None], by: timedelta
) -> None:
    """Events are ordered by sequence, and an impossible response time is clipped and flagged."""
    first, second = lease_pairs(worker=worker, rng=rng)[:2]
    answer = {"worker": worker, "choice": "left", "response_ms": 4_000_000}
    services.record_judgement(uuid=uuid.uuid4(), assignment=first.public_id, **answer)
    shift_clock(by)
    late = services.record_judgement(uuid=uuid.uuid4(), assignment=second.public_id, **answer).judgement
    assert list(Judgement.objects.values_list("assignment", flat=True)) == [first.pk, second.pk]
    assert late.clock_doubtful
    assert late.response_ms <= max(by, timedelta()).total_seconds() * 1000 + 60_000
    assert late.late is (by > timedelta())
    assert list(find_problems(project)) == []


def test_an_expired_lease_whose_slot_is_free_is_extended(worker: Worker, rng: Random) -> None:
    before = lease_pairs(worker=worker, rng=rng)
    expire(worker=worker)
    after = lease_pairs(worker=worker, rng=rng)
    assert [lease.public_id for lease in after] == [lease.public_id for lease in before]
    assert all(lease.expires_at > timezone.now() for lease in after)


def test_an_inactive_item_is_no_longer_shown(worker: Worker, rng: Random) -> None:
    shown = lease_pairs(worker=worker, rng=rng)[0]
    Item.objects.filter(pk=shown.item_lo_id).update(active=False)
    for lease in lease_pairs(worker=worker, rng=rng):
        assert shown.item_lo_id not in pairs_of([lease])[0]


def test_a_pair_of_a_reactivated_item_can_be_issued_again(project: Project, rng: Random) -> None:
    Item.objects.filter(group="cats").update(active=False)
    Project.objects.update(redundancy=1)
    project.refresh_from_db()
    first, other = (services.enrol(project=project) for _ in range(2))
    off = lease_pairs(worker=first, rng=rng)[0].item_lo
    Item.objects.filter(pk=off.pk).update(active=False)
    lease_pairs(worker=first, rng=rng)
    Item.objects.filter(pk=off.pk).update(active=True)
    assert len([pair for pair in pairs_of(lease_pairs(worker=other, rng=rng)) if off.pk in pair]) == 2
    assert Item.objects.get(pk=off.pk).load == 2


def test_planned_repeats_occur_once_with_sides_swapped(project: Project, judge: Callable[..., Receipt]) -> None:
    Project.objects.update(repeat_share=50, judgements_per_worker=100)
    worker = services.enrol(project=Project.objects.get(pk=project.pk))
    while lease_pairs(worker=worker, rng=Random(5)):
        judge(worker)
    repeats = Assignment.objects.filter(purpose="repeat")
    assert repeats.count() >= 2
    for repeat in repeats:
        first = Assignment.objects.get(worker=worker, item_lo=repeat.item_lo, item_hi=repeat.item_hi, round=1)
        assert repeat.lo_is_left is not first.lo_is_left
        assert repeat.round == 2
    assert Counter(pairs_of(list(repeats))).most_common(1)[0][1] == 1


def test_a_retracted_pair_is_reissued_first_in_the_same_slot(
    worker: Worker, judge: Callable[..., Receipt], rng: Random
) -> None:
    judge(worker)
    judgement = judge(worker).judgement
    slot = judgement.assignment.slot
    services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    again = lease_pairs(worker=worker, rng=rng)[0]
    assert pairs_of([again]) == [(judgement.item_lo_id, judgement.item_hi_id)]
    assert (again.round, again.slot, again.lo_is_left) == (2, slot, judgement.lo_was_left)
    assert judge(worker, "tie").judgement.round == 2


def test_after_two_undos_the_last_retracted_pair_comes_first(
    worker: Worker, judge: Callable[..., Receipt], rng: Random
) -> None:
    first, second = judge(worker).judgement, judge(worker).judgement
    for judgement in (second, first):
        services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    shown = pairs_of(lease_pairs(worker=worker, rng=rng))
    assert shown[:2] == [(j.item_lo_id, j.item_hi_id) for j in (first, second)]


def test_sides_are_balanced_over_ten_thousand_selections(project: Project, worker: Worker, rng: Random) -> None:
    lo, hi = project.items.values_list("pk", flat=True)[:2]
    selector = PairSelector(worker, rng)
    left = sum(selector._in_free_slot(lo, hi)["lo_is_left"] for _ in range(10_000))
    assert abs(left - 5000) < 4 * 50  # four standard deviations of a fair coin


def test_the_order_shown_is_stored_with_the_judgement(worker: Worker, judge: Callable[..., Receipt]) -> None:
    for receipt in [judge(worker, "left") for _ in range(9)]:
        judgement, lease = receipt.judgement, receipt.judgement.assignment
        assert judgement.lo_was_left is lease.lo_is_left
        assert judgement.choice == ("lo" if lease.lo_is_left else "hi")


def count_queries_of_five_answers(client: Client) -> list[int]:
    """The number of queries of each of five answers; about one in three also leases new pairs."""
    counts = []
    for _ in range(5):
        throttling.memory.clear()
        pair = client.get("/s/pets/task/").json()["pairs"][0]
        answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        with CaptureQueriesContext(connection) as captured:
            assert client.post("/s/pets/judgements/", answer, content_type="application/json").status_code == 201
        counts.append(len(captured))
    return counts


def test_the_number_of_queries_per_answer_does_not_depend_on_the_size_of_the_study(
    project: Project, worker_client: Client
) -> None:
    counts = []
    for n_items in (30, 300, 3000):
        birds = [Item(project=project, key=f"b{n_items}-{n}", text=f"Bird {n}.", group="birds") for n in range(n_items)]
        Item.objects.bulk_create(birds)
        Item.objects.exclude(group="birds").update(active=False)
        renew_quotas(project)
        worker_client.get("/s/pets/task/")
        counts.append(count_queries_of_five_answers(worker_client))
    assert min(map(min, counts)) == QUERIES
    assert max(map(max, counts)) <= QUERIES_WITH_LEASES


def test_the_propensity_of_a_sampled_pair_is_its_frequency() -> None:
    partners = {1: [2, 3], 2: [1], 3: [1, 2]}
    counts: Counter[tuple[int, int]] = Counter()
    propensities: dict[tuple[int, int], float] = {}
    rng = Random(11)
    for _ in range(20_000):
        pair = sample_pair([1, 2], partners.__getitem__, rng, tries=1)
        counts[pair.lo, pair.hi] += 1
        propensities[pair.lo, pair.hi] = pair.propensity
    assert sum(propensities.values()) == pytest.approx(1.0)
    for pair, propensity in propensities.items():
        assert counts[pair] / 20_000 == pytest.approx(propensity, abs=0.015)


def test_searching_every_pair_gives_the_right_propensity() -> None:
    none = frozenset[int]()
    candidates = [Candidate(1, "", 0, none), Candidate(2, "", 0, none), Candidate(3, "", 1, none)]
    rng = Random(12)
    found = Counter((pair.lo, pair.hi, pair.propensity) for pair in (search_pair(candidates, rng) for _ in range(50)))
    assert set(found) == {(1, 2, 1.0)}
    assert search_pair([Candidate(1, "a", 0, none), Candidate(2, "b", 0, none)], rng) is None


@pytest.mark.django_db(transaction=True)
def test_workers_who_start_at_the_same_time_all_get_pairs(project: Project) -> None:
    """All lease pairs of the same few items, which deadlocks on PostgreSQL unless rows are locked in order."""
    make_items(project, [f"Birds, {n}." for n in range(12)], "birds")
    Project.objects.update(redundancy=1000)
    start, got, failed = threading.Barrier(12), [], []

    def join(seed: int) -> None:
        try:
            worker = services.enrol(project=Project.objects.get(pk=project.pk))
            start.wait(timeout=120)
            for _ in range(3):
                leases = lease_pairs(worker=worker, rng=Random(seed))
                got.append(len(leases))
                for lease in leases[:4]:
                    services.record_judgement(
                        worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left"
                    )
        except Exception as error:
            failed.append(repr(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=join, args=[seed]) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert got == [5] * 36
    counts = Counter(item for pair in pairs_of(list(Assignment.objects.all())) for item in pair)
    assert dict(Item.objects.exclude(load=0).values_list("pk", "load")) == counts


# Variety -------------------------------------------------------------------------------------------------------------


def make_large_study(project: Project, n_items: int = 30, **settings: object) -> Project:
    Item.objects.filter(project=project).update(active=False)
    make_items(project, [f"Birds sing, reason {n}." for n in range(n_items)], "birds")
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=25, redundancy=3, **settings)
    return Project.objects.get(pk=project.pk)


def test_ten_first_workers_meet_varied_texts(project: Project) -> None:
    study = make_large_study(project)
    for seed in range(10):
        shown = judge_all(study, seed)
        assert len(shown) == 25
        assert find_repetitions(shown) == []
    assert max(Counter(pairs_of(list(Assignment.objects.all()))).values()) <= study.redundancy
    loads = [item.load for item in Item.objects.filter(active=True)]
    assert max(loads) - min(loads) <= 2, "as balanced as without the rule"


def test_repeats_and_suggestions_follow_the_rule_too(project: Project) -> None:
    study = make_large_study(project, repeat_share=30, random_share=0)
    favourite, *others = Item.objects.filter(active=True)  # the model would like this item in every pair
    rows = [Suggestion(project=study, item_lo=favourite, item_hi=other, gain=9.0) for other in others]
    Suggestion.objects.bulk_create(rows)
    for seed in range(3):
        assert find_repetitions(judge_all(study, seed)) == []
    used = Counter(Assignment.objects.values_list("policy", flat=True))
    assert used["repeat"] >= 3
    assert used["suggested"] >= 12


def test_two_items_that_lag_behind_are_not_shown_in_every_pair(project: Project) -> None:
    study = make_large_study(project)
    lagging = list(Item.objects.filter(active=True).values_list("pk", flat=True)[:2])
    Item.objects.filter(active=True).exclude(pk__in=lagging).update(load=100)
    shown = judge_all(study, seed=1)
    assert find_repetitions(shown) == []
    appearances = Counter(item for pair in shown for item in pair)
    assert [appearances[item] for item in lagging] >= [7, 7], "they still come as often as the rule allows"


def test_a_small_study_shows_every_pair_in_spite_of_the_rule(project: Project) -> None:
    Project.objects.update(judgements_per_worker=9)
    assert len(set(judge_all(Project.objects.get(pk=project.pk), seed=3))) == 9


def test_the_variety_of_a_worker_costs_one_query(worker: Worker, rng: Random) -> None:
    with CaptureQueriesContext(connection) as captured:
        lease_pairs(worker=worker, rng=rng)
    assert len([query for query in captured if "purpose <> 'again'" in query["sql"]]) == 1
