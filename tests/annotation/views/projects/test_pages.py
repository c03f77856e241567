"""Creating and changing projects and their state; error messages name the allowed range."""

from collections.abc import Callable
from datetime import timedelta
from unittest.mock import patch

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Item, Membership, Project, User, Worker
from annotation.services.pairs.counts import count_possible_pairs
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
    "suggestions": "order",
    "top_k": "5",
    "stop_target": "90",
    "random_share": "50",
    "answers_wanted": "0",
    "retention_days": "0",
    "attention_checks": "0",
    "lease_minutes": "30",
    "pairs_ahead": "5",
    "update_batch": "10",
}


def test_visitors_are_redirected_to_log_in(client: Client) -> None:
    for address in ("/projects/", "/projects/new/", "/projects/pets/"):
        assert client.get(address).headers["Location"].startswith("/accounts/login/")


def test_the_list_shows_only_the_users_projects(project: Project, stranger: User, log_in: LogIn) -> None:
    page = log_in(stranger).get("/projects/").content.decode()
    assert "Elsewhere" in page
    assert "Pets" not in page


@pytest.mark.both_databases
def test_the_list_counts_items_and_judgements(
    project: Project, worker: Worker, judge, owner: User, log_in: LogIn
) -> None:
    for choice in ("left", "skip", "right"):
        judge(worker, choice)
    Item.objects.filter(key="dogs-1").update(active=False)
    (row,) = log_in(owner).get("/projects/").context["projects"]
    assert (row.n_items, row.n_judgements) == (6, 2)


def test_a_new_user_sees_how_to_begin(db: None, log_in: LogIn) -> None:
    newcomer = User.objects.create_user("nora")
    page = log_in(newcomer).get("/projects/").content.decode()
    assert "You are not a member of any study yet." in page
    assert 'href="/projects/new/"' in page


def test_any_researcher_can_create_a_draft_and_owns_it(owner: User, log_in: LogIn) -> None:
    response = log_in(owner).post("/projects/new/", FORM)
    assert response.headers["Location"] == "/projects/night-trains/"
    project = Project.objects.get(slug="night-trains")
    assert project.state == "draft"
    assert Membership.objects.get(project=project).user == owner
    assert AuditEntry.objects.get(project=project).action == "created the project"


@pytest.mark.both_databases
def test_a_second_project_with_the_same_title_gets_another_slug(owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    client.post("/projects/new/", FORM)
    assert client.post("/projects/new/", FORM).headers["Location"] == "/projects/night-trains-2/"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"slug": "pets"}, "Another study already uses this short name."),
        ({"slug": "new"}, "is reserved"),
        ({"slug": "a b"}, "Enter a valid"),
        ({"title": "Ночные поезда"}, "Enter a short name"),
        ({"title": ""}, "This field is required."),
    ],
)
def test_an_invalid_name_is_rejected(
    fields: dict[str, str], message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = log_in(owner).post("/projects/new/", {**FORM, **fields})
    assert response.status_code == 422
    assert message in response.content.decode()
    assert Project.objects.count() == 1


@pytest.mark.parametrize("value", ["0", "-1", "1000000", "", "many", "1.5", "9" * 400])
def test_redundancy_out_of_range_is_rejected_with_the_range(
    value: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, "redundancy": value})
    assert response.status_code == 422
    assert "Choose a whole number from 1 to 1,000." in response.content.decode()
    project.refresh_from_db()
    assert project.redundancy == 3
    assert project.title == "Pets"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("judgements_per_worker", "0", "from 1 to 5,000."),
        ("repeat_share", "51", "from 0 to 50."),
        ("random_share", "-1", "from 0 to 100."),
        ("lease_minutes", "1441", "from 1 to 1,440."),
        ("pairs_ahead", "21", "from 1 to 20."),
        ("update_batch", "0", "from 1 to 100,000."),
        ("language", "English", "A code such as en, de or pt-br."),
        ("direction", "up", "not one of the available choices"),
        ("pairs", "all", "not one of the available choices"),
    ],
)
def test_invalid_options_are_rejected_with_the_allowed_values(
    field: str, value: str, message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, field: value})
    assert response.status_code == 422
    assert message in response.content.decode()


def test_a_quota_above_the_possible_pairs_is_rejected(project: Project, owner: User, log_in: LogIn) -> None:
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "10"})
    assert response.status_code == 422
    assert "Choose a whole number from 1 to 9." in response.content.decode()
    assert log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "9"}).status_code == 302


def test_fewer_pairs_than_the_quota_are_rejected(project: Project, owner: User, log_in: LogIn) -> None:
    Project.objects.update(pairs="any", judgements_per_worker=21)
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "21", "pairs": "group"})
    assert response.status_code == 422
    assert "The active items form 9 pairs" in response.content.decode()


def test_an_unchanged_quota_does_not_block_other_changes(project: Project, owner: User, log_in: LogIn) -> None:
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, "judgements_per_worker": "40"})
    assert response.status_code == 302


def test_possible_pairs_within_groups_and_across(project: Project) -> None:
    assert count_possible_pairs(project).fewest == 6 + 3
    project.pairs = Project.Pairs.ANY
    assert count_possible_pairs(project).fewest == 21


def test_changed_settings_are_audited_with_old_and_new_values(project: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    client.post("/projects/pets/settings/", {**FORM, "redundancy": "7"})
    entry = AuditEntry.objects.filter(project=project).first()
    assert entry.details["redundancy"] == [3, 7]
    assert "workers per pair: 3 → 7" in client.get("/projects/pets/").content.decode()


def test_the_slug_never_changes(project: Project, owner: User, log_in: LogIn) -> None:
    log_in(owner).post("/projects/pets/settings/", {**FORM, "slug": "other"})
    project.refresh_from_db()
    assert project.slug == "pets"


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
def test_state_changes_follow_the_allowed_order(
    before: str, wanted: str, status: int, project: Project, owner: User, log_in: LogIn
) -> None:
    Project.objects.update(state=before)
    response = log_in(owner).post("/projects/pets/state/", {"state": wanted})
    project.refresh_from_db()
    assert response.status_code == status
    assert project.state == (wanted if status == 302 else before)


def test_a_get_request_does_not_change_the_state(project: Project, owner: User, log_in: LogIn) -> None:
    assert log_in(owner).get("/projects/pets/state/?state=closed").url == "/projects/pets/"
    project.refresh_from_db()
    assert project.state == "open"


def test_a_study_without_two_items_does_not_open(owner: User, log_in: LogIn) -> None:
    project = services.create_project(owner=owner, slug="empty", title="Empty")
    make_items(project, ["Only one."])
    response = log_in(owner).post("/projects/empty/state/", {"state": "open"})
    assert response.status_code == 422
    assert "The study needs at least 2 active items" in response.content.decode()


def test_a_study_whose_items_share_no_group_does_not_open(owner: User, log_in: LogIn) -> None:
    project = services.create_project(owner=owner, slug="lonely", title="Lonely")
    make_items(project, ["A cat."], "cats")
    make_items(project, ["A dog."], "dogs")
    client = log_in(owner)
    response = client.post("/projects/lonely/state/", {"state": "open"})
    assert response.status_code == 422
    assert "No two active items share a group" in response.content.decode()
    Project.objects.filter(slug="lonely").update(pairs="any")
    assert client.post("/projects/lonely/state/", {"state": "open"}).status_code == 302


def test_the_overview_shows_the_link_for_workers_and_the_counts(
    project: Project, worker: Worker, judge, owner: User, log_in: LogIn
) -> None:
    judge(worker)
    judge(worker, "skip")
    response = log_in(owner).get("/projects/pets/")
    page = response.content.decode()
    assert "http://testserver/s/pets/" in page
    assert [response.context[name] for name in ("n_items", "n_pairs", "n_judgements")] == [7, 9, 1]
    assert response.context["workers"] == {"active": 1, "finished": 0, "dropped_out": 0, "withdrawn": 0}
    assert "1 worker is judging now." in page


def test_the_overview_of_an_idle_study_says_when_the_last_judgement_came_in(
    project: Project, worker: Worker, judge, owner: User, log_in: LogIn
) -> None:
    judge(worker)
    Project.objects.update(answers_wanted=1)
    later = timezone.now() + timedelta(days=3)
    client = log_in(owner)
    with patch("annotation.views.projects.pages.timezone.now", return_value=later):
        page = client.get("/projects/pets/").content.decode()
    assert "No one is judging right now. The last judgement came in on" in page
    assert "The study has the 1 judgements you wanted: you can close it." in page


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("draft", "The study is ready."),
        ("open", "Send workers the link"),
        ("paused", "Workers see that the study is paused."),
        ("closed", "The study is closed."),
    ],
)
def test_the_overview_shows_the_next_step(
    state: str, message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    Project.objects.update(state=state)
    assert message in log_in(owner).get("/projects/pets/").content.decode()


def test_the_overview_without_items_links_to_the_import(owner: User, log_in: LogIn) -> None:
    services.create_project(owner=owner, slug="empty", title="Empty")
    page = log_in(owner).get("/projects/empty/").content.decode()
    assert "Import the texts to compare" in page
    assert 'href="/projects/empty/items/import/"' in page


def test_a_viewer_sees_no_controls_that_change_the_project(project: Project, viewer: User, log_in: LogIn) -> None:
    client = log_in(viewer)
    page = client.get("/projects/pets/").content.decode()
    assert "Pets" in page
    for address in ("state/", "settings/", "members/", "items/import/", "judgements/import/", "ranking.csv"):
        assert f"/projects/pets/{address}" not in page
    assert client.post("/projects/pets/state/", {"state": "closed"}).status_code == 403
    assert client.post("/projects/pets/settings/", FORM).status_code == 403
    assert Project.objects.get(slug="pets").state == "open"


def test_a_stranger_gets_404(project: Project, stranger: User, log_in: LogIn) -> None:
    client = log_in(stranger)
    for address in ("/projects/pets/", "/projects/pets/settings/", "/projects/pets/members/"):
        assert client.get(address).status_code == 404


def test_an_old_text_stays_plain_until_it_is_changed(project: Project, owner: User, log_in: LogIn) -> None:
    texts = {"instructions": "Read *both*.\nChoose.", "consent": "We keep *this*."}
    Project.objects.filter(pk=project.pk).update(**texts, plain_texts=["instructions", "consent"])
    client = log_in(owner)
    form = {**FORM, "instructions": "Read *both*.\r\nChoose.", "consent": "We keep *everything*."}
    assert client.post("/projects/pets/settings/", form).status_code == 302
    page = Client().get("/s/pets/").content.decode()
    assert "Read *both*.<br>Choose." in page
    assert "We keep <em>everything</em>." in page


def test_the_preview_renders_a_text_without_storing_it(project: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    text = {"text": "**bold** <b>"}
    assert client.post("/text-preview/", text).content.decode() == "<p><strong>bold</strong> &lt;b&gt;</p>\n"
    assert client.post("/text-preview/", {**text, "plain": "on"}).content.decode() == "<p>**bold** &lt;b&gt;</p>"
    assert AuditEntry.objects.filter(project=project).count() == 1


def test_an_example_copies_the_texts_of_items_and_is_shown_before_the_first_pair(
    project: Project, owner: User, log_in: LogIn
) -> None:
    example = {"example_first": "cats-1", "example_second": "A text.", "example_explanation": "We choose **this**."}
    assert log_in(owner).post("/projects/pets/settings/", {**FORM, **example}).status_code == 302
    page = Client().get("/s/pets/").content.decode()
    for text in (Item.objects.get(key="cats-1").text, "A text.", "We choose <strong>this</strong>."):
        assert text in page


@pytest.mark.parametrize("given", [{"example_first": "A"}, {"example_first": "A", "example_second": "B"}])
def test_an_incomplete_example_is_rejected(given: dict[str, str], project: Project, owner: User, log_in: LogIn) -> None:
    response = log_in(owner).post("/projects/pets/settings/", {**FORM, **given})
    assert response.status_code == 422
    assert "The example needs two texts and an explanation." in response.content.decode()
