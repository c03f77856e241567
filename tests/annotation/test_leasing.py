"""Which pair, for whom, for how long: fair, never twice by accident, never beyond what the study allows."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation import services
from annotation.assignment import Candidate, choose_pair, draw_pair
from annotation.models import Assignment, Item, Judgement, Project, Suggestion, Worker
from annotation.services import Receipt, lease_pairs
from annotation.services.choosing import Chooser
from annotation.verification import problems_of
from tests.conftest import make_items

pytestmark = pytest.mark.django_db

PLAIN_ANSWER = 12
ANSWER_WITH_NEW_PAIRS = 31


def pairs_of(leases: list[Assignment]) -> list[tuple[int, int]]:
    return [(lease.item_lo_id, lease.item_hi_id) for lease in leases]


def test_at_most_five_pairs_are_lent_ahead_and_asking_again_gives_the_same(worker: Worker, rng: Random) -> None:
    first, second = (lease_pairs(worker=worker, rng=rng) for _ in range(2))
    assert len(first) == 5
    assert pairs_of(first) == pairs_of(second)
    assert len(set(pairs_of(first))) == 5


def test_no_more_is_lent_than_the_worker_still_owes(worker: Worker, rng: Random) -> None:
    worker.project.judgements_per_worker = 3
    assert len(lease_pairs(worker=worker, rng=rng)) == 3


def test_a_pair_is_never_given_to_more_workers_than_the_study_wants(project: Project, rng: Random) -> None:
    project.redundancy = 2
    project.save()
    for _ in range(9):
        lease_pairs(worker=services.enrol(project=project), rng=rng)
    given = Counter(pairs_of(list(Assignment.objects.all())))
    assert max(given.values()) == 2
    assert len(given) == 6 + 3, "every pair within a group is in use"


def test_the_least_judged_items_come_first(project: Project, rng: Random) -> None:
    Item.objects.filter(group="cats").update(load=100)
    leases = lease_pairs(worker=services.enrol(project=project), rng=rng)
    assert {lease.item_lo.group for lease in leases[:3]} == {"dogs"}


def test_loads_count_what_was_given_out(project: Project, worker: Worker, rng: Random) -> None:
    lease_pairs(worker=worker, rng=rng)
    counts = Counter(item for pair in pairs_of(list(Assignment.objects.all())) for item in pair)
    assert dict(Item.objects.exclude(load=0).values_list("pk", "load")) == counts


def test_any_two_items_meet_where_the_study_says_so(project: Project, worker: Worker, rng: Random) -> None:
    worker.project.pairs = Project.Pairs.ANY
    groups = {(lease.item_lo.group, lease.item_hi.group) for lease in lease_pairs(worker=worker, rng=rng)}
    assert ("cats", "dogs") in groups


def test_a_hundred_thousand_draws_hold_no_item_against_itself(rng: Random) -> None:
    """P6, of both ways to draw; that texts are the same does not matter: only keys are looked at."""
    group = {1: [2, 3, 4], 2: [1, 3, 4], 3: [1, 2, 4], 4: [1, 2, 3]}
    candidates = [Candidate(item, "", 0, frozenset()) for item in group]
    quick = (draw_pair(list(group), group.__getitem__, rng, tries=1) for _ in range(50_000))
    thorough = (choose_pair(candidates, rng) for _ in range(50_000))
    assert not [pair for pairs in (quick, thorough) for pair in pairs if pair is None or pair.lo >= pair.hi]


def test_items_with_the_same_text_never_meet_themselves(project: Project) -> None:
    make_items(project, ["The same words."] * 5, "twins")
    for seed in range(20):
        for lease in lease_pairs(worker=services.enrol(project=project), rng=Random(seed)):
            assert lease.item_lo_id < lease.item_hi_id


def expire(**leases: object) -> None:
    long_ago = timezone.now() - timedelta(days=1)
    Assignment.objects.filter(**leases).update(issued_at=long_ago, expires_at=long_ago + timedelta(minutes=1))


def test_a_lease_that_ran_out_frees_the_pair_and_the_late_answer_is_kept(project: Project, rng: Random) -> None:
    """P8."""
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
    assert list(problems_of(project)) == []


@pytest.fixture
def turn_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """turn_clock(by): the server's clock is set forward or back."""
    off, now = [timedelta()], timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + off[0])

    def turn(by: timedelta) -> None:
        off[0] += by

    return turn


LEASE, PAUSE = timedelta(minutes=30), timedelta(minutes=5)
AGES = [timedelta(minutes=minutes) for minutes in (0, 10, 20, 29)]


@pytest.mark.parametrize("age", AGES, ids=str)
@pytest.mark.parametrize("back", [timedelta(minutes=5), timedelta(minutes=25), timedelta(hours=1)], ids=str)
def test_no_lease_lives_longer_than_twice_its_length_when_the_clock_is_set_back(
    project: Project,
    worker: Worker,
    rng: Random,
    turn_clock: Callable[[timedelta], None],
    age: timedelta,
    back: timedelta,
) -> None:
    """P13, in a study with one pair for one worker, while another asks for it every five minutes."""
    Item.objects.exclude(key__in=["dogs-1", "dogs-2"]).update(active=False)
    Project.objects.update(redundancy=1)
    worker.project.refresh_from_db()
    assert len(lease_pairs(worker=worker, rng=rng)) == 1
    turn_clock(age - back)
    waiting, lived = services.enrol(project=worker.project), age
    while not lease_pairs(worker=waiting, rng=rng):
        turn_clock(PAUSE)
        lived += PAUSE
    assert lived <= 2 * LEASE


@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1)], ids=["forward", "back"])
def test_a_clock_that_jumps_loses_no_answer_and_keeps_the_order(
    project: Project, worker: Worker, rng: Random, turn_clock: Callable[[timedelta], None], by: timedelta
) -> None:
    """P13: order is that of the sequence, and a time the lease cannot have seen is clipped and flagged."""
    first, second = lease_pairs(worker=worker, rng=rng)[:2]
    answer = {"worker": worker, "choice": "left", "response_ms": 4_000_000}
    services.record_judgement(uuid=uuid.uuid4(), assignment=first.public_id, **answer)
    turn_clock(by)
    late = services.record_judgement(uuid=uuid.uuid4(), assignment=second.public_id, **answer).judgement
    assert list(Judgement.objects.values_list("assignment", flat=True)) == [first.pk, second.pk]
    assert late.clock_doubtful
    assert late.response_ms <= max(by, timedelta()).total_seconds() * 1000 + 60_000
    assert late.late is (by > timedelta())
    assert list(problems_of(project)) == []


def test_a_lease_that_ran_out_and_nobody_took_is_simply_extended(worker: Worker, rng: Random) -> None:
    before = lease_pairs(worker=worker, rng=rng)
    expire(worker=worker)
    after = lease_pairs(worker=worker, rng=rng)
    assert [lease.public_id for lease in after] == [lease.public_id for lease in before]
    assert all(lease.expires_at > timezone.now() for lease in after)


def test_a_text_that_was_switched_off_is_no_longer_shown(worker: Worker, rng: Random) -> None:
    shown = lease_pairs(worker=worker, rng=rng)[0]
    Item.objects.filter(pk=shown.item_lo_id).update(active=False)
    for lease in lease_pairs(worker=worker, rng=rng):
        assert shown.item_lo_id not in pairs_of([lease])[0]


def test_a_pair_whose_text_was_off_for_a_while_can_be_given_out_again(project: Project, rng: Random) -> None:
    Item.objects.filter(group="cats").update(active=False)
    Project.objects.update(redundancy=1)
    project.refresh_from_db()
    holder, other = (services.enrol(project=project) for _ in range(2))
    off = lease_pairs(worker=holder, rng=rng)[0].item_lo
    Item.objects.filter(pk=off.pk).update(active=False)
    lease_pairs(worker=holder, rng=rng)
    Item.objects.filter(pk=off.pk).update(active=True)
    assert len([pair for pair in pairs_of(lease_pairs(worker=other, rng=rng)) if off.pk in pair]) == 2
    assert Item.objects.get(pk=off.pk).load == 2


def test_planned_repeats_come_once_with_sides_swapped(project: Project, judge: Callable[..., Receipt]) -> None:
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


def test_suggestions_are_used_and_a_random_share_is_kept(project: Project) -> None:
    make_items(project, [f"Birds, {n}." for n in range(40)], "birds")
    lo, hi = Item.objects.filter(group="birds").order_by("-pk")[:2][::-1]
    Project.objects.update(random_share=50, redundancy=1000)
    Suggestion.objects.create(project=project, item_lo=lo, item_hi=hi, gain=1.0)
    policies: Counter[str] = Counter()
    for seed in range(40):
        worker = services.enrol(project=Project.objects.get(pk=project.pk))
        policies[lease_pairs(worker=worker, rng=Random(seed))[0].policy] += 1
    assert 8 <= policies["suggested"] <= 32
    assert policies["least-judged"] == 40 - policies["suggested"]


def test_a_suggestion_is_not_given_to_a_worker_who_has_had_it(worker: Worker, rng: Random) -> None:
    first = lease_pairs(worker=worker, rng=rng)[0]
    pair = {"item_lo": first.item_lo, "item_hi": first.item_hi}
    Suggestion.objects.create(project=worker.project, gain=9.0, **pair)
    assert not Suggestion.objects.fresh_for(worker).exists()


def test_what_was_taken_back_comes_first_again_in_the_same_place(
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


def test_after_two_undos_the_one_just_taken_back_comes_first(
    worker: Worker, judge: Callable[..., Receipt], rng: Random
) -> None:
    first, second = judge(worker).judgement, judge(worker).judgement
    for judgement in (second, first):
        services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    shown = pairs_of(lease_pairs(worker=worker, rng=rng))
    assert shown[:2] == [(j.item_lo_id, j.item_hi_id) for j in (first, second)]


def test_left_and_right_are_fair_over_ten_thousand_draws(project: Project, worker: Worker, rng: Random) -> None:
    """Asked of the policy itself for one pair; `make drills` asks it of ten thousand rows."""
    lo, hi = project.items.values_list("pk", flat=True)[:2]
    chooser = Chooser(worker, rng)
    left = sum(chooser._placed(lo, hi)["lo_is_left"] for _ in range(10_000))
    assert abs(left - 5000) < 4 * 50  # four standard deviations of a fair coin


def test_the_order_shown_is_recovered_from_the_rows(worker: Worker, judge: Callable[..., Receipt]) -> None:
    for receipt in [judge(worker, "left") for _ in range(9)]:
        judgement, lease = receipt.judgement, receipt.judgement.assignment
        assert judgement.lo_was_left is lease.lo_is_left
        assert judgement.choice == ("lo" if lease.lo_is_left else "hi")


def statements_of_five_answers(client: Client) -> list[int]:
    """How many statements each of five answers takes: most need none for new pairs, one in three fetches some."""
    counts = []
    for _ in range(5):
        cache.clear()  # quicker than a person may be
        pair = client.get("/s/pets/task/").json()["pairs"][0]
        answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        with CaptureQueriesContext(connection) as captured:
            assert client.post("/s/pets/judgements/", answer, content_type="application/json").status_code == 201
        counts.append(len(captured))
    return counts


def test_an_answer_takes_the_same_number_of_statements_however_large_the_study(
    project: Project, worker_client: Client
) -> None:
    counts = []
    for n_items in (30, 300, 3000):
        birds = [Item(project=project, key=f"b{n_items}-{n}", text=f"Bird {n}.", group="birds") for n in range(n_items)]
        Item.objects.bulk_create(birds)
        Item.objects.exclude(group="birds").update(active=False)
        worker_client.get("/s/pets/task/")
        counts.append(statements_of_five_answers(worker_client))
    assert min(map(min, counts)) == PLAIN_ANSWER
    assert max(map(max, counts)) <= ANSWER_WITH_NEW_PAIRS


def test_the_chance_of_a_pair_is_what_it_is_said_to_be() -> None:
    """Drawn often from a small world, each pair comes as often as its recorded propensity says."""
    partners = {1: [2, 3], 2: [1], 3: [1, 2]}
    drawn: Counter[tuple[int, int]] = Counter()
    chance: dict[tuple[int, int], float] = {}
    rng = Random(11)
    for _ in range(20_000):
        pair = draw_pair([1, 2], partners.__getitem__, rng, tries=1)
        drawn[pair.lo, pair.hi] += 1
        chance[pair.lo, pair.hi] = pair.propensity
    assert sum(chance.values()) == pytest.approx(1.0)
    for pair, propensity in chance.items():
        assert drawn[pair] / 20_000 == pytest.approx(propensity, abs=0.015)


def test_looking_at_every_pair_agrees_with_the_quick_draw_about_chances() -> None:
    nobody = frozenset[int]()
    candidates = [Candidate(1, "", 0, nobody), Candidate(2, "", 0, nobody), Candidate(3, "", 1, nobody)]
    rng = Random(12)
    drawn = Counter((pair.lo, pair.hi, pair.propensity) for pair in (choose_pair(candidates, rng) for _ in range(50)))
    assert set(drawn) == {(1, 2, 1.0)}
    assert choose_pair([Candidate(1, "a", 0, nobody), Candidate(2, "b", 0, nobody)], rng) is None


@pytest.mark.django_db(transaction=True)
def test_workers_who_start_in_the_same_moment_all_get_pairs(project: Project) -> None:
    """Each takes five pairs of the same few items: on PostgreSQL this deadlocks unless locks are taken in one order."""
    make_items(project, [f"Birds, {n}." for n in range(12)], "birds")
    Project.objects.update(redundancy=1000)
    start, got, failed = threading.Barrier(12), [], []

    def join(seed: int) -> None:
        try:
            worker = services.enrol(project=Project.objects.get(pk=project.pk))
            start.wait(timeout=30)
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
