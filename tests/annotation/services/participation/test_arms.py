"""Arms: balanced assignment, own texts, items and slots for each arm."""

import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import Arm, Assignment, Judgement, PlatformIdentity, Project, Suggestion, User, Worker
from annotation.models.arms import Design
from annotation.services.pairs.counts import count_pairs, count_possible_pairs
from annotation.services.participation.arms import ArmInUse, change_arms, count_present, summarise_arms, tie_break
from annotation.services.participation.outcomes import end_participation
from annotation.services.participation.passport import freeze, get_passport, list_changes
from annotation.services.participation.preparation import change_preparation
from annotation.services.participation.reconciliation import list_participants
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
Judge = Callable[..., services.Receipt]
LogIn = Callable[[User], Client]
Outcome = Worker.Outcome


def add_arms(project: Project, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None) -> list[Arm]:
    """Give the study the arms “plain” and “other” with these settings."""
    arms = [Arm(name=name, **(values or {})) for name, values in (("plain", first), ("other", second))]
    change_arms(project=project, user=None, arms=arms)
    return list(Arm.objects.filter(project=project))


def counts_by_arm(**conditions: Any) -> dict[str, int]:
    return Counter(Worker.objects.filter(**conditions).values_list("arm__name", flat=True))


# Assignment ----------------------------------------------------------------------------------------------------------


def test_a_study_without_arms_assigns_none(project: Project) -> None:
    assert services.enrol(project=project).arm is None


def test_each_worker_goes_to_the_arm_with_the_fewest_completed_and_active_workers(project: Project) -> None:
    plain, other = add_arms(project)
    rng = Random(5)
    for _ in range(40):
        before = count_present(project, timezone.now())
        worker = services.enrol(project=project)
        fewest = min(before.get(plain.pk, 0), before.get(other.pk, 0))
        assert before.get(worker.arm_id, 0) == fewest
        if rng.random() < 0.4:
            end_participation(worker=worker, outcome=rng.choice([Outcome.STOPPED, Outcome.FAILED_CHECKS]))
        elif rng.random() < 0.5:
            end_participation(worker=worker, outcome=Outcome.FINISHED)
    present = count_present(project, timezone.now())
    assert abs(present[plain.pk] - present[other.pk]) <= 1


def test_a_tie_is_decided_by_the_worker_code_alone(project: Project) -> None:
    add_arms(project)
    worker = services.enrol(project=project)
    expected = min(("plain", "other"), key=lambda name: tie_break(name, worker.code))
    assert worker.arm.name == expected


def test_a_worker_who_left_long_ago_no_longer_holds_a_place(project: Project) -> None:
    add_arms(project)
    gone = [services.enrol(project=project) for _ in range(2)]
    Worker.objects.filter(pk=gone[0].pk).update(joined_at=timezone.now() - timedelta(hours=1))
    assert services.enrol(project=project).arm == gone[0].arm


def test_a_worker_who_answers_after_a_long_time_counts_again(project: Project, judge: Judge) -> None:
    add_arms(project)
    slow, quick = (services.enrol(project=project) for _ in range(2))
    Worker.objects.filter(pk=slow.pk).update(joined_at=timezone.now() - timedelta(hours=1))
    judge(slow)
    assert count_present(project, timezone.now()) == {slow.arm_id: 1, quick.arm_id: 1}


def test_simulated_workers_do_not_change_the_balance_of_people(project: Project) -> None:
    add_arms(project)
    person = services.enrol(project=project)
    for number in range(3):
        services.enrol_once(project=project, code=f"simulated-{number}")
    assert services.enrol(project=project).arm != person.arm


def test_the_same_identity_keeps_its_arm(project: Project) -> None:
    add_arms(project)
    first = services.enrol(project=project, platform="prolific", external_id="5f" * 12)
    services.enrol(project=project)
    again = services.enrol(project=project, platform="prolific", external_id="5f" * 12)
    assert (again.pk, again.arm) == (first.pk, first.arm)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_parallel_joins_are_balanced(project: Project) -> None:
    add_arms(project)
    run_concurrently([lambda: services.enrol(project=project)] * 20)
    assert counts_by_arm() == {"plain": 10, "other": 10}


# Items, pairs and slots ----------------------------------------------------------------------------------------------


def judge_all(worker: Worker, rng: Random) -> set[tuple[int, int]]:
    """Answer every pair that this worker gets."""
    while leases := services.lease_pairs(worker=worker, rng=rng):
        services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=leases[0].public_id, choice="left")
    return set(worker.judgements.values_list("item_lo", "item_hi"))


def enrol_into(project: Project, arm: Arm) -> Worker:
    worker = services.enrol(project=project)
    Worker.objects.filter(pk=worker.pk).update(arm=arm)
    worker.arm = arm
    return worker


def test_workers_get_only_the_items_of_their_arm(project: Project, rng: Random) -> None:
    cats, mixed = add_arms(project, {"groups": ["cats"]}, {"keys": ["cats-1", "dogs-1", "dogs-2"], "pairs": "any"})
    assert [count_pairs(Design(project, arm)) for arm in (cats, mixed)] == [6, 3]
    keys = dict(project.items.values_list("pk", "key"))
    seen = {
        arm: {keys[item] for pair in judge_all(enrol_into(project, arm), rng) for item in pair} for arm in (cats, mixed)
    }
    assert seen == {cats: {f"cats-{n}" for n in range(1, 5)}, mixed: {"cats-1", "dogs-1", "dogs-2"}}


@pytest.mark.both_databases
def test_each_arm_has_the_full_redundancy_of_a_pair(project: Project, rng: Random) -> None:
    Project.objects.update(redundancy=2)
    project.refresh_from_db()
    plain, other = add_arms(project)
    for arm in (plain, other, plain, other, plain):
        judge_all(enrol_into(project, arm), rng)
    for arm in (plain, other):
        pairs = Counter(Judgement.objects.filter(worker__arm=arm).values_list("item_lo", "item_hi"))
        assert set(pairs.values()) == {2}
        assert len(pairs) == 6 + 3
    slots = set(Assignment.objects.filter(slot__isnull=False).values_list("slot", flat=True))
    assert slots == {1001, 1002, 2001, 2002}


def test_a_lower_redundancy_does_not_open_slots_of_another_arm(project: Project, rng: Random) -> None:
    plain, other = add_arms(project)
    judge_all(enrol_into(project, plain), rng)
    Project.objects.update(redundancy=1)
    project.refresh_from_db()
    assert not judge_all(enrol_into(project, plain), rng)
    assert len(judge_all(enrol_into(project, other), rng)) == 9


def test_items_are_balanced_within_an_arm(project: Project, rng: Random) -> None:
    """Answers of the other arm do not make an item rarer in this one."""
    Project.objects.update(redundancy=10, judgements_per_worker=3)
    project.refresh_from_db()
    cats, mixed = add_arms(project, {"keys": ["cats-1", "cats-2"]}, {"groups": ["cats"]})
    for _ in range(4):
        judge_all(enrol_into(project, cats), rng)
    for _ in range(6):
        judge_all(enrol_into(project, mixed), rng)
    shown = Counter(
        key
        for pair in Judgement.objects.filter(worker__arm=mixed).values_list("item_lo__key", "item_hi__key")
        for key in pair
    )
    assert max(shown.values()) - min(shown.values()) <= 2, shown


def test_suggestions_outside_the_arm_are_not_used(project: Project, rng: Random) -> None:
    Project.objects.update(random_share=0)
    project.refresh_from_db()
    cats, _dogs = add_arms(project, {"groups": ["cats"]}, {"groups": ["dogs"]})
    pks = dict(project.items.values_list("key", "pk"))
    suggestions = [
        Suggestion(project=project, item_lo_id=pks[lo], item_hi_id=pks[hi], gain=gain)
        for lo, hi, gain in [("dogs-1", "dogs-2", 9.0), ("dogs-1", "dogs-3", 8.0), ("cats-1", "cats-3", 1.0)]
    ]
    services.replace_suggestions(project=project, user=None, suggestions=suggestions)
    leases = services.lease_pairs(worker=enrol_into(project, cats), rng=rng)
    assert (leases[0].item_lo.key, leases[0].item_hi.key, Assignment.objects.get(pk=leases[0].pk).policy) == (
        "cats-1",
        "cats-3",
        "suggested",
    )
    assert {lease.item_lo.group for lease in leases} == {"cats"}


def test_possible_pairs_are_those_of_the_smallest_arm_and_of_all(project: Project) -> None:
    add_arms(project, {"groups": ["dogs"]}, {"pairs": "any"})
    possible = count_possible_pairs(project)
    assert (possible.fewest, possible.total) == (3, 3 + 21)


def test_a_study_with_an_arm_without_pairs_cannot_open(project: Project, owner: User, log_in: LogIn) -> None:
    Project.objects.update(state="draft")
    add_arms(project, {"keys": ["dogs-1"]})
    response = log_in(owner).post("/projects/pets/state/", {"state": "open"})
    assert response.status_code == 422
    assert "The arm “plain” has no pairs" in response.content.decode()


# Texts ---------------------------------------------------------------------------------------------------------------


def test_workers_read_the_texts_of_their_arm_only_after_they_agree(project: Project, client: Client) -> None:
    own = {"question": "Which is kinder?", "instructions": "Think of **kindness**."}
    add_arms(project, own, own)
    Project.objects.update(instructions="Think of logic.")
    welcome = client.get("/s/pets/").content.decode()
    assert "Which is kinder?" not in welcome
    assert "Think of logic." not in welcome
    assert "Which argument is more convincing?" not in welcome
    page = client.post("/s/pets/join/", {"consent": "on"}, follow=True)
    assert page.request["PATH_INFO"] == "/s/pets/prepare/"
    assert "Which is kinder?" in page.content.decode()
    assert "<strong>kindness</strong>" in page.content.decode()
    assert client.get("/s/pets/task/").status_code == 401, "no pair before the instructions"
    pairs = client.post("/s/pets/prepare/", follow=True).content.decode()
    assert "Which is kinder?" in pairs
    assert "Which argument is more convincing?" not in pairs
    assert "Think of logic." not in pairs


def test_workers_of_an_arm_without_own_texts_start_at_once(project: Project, client: Client) -> None:
    add_arms(project, {"groups": ["cats"]}, {"groups": ["dogs"]})
    page = client.post("/s/pets/join/", {"consent": "on"}, follow=True)
    assert page.request["PATH_INFO"] == "/s/pets/"
    assert "Which argument is more convincing?" in page.content.decode()


def test_practice_follows_the_texts_of_the_arm(project: Project, client: Client) -> None:
    pair = {"first": "A", "second": "B", "answer": "left", "explanation": "Because."}
    change_preparation(project=project, user=None, practice=[pair], comprehension=[])
    add_arms(project, {"question": "Which is kinder?"}, {"question": "Which is truer?"})
    client.post("/s/pets/join/", {"consent": "on"})
    arm = Worker.objects.get().arm
    assert "Practice 1 of 1" not in client.get("/s/pets/prepare/").content.decode()
    practice = client.post("/s/pets/prepare/", follow=True).content.decode()
    assert "Practice 1 of 1" in practice
    assert arm.question in practice


# Changing arms -------------------------------------------------------------------------------------------------------


def test_an_arm_with_workers_cannot_be_removed(project: Project) -> None:
    add_arms(project)
    services.enrol(project=project)
    with pytest.raises(ArmInUse):
        change_arms(project=project, user=None, arms=[])
    assert Arm.objects.count() == 2


def test_two_arms_can_swap_their_names(project: Project) -> None:
    plain, other = add_arms(project)
    plain.name, other.name = other.name, plain.name
    change_arms(project=project, user=None, arms=[plain, other])
    assert list(Arm.objects.values_list("number", "name")) == [(1, "other"), (2, "plain")]


def test_arms_are_frozen_with_the_plan_and_changes_are_listed(project: Project, owner: User) -> None:
    plain, other = add_arms(project, {"groups": ["cats"]})
    freeze(project)
    passport = get_passport(project)
    assert passport.content["arms"] == [{"name": "plain", "groups": ["cats"]}, {"name": "other"}]
    plain.groups = ["dogs"]
    change_arms(project=project, user=owner, arms=[plain, other])
    [change] = list_changes(passport)
    assert (change.name, change.by) == ("arms", "olga")
    assert change.new[0] == {"name": "plain", "groups": ["dogs"]}


def test_participants_can_be_limited_to_one_arm(project: Project) -> None:
    plain, _other = add_arms(project)
    for number in range(4):
        worker = services.enrol(project=project)
        PlatformIdentity.objects.create(
            project=project, worker=worker, platform="prolific", external_id=f"{number:024x}"
        )
    assert len(list_participants(project, "prolific")) == 4
    found = list_participants(project, "prolific", arm="plain")
    assert {each.worker for each in found} == set(Worker.objects.filter(arm=plain)) != set()


def test_the_summary_counts_people_of_each_arm(project: Project, judge: Judge) -> None:
    add_arms(project)
    one, two, _three = (services.enrol(project=project) for _ in range(3))
    judge(one)
    end_participation(worker=one, outcome=Outcome.FINISHED)
    end_participation(worker=two, outcome=Outcome.STOPPED)
    rows = {row.name: row for row in summarise_arms(project)}
    own, others = rows[one.arm.name], rows[two.arm.name]
    assert (own.completed, own.judgements) == (1, 1)
    assert (others.completed, others.judgements) == (0, 0)
    assert own.assigned + others.assigned == 3
    assert own.present + others.present == 2


def test_the_overview_shows_the_numbers_of_one_arm(project: Project, judge: Judge, owner: User, log_in: LogIn) -> None:
    add_arms(project, {"groups": ["cats"]}, {"groups": ["dogs"]})
    Project.objects.update(answers_wanted=2)
    one, two = (services.enrol(project=project) for _ in range(2))
    for worker in (one, one, two):
        judge(worker)
    client = log_in(owner)
    shown = {name: client.get(f"/projects/pets/?arm={name}").context for name in ("", one.arm.name, two.arm.name)}
    assert [context["n_judgements"] for context in shown.values()] == [3, 2, 1]
    assert [context["workers"]["active"] for context in shown.values()] == [2, 1, 1]
    assert (shown["plain"]["n_items"], shown["plain"]["n_pairs"]) == (4, 6)
    assert all(context["has_answers_wanted"] for context in shown.values()), "the target is the study's"
    page = client.get("/projects/pets/?arm=plain&fragment=1").text
    assert "<dd>6</dd>" in "".join(page.split())


# Constraints ---------------------------------------------------------------------------------------------------------

BAD_ARMS = {
    "the same name twice": {"name": "plain", "number": 9},
    "the same number twice": {"name": "third", "number": 1},
    "number 0": {"name": "third", "number": 0},
    "no name": {"name": "", "number": 9},
    "an unknown pair policy": {"name": "third", "number": 9, "pairs": "best"},
    "a share above 100": {"name": "third", "number": 9, "random_share": 101},
}


@pytest.mark.both_databases
@pytest.mark.parametrize("values", BAD_ARMS.values(), ids=BAD_ARMS.keys())
def test_an_invalid_arm_is_refused_by_the_database(project: Project, values: dict[str, Any]) -> None:
    add_arms(project)
    with pytest.raises(DatabaseError), transaction.atomic():
        Arm.objects.bulk_create([Arm(project=project, **values)])
    assert Arm.objects.count() == 2


@pytest.mark.both_databases
def test_the_arm_of_a_worker_cannot_disappear(project: Project) -> None:
    add_arms(project)
    worker = services.enrol(project=project)

    def delete() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM annotation_arm WHERE id = %s", [worker.arm_id])
            connection.check_constraints()

    with pytest.raises(DatabaseError):
        delete()
    assert Worker.objects.get().arm == worker.arm
