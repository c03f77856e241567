"""Projects in the browser: created, changed, opened, paused, closed, and refused with the allowed range."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.forms.projects import possible_pairs
from annotation.models import AuditEntry, Item, Membership, Project, User, Worker
from tests.conftest import make_items

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]

FORM = {
    "title": "Night trains",
    "question": "Which argument is more convincing?",
    "language": "en",
    "direction": "ltr",
    "ties_allowed": "on",
    "pairs": "group",
    "judgements_per_worker": "5",
    "redundancy": "3",
    "repeat_share": "0",
    "random_share": "50",
    "answers_wanted": "0",
    "retention_days": "0",
    "lease_minutes": "30",
    "update_batch": "10",
}


def test_visitors_are_asked_to_log_in(client: Client) -> None:
    for address in ("/projects/", "/projects/new/", "/projects/pets/"):
        assert client.get(address).headers["Location"].startswith("/accounts/login/")


def test_the_list_holds_only_the_researchers_own_projects(project: Project, stranger: User, log_in: LogIn) -> None:
    page = log_in(stranger).get("/projects/").content.decode()
    assert "Elsewhere" in page
    assert "Pets" not in page


def test_the_list_counts_items_and_judgements(
    project: Project, worker: Worker, judge, owner: User, log_in: LogIn
) -> None:
    for choice in ("left", "skip", "right"):
        judge(worker, choice)
    Item.objects.filter(key="dogs-1").update(active=False)
    (row,) = log_in(owner).get("/projects/").context["projects"]
    assert (row.n_items, row.n_judgements) == (6, 2)


def test_a_newcomer_is_told_how_to_begin(db: None, log_in: LogIn) -> None:
    newcomer = User.objects.create_user("nora")
    page = log_in(newcomer).get("/projects/").content.decode()
    assert "You are not a member of any project yet." in page
    assert 'href="/projects/new/"' in page


def test_any_researcher_can_create_a_draft_and_owns_it(owner: User, log_in: LogIn) -> None:
    answer = log_in(owner).post("/projects/new/", FORM)
    assert answer.headers["Location"] == "/projects/night-trains/"
    project = Project.objects.get(slug="night-trains")
    assert project.state == "draft"
    assert Membership.objects.get(project=project).user == owner
    assert AuditEntry.objects.get(project=project).action == "created the project"


def test_a_second_project_of_the_same_title_gets_a_name_of_its_own(owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    client.post("/projects/new/", FORM)
    assert client.post("/projects/new/", FORM).headers["Location"] == "/projects/night-trains-2/"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"slug": "pets"}, "There is a project with this short name already."),
        ({"slug": "new"}, "is an address of Concord itself"),
        ({"slug": "a b"}, "Enter a valid"),
        ({"title": "Ночные поезда"}, "The title holds no Latin letters"),
        ({"title": ""}, "This field is required."),
    ],
)
def test_a_name_that_cannot_be_an_address_is_refused(
    fields: dict[str, str], words: str, project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/new/", {**FORM, **fields})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Project.objects.count() == 1


@pytest.mark.parametrize("value", ["0", "-1", "1000000", "", "many", "1.5", "9" * 400])
def test_redundancy_out_of_range_is_refused_with_the_range(
    value: str, project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, "redundancy": value})
    assert answer.status_code == 422
    assert "Choose a whole number from 1 to 1,000." in answer.content.decode()
    project.refresh_from_db()
    assert project.redundancy == 3
    assert project.title == "Pets"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("judgements_per_worker", "0", "from 1 to 5,000."),
        ("repeat_share", "51", "from 0 to 50."),
        ("random_share", "-1", "from 0 to 100."),
        ("lease_minutes", "1441", "from 1 to 1,440."),
        ("update_batch", "0", "from 1 to 100,000."),
        ("language", "English", "A code such as en, de or pt-br."),
        ("direction", "up", "not one of the available choices"),
        ("pairs", "all", "not one of the available choices"),
    ],
)
def test_every_option_out_of_range_is_refused_with_what_is_allowed(
    field: str, value: str, words: str, project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, field: value})
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_a_quota_above_the_possible_pairs_is_refused_with_the_range(
    project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "10"})
    assert answer.status_code == 422
    assert "Choose a whole number from 1 to 9." in answer.content.decode()
    assert log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "9"}).status_code == 302


def test_a_rule_that_leaves_fewer_pairs_is_held_against_the_quota(project: Project, owner: User, log_in: LogIn) -> None:
    Project.objects.update(pairs="any", judgements_per_worker=21)
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "21", "pairs": "group"})
    assert answer.status_code == 422
    assert "The active items form 9 pairs" in answer.content.decode()


def test_an_untouched_quota_does_not_stand_in_the_way_of_other_changes(
    project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "40"})
    assert answer.status_code == 302


def test_pairs_are_counted_within_groups_or_across(project: Project) -> None:
    assert possible_pairs(project, "group") == 6 + 3
    assert possible_pairs(project, "any") == 21


def test_a_change_of_settings_is_in_the_audit_with_old_and_new_value(
    project: Project, owner: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    client.post("/projects/pets/settings/", {**FORM, "redundancy": "7"})
    entry = AuditEntry.objects.filter(project=project).first()
    assert entry.details["redundancy"] == [3, 7]
    assert "redundancy: 3 → 7" in client.get("/projects/pets/").content.decode()


def test_the_short_name_of_a_project_never_changes(project: Project, owner: User, log_in: LogIn) -> None:
    log_in(owner).post("/projects/pets/settings/", {**FORM, "slug": "other"})
    project.refresh_from_db()
    assert project.slug == "pets"


AGE = {"name": "age", "label": "Your age", "choices": ["18-29", "30+"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"name": "age"', "line 1, column 16"),
        ("{}", "must be a list"),
        ("[1]", "Question 1: write it as"),
        (json.dumps([AGE, {**AGE, "name": "Her Age"}]), "Question 2: it needs a name"),
        (json.dumps([{**AGE, "label": ""}]), "it needs a label"),
        (json.dumps([{**AGE, "label": "a\u0000b"}]), "it needs a label"),
        (json.dumps([{**AGE, "label": "\ud800"}]), "it needs a label"),
        (json.dumps([{**AGE, "choices": ["one"]}]), "it needs 2 to 50 choices"),
        (json.dumps([{**AGE, "choices": "one"}]), "must be a list of words"),
        (json.dumps([{**AGE, "choices": [1, 2]}]), "must be a list of words"),
        (json.dumps([{**AGE, "choices": ["one", "one"]}]), "two of its choices are equal"),
        (json.dumps([{**AGE, "options": []}]), "“options” is not known"),
        (json.dumps([AGE, AGE]), "Two questions have the name “age”"),
        (json.dumps([{"name": f"q{n}", "label": "?"} for n in range(21)]), "at most 20 questions"),
        ("[" * 15_000, "nested too deeply"),
    ],
)
def test_a_questionnaire_that_cannot_be_asked_is_refused_in_words(
    text: str, words: str, project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/settings/", {**FORM, "questionnaire": text})
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_a_questionnaire_is_kept_and_shown_again(project: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    questions = [AGE, {"name": "region", "label": "Où habitez-vous ?"}]
    client.post("/projects/pets/settings/", {**FORM, "questionnaire": json.dumps(questions)})
    project.refresh_from_db()
    assert project.questionnaire == questions
    assert "Où habitez-vous" in client.get("/projects/pets/settings/").content.decode()


@pytest.mark.parametrize(
    ("before", "wanted", "status"),
    [
        ("draft", "open", 302),
        ("open", "paused", 302),
        ("paused", "open", 302),
        ("open", "closed", 302),
        ("paused", "closed", 302),
        ("closed", "open", 302),
        ("draft", "paused", 422),
        ("draft", "closed", 422),
        ("closed", "draft", 422),
        ("open", "draft", 422),
        ("open", "open", 422),
        ("open", "exploded", 422),
        ("open", "", 422),
    ],
)
def test_a_study_goes_from_state_to_state_as_planned(
    before: str, wanted: str, status: int, project: Project, owner: User, log_in: LogIn
) -> None:
    Project.objects.update(state=before)
    answer = log_in(owner).post("/projects/pets/state/", {"state": wanted})
    project.refresh_from_db()
    assert answer.status_code == status
    assert project.state == (wanted if status == 302 else before)


def test_the_state_is_never_changed_by_a_link(project: Project, owner: User, log_in: LogIn) -> None:
    assert log_in(owner).get("/projects/pets/state/?state=closed").url == "/projects/pets/"
    project.refresh_from_db()
    assert project.state == "open"


def test_a_study_without_two_items_does_not_open(owner: User, log_in: LogIn) -> None:
    project = services.create_project(owner=owner, slug="empty", title="Empty")
    make_items(project, ["Only one."])
    answer = log_in(owner).post("/projects/empty/state/", {"state": "open"})
    assert answer.status_code == 422
    assert "At least 2 active items are needed" in answer.content.decode()


def test_a_study_whose_items_share_no_group_does_not_open(owner: User, log_in: LogIn) -> None:
    project = services.create_project(owner=owner, slug="lonely", title="Lonely")
    make_items(project, ["A cat."], "cats")
    make_items(project, ["A dog."], "dogs")
    client = log_in(owner)
    answer = client.post("/projects/lonely/state/", {"state": "open"})
    assert answer.status_code == 422
    assert "No two active items share a group" in answer.content.decode()
    Project.objects.filter(slug="lonely").update(pairs="any")
    assert client.post("/projects/lonely/state/", {"state": "open"}).status_code == 302


def test_the_project_page_gives_the_link_for_workers_and_the_counts(
    project: Project, worker: Worker, judge, owner: User, log_in: LogIn
) -> None:
    judge(worker)
    judge(worker, "skip")
    answer = log_in(owner).get("/projects/pets/")
    page = answer.content.decode()
    assert "http://testserver/s/pets/" in page
    assert [answer.context[name] for name in ("n_items", "n_pairs", "n_judgements")] == [7, 9, 1]
    assert answer.context["workers"] == {"active": 1, "finished": 0, "dropped_out": 0, "withdrawn": 0}
    assert "Judgements are coming in." in page


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("draft", "Everything is there."),
        ("open", "Send workers the link"),
        ("paused", "Workers see that the study is paused."),
        ("closed", "The study is over."),
    ],
)
def test_the_project_page_says_what_to_do_next(
    state: str, words: str, project: Project, owner: User, log_in: LogIn
) -> None:
    Project.objects.update(state=state)
    assert words in log_in(owner).get("/projects/pets/").content.decode()


def test_a_project_without_items_asks_for_them(owner: User, log_in: LogIn) -> None:
    services.create_project(owner=owner, slug="empty", title="Empty")
    page = log_in(owner).get("/projects/empty/").content.decode()
    assert "Bring in the texts" in page
    assert 'href="/projects/empty/items/import/"' in page


def test_a_viewer_sees_the_project_but_no_button_that_changes_it(project: Project, viewer: User, log_in: LogIn) -> None:
    client = log_in(viewer)
    page = client.get("/projects/pets/").content.decode()
    assert "Pets" in page
    for address in ("state/", "settings/", "members/", "items/import/", "judgements/import/", "ranking.csv"):
        assert f"/projects/pets/{address}" not in page
    assert client.post("/projects/pets/state/", {"state": "closed"}).status_code == 403
    assert client.post("/projects/pets/settings/", FORM).status_code == 403
    assert Project.objects.get(slug="pets").state == "open"


def test_to_a_stranger_a_project_does_not_exist(project: Project, stranger: User, log_in: LogIn) -> None:
    client = log_in(stranger)
    for address in ("/projects/pets/", "/projects/pets/settings/", "/projects/pets/members/"):
        assert client.get(address).status_code == 404
