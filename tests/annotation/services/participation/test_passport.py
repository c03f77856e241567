"""The study passport: frozen before the first answer, with a list of every later change."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.importing.item_files import ImportedItem
from annotation.importing.items import import_items
from annotation.models import Arm, Item, Project, StudyPassport, User, Worker
from annotation.services.items import correct_item, set_item_active
from annotation.services.participation.arms import change_arms
from annotation.services.participation.passport import export_passport, freeze, get_passport, is_intact
from annotation.services.participation.preparation import change_preparation
from modelling.exports.reproduce import check_passport

pytestmark = pytest.mark.django_db
PAGE = "/projects/pets/passport/"
RULES = {"exclusion_rules": "Leave out workers who failed two checks.", "stop_rule": "Stop at 400 judgements."}


@pytest.fixture
def olga(project: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    """The owner, who has written down the rules and opened the study."""
    client = log_in(owner)
    Project.objects.update(state="draft")
    client.post(PAGE, RULES)
    client.post("/projects/pets/state/", {"state": "open"})
    project.refresh_from_db()
    return client


def archived(project: Project) -> dict[str, Any]:
    found = export_passport(project, timezone.now())
    assert found is not None
    return found


def test_opening_freezes_the_plan_with_a_hash(olga: Client, project: Project) -> None:
    passport = StudyPassport.objects.get()
    assert passport.content["question"] == project.question
    assert passport.content["stop_rule"] == RULES["stop_rule"]
    assert passport.content["n_items"] == 7
    assert is_intact(passport.content, passport.frozen_at.isoformat(), passport.digest)
    page = olga.get(PAGE).content.decode()
    assert "The hash matches the plan." in page
    assert "Nothing was changed." in page
    assert check_passport(archived(project)) == {"passport": "verified", "passport_changes": 0, "passport_changed": ()}


def test_a_plan_that_was_not_frozen_before_the_first_answer_never_will_be(
    owner: User, log_in: Callable[[User], Client], worker: Worker, judge: Any
) -> None:
    client = log_in(owner)
    assert "The plan is not frozen yet." in client.get(PAGE).text
    judge(worker)
    page = client.get(PAGE).text
    assert "The plan was not frozen before the first answer, so it no longer can be." in page
    assert "The plan is not frozen yet." not in page


def test_a_rule_changed_after_the_first_answer_is_visible_everywhere(
    olga: Client, project: Project, worker: Worker, judge: Any
) -> None:
    judge(worker)
    frozen = StudyPassport.objects.get()
    olga.post(PAGE, RULES | {"exclusion_rules": "Leave out everyone who disagrees."})
    olga.post("/projects/pets/state/", {"state": "paused"})
    olga.post("/projects/pets/state/", {"state": "open"})
    now = StudyPassport.objects.get()
    assert (now.content, now.digest, now.frozen_at) == (frozen.content, frozen.digest, frozen.frozen_at)
    page = olga.get(PAGE).content.decode()
    assert "Leave out everyone who disagrees." in page
    assert RULES["exclusion_rules"] in page
    exported = archived(project)
    assert [(change["name"], change["old"]) for change in exported["changes"]] == [
        ("exclusion_rules", RULES["exclusion_rules"])
    ]
    assert check_passport(exported) == {
        "passport": "verified", "passport_changes": 1, "passport_changed": ("exclusion_rules",),
    }  # fmt: skip


def test_opening_again_before_the_first_answer_freezes_the_new_plan(olga: Client, project: Project) -> None:
    olga.post("/projects/pets/state/", {"state": "paused"})
    services.change_project(project=Project.objects.get(slug="pets"), user=None, changes={"redundancy": 9})
    olga.post("/projects/pets/state/", {"state": "open"})
    assert StudyPassport.objects.get().content["redundancy"] == 9
    assert archived(project)["changes"] == []


def test_changed_items_are_pointed_out(olga: Client, project: Project) -> None:
    Item.objects.filter(key="cats-1").update(active=False)
    assert "have changed since the plan was frozen" in olga.get(PAGE).content.decode()
    assert check_passport(archived(project))["passport_changed"] == ("items",)


def test_every_change_of_items_is_listed_with_its_time_and_user(olga: Client, project: Project) -> None:
    first, second = project.items.filter(group="cats").order_by("pk")[:2]
    correct_item(item=first, user=None, text="Cats purr a lot.", group="cats")
    set_item_active(item=second, user=None, active=False)
    set_item_active(item=second, user=None, active=True)
    import_items(project=project, user=None, rows=[ImportedItem(2, "dogs-9", "Dogs dig.", "dogs", {}, {})])
    exported = archived(project)
    assert {change["name"] for change in exported["changes"]} == {"items"}
    assert [change["new"]["action"] for change in exported["changes"]] == [
        "corrected an item", "deactivated an item", "activated an item", "imported items",
    ]  # fmt: skip
    assert exported["changes"][0]["new"]["key"] == "cats-1"
    assert check_passport(exported) == {
        "passport": "verified", "passport_changes": 4, "passport_changed": ("items",),
    }  # fmt: skip
    page = olga.get(PAGE).text
    assert "Corrected an item" in page
    assert "key: cats-1" in page
    assert "added: 1" in page


def test_what_is_changed_together_with_opening_is_part_of_the_plan(olga: Client, project: Project) -> None:
    olga.post("/projects/pets/state/", {"state": "paused"})
    changes = {"question": "Which is kinder?", "state": "open"}
    services.change_project(project=Project.objects.get(slug="pets"), user=None, changes=changes)
    assert StudyPassport.objects.get().content["question"] == "Which is kinder?"
    assert archived(project)["changes"] == []


def test_the_plan_is_shown_with_the_labels_of_the_page_in_its_language(
    olga: Client, project: Project, settings: Any
) -> None:
    olga.post("/projects/pets/state/", {"state": "paused"})
    pair = {"first": "Cats purr.", "second": "asdf", "answer": "left", "explanation": "The second says nothing."}
    asked = {"question": "Whose view?", "choices": ["The experts'", "My own"], "answer": 1}
    change_preparation(project=project, user=None, practice=[pair], comprehension=[asked])
    change_arms(project=project, user=None, arms=[Arm(name="plain"), Arm(name="mixed", pairs="any")])
    questions = [{"name": "age", "label": "How old are you?", "kind": "number", "required": True}]
    services.change_project(project=project, user=None, changes={"questionnaire": questions})
    olga.post("/projects/pets/state/", {"state": "open"})
    settings.LANGUAGE_CODE = "de"
    plan = dict(olga.get(PAGE).context["plan"])
    assert "erwartete Antwort: Erster" in plan["Übungspaare"]
    assert "erwartete Antwort: My own" in plan["Verständnisprüfung"]
    assert "Welche Texte Paare bilden: zwei beliebige Texte".casefold() in plan["Studienarme"].casefold()
    assert "Zahl" in plan["Fragen an die Teilnehmenden"]


def test_a_changed_plan_does_not_match_its_hash(olga: Client, project: Project) -> None:
    exported = archived(project)
    exported["content"]["stop_rule"] = "Stop when I like the result."
    assert check_passport(exported)["passport"] == "damaged"
    StudyPassport.objects.update(content=exported["content"])
    assert "The hash does not match" in olga.get(PAGE).content.decode()


def test_a_study_with_answers_is_not_frozen_afterwards(project: Project, worker: Worker, judge: Any) -> None:
    judge(worker)
    services.change_project(project=project, user=None, changes={"state": "paused"})
    services.change_project(project=project, user=None, changes={"state": "open"})
    assert not StudyPassport.objects.exclude(frozen_at=None).exists()
    assert export_passport(project, timezone.now()) is None


@pytest.mark.parametrize("source", ["import", "simulated"])
def test_imported_and_simulated_answers_do_not_keep_a_plan_from_being_frozen(
    project: Project, worker: Worker, judge: Any, source: str
) -> None:
    judge(worker, source=source)
    freeze(project)
    assert get_passport(project).frozen_at
