"""Gold pairs: shown like other pairs, stored apart, never counted, and a rule that rejects no one."""

import json
import uuid
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import Client

from annotation import services
from annotation.models import Judgement, Project, User, Worker, WorkerCheck
from annotation.services.participation.checks import CheckResult, get_result
from annotation.services.participation.passport import freeze, get_passport, list_changes
from annotation.services.participation.preparation import change_gold
from annotation.services.participation.reconciliation import list_participants
from annotation.services.privacy.personal_data import copy_of_data
from tests.annotation.platforms.studies import join, link, recruit

pytestmark = pytest.mark.django_db
PAIRS = [{"better": f"Good reason {n}.", "worse": f"Bad reason {n}."} for n in range(3)]


@pytest.fixture
def gold_project(project: Project) -> Project:
    """A study with three gold pairs, of which two wrong ones flag a worker."""
    Project.objects.update(judgements_per_worker=6)
    project.refresh_from_db()
    set_gold(project)
    return project


def set_gold(project: Project, gold: list[dict[str, str]] | None = None, **changes: Any) -> None:
    rule = {"gold_checks": 3, "gold_limit": 2, "gold_consequence": "flag", **changes}
    change_gold(project=project, user=None, gold=PAIRS if gold is None else gold, **rule)


def take_part(client: Client, wrong: int, choice: str = "") -> list[dict[str, Any]]:
    """Answer everything, the first `wrong` gold pairs wrongly, and finish; return the gold pairs as shown."""
    shown = []
    task = client.get("/s/pets/task/").json()
    while task["pairs"]:
        pair, answer = task["pairs"][0], "left"
        if check := WorkerCheck.objects.filter(public_id=pair["assignment"]).first():
            shown.append(pair)
            other = choice or ("right" if check.expected == "left" else "left")
            answer = other if len(shown) <= wrong else check.expected
        body = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": answer}
        task = client.post("/s/pets/judgements/", json.dumps(body), content_type="application/json").json()["next"]
    client.post("/s/pets/finish/")
    return shown


def test_gold_pairs_look_like_other_pairs_and_are_no_judgements(gold_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    shown = take_part(client, wrong=0)
    assert len(shown) == 3
    texts = [{pair["left"]["text"], pair["right"]["text"]} for pair in shown]
    assert sorted(map(sorted, texts)) == sorted(sorted(pair.values()) for pair in PAIRS)
    assert {key for pair in shown for key in pair} == {"assignment", "left", "right"}
    assert Judgement.objects.count() == 6
    assert get_result(Worker.objects.get()) == CheckResult(gold=3)


def test_the_better_text_is_where_the_check_expects_it(gold_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    for pair in take_part(client, wrong=0):
        check = WorkerCheck.objects.get(public_id=pair["assignment"])
        assert pair[check.expected]["text"].startswith("Good")


@pytest.mark.parametrize(
    ("wrong", "consequence", "flagged", "outcome"),
    [
        (1, "flag", False, "finished"),
        (2, "flag", True, "finished"),
        (1, "failed_checks", False, "finished"),
        (2, "failed_checks", True, "failed_checks"),
    ],
)
def test_the_rule_applies_from_its_number_of_wrong_answers(
    gold_project: Project, client: Client, wrong: int, consequence: str, flagged: bool, outcome: str
) -> None:
    set_gold(gold_project, gold_consequence=consequence)
    recruit(gold_project)
    join(client, link(gold_project))
    take_part(client, wrong)
    [person] = list_participants(gold_project, "prolific")
    assert (person.checks.gold_wrong, person.checks.flagged, person.worker.outcome) == (wrong, flagged, outcome)
    assert person.decision == ("review" if outcome == "failed_checks" else "approve"), "never a rejection"


@pytest.mark.parametrize("choice", ["tie", "skip"])
def test_a_tie_and_a_skip_are_not_the_better_text(gold_project: Project, client: Client, choice: str) -> None:
    client.post("/s/pets/join/")
    take_part(client, wrong=2, choice=choice)
    assert get_result(Worker.objects.get()).gold_wrong == 2


def test_workers_get_as_many_gold_pairs_as_set_beside_attention_checks(gold_project: Project, client: Client) -> None:
    Project.objects.update(attention_checks=2, gold_checks=1)
    client.post("/s/pets/join/")
    take_part(client, wrong=0)
    kinds = sorted(WorkerCheck.objects.values_list("kind", flat=True))
    assert kinds == ["attention", "attention", "gold"]


def test_the_texts_stay_as_they_were_shown(gold_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    take_part(client, wrong=0)
    set_gold(gold_project, gold=[{"better": "New.", "worse": "Old."}], gold_checks=1, gold_limit=1)
    assert {text for check in WorkerCheck.objects.all() for text in check.pair.values()} == {
        text for pair in PAIRS for text in pair.values()
    }


def test_a_removed_gold_pair_does_not_stop_a_worker(gold_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    gold_project.preparation.gold = []
    gold_project.preparation.save()
    take_part(client, wrong=0)
    assert Worker.objects.get().outcome == "finished"
    assert Judgement.objects.count() == 6


def test_the_pairs_and_their_rule_are_frozen_and_changes_are_listed(gold_project: Project, owner: User) -> None:
    freeze(gold_project)
    passport = get_passport(gold_project)
    names = ("gold", "gold_checks", "gold_limit", "gold_consequence")
    assert [passport.content[name] for name in names] == [PAIRS, 3, 2, "flag"]
    change_gold(project=gold_project, user=owner, gold=PAIRS, gold_checks=2, gold_limit=1, gold_consequence="flag")
    assert {(change.name, change.old, change.new) for change in list_changes(passport)} == {
        ("gold_checks", 3, 2),
        ("gold_limit", 2, 1),
    }


def test_workers_get_a_copy_of_their_answers_and_can_delete_them(gold_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    take_part(client, wrong=1)
    worker = Worker.objects.get()
    copies = copy_of_data(worker)["answers_to_checks"]
    assert len(copies) == 3
    assert all({each["first"], each["second"]} in [set(pair.values()) for pair in PAIRS] for each in copies)
    assert "expected" not in str(copies)
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert not WorkerCheck.objects.exists()


FORM = {"better_0": "Good.", "worse_0": "Bad.", "better_1": "Fine.", "worse_1": "Poor.", "gold_consequence": "flag"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gold_limit": ""}, "gold_limit"),
        ({"gold_limit": "3"}, "gold_limit"),
        ({"gold_limit": "1", "gold_consequence": "failed_checks"}, "gold_limit"),
        ({"gold_limit": "1", "gold_checks": "5"}, "gold_checks"),
        ({"gold_limit": "1", "worse_1": ""}, "worse_1"),
    ],
)
def test_an_incomplete_rule_is_refused(
    project: Project, owner: User, client: Client, changes: dict[str, str], field: str
) -> None:
    client.force_login(owner)
    response = client.post("/projects/pets/gold/", FORM | changes)
    assert response.status_code == 422
    assert field in response.context["form"].errors
    project.refresh_from_db()
    assert project.gold_checks == 0


def test_a_complete_rule_is_saved_and_shown(project: Project, owner: User, client: Client) -> None:
    client.force_login(owner)
    assert client.post("/projects/pets/gold/", FORM | {"gold_limit": "2"}).status_code == 302
    project.refresh_from_db()
    assert (project.gold_checks, project.preparation.gold_limit) == (2, 2)
    assert "Fine." in client.get("/projects/pets/gold/").content.decode()


@pytest.mark.both_databases
def test_an_unknown_kind_of_check_is_refused_by_the_database(project: Project, worker: Worker) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        WorkerCheck.objects.create(project=project, worker=worker, number=1, expected="left", kind="riddle")
