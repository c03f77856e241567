"""The admin pages and the commands that create administrators and projects."""

import uuid
from collections.abc import Callable

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from annotation import services
from annotation.models import AuditEntry, Judgement, PlatformIdentity, Project, Retraction, Tombstone, User, Worker
from tests.conftest import make_user

pytestmark = pytest.mark.django_db
MODELS = sorted(
    (model for model in admin.site._registry if model._meta.app_label in {"annotation", "modelling"}), key=str
)
NEVER_CHANGED = [Judgement, Retraction, AuditEntry]


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(make_user("ada", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def judged(project: Project, judge: Callable[..., services.Receipt]) -> Project:
    """A study in which a worker with a platform ID has judged twice and retracted one judgement."""
    worker = services.enrol(project=project, platform="prolific", external_id="5f0c-real-person")
    judge(worker)
    receipt = judge(worker)
    services.retract(worker=worker, judgement=receipt.judgement.uuid, uuid=uuid.uuid4())
    return project


def address(model: type, page: str, *arguments: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_can_be_listed_searched_and_viewed(model: type, administrator: Client, judged: Project) -> None:
    assert administrator.get(address(model, "changelist")).status_code == 200
    assert administrator.get(address(model, "changelist"), {"q": "pets"}).status_code == 200
    for row in model._default_manager.all()[:1]:
        assert administrator.get(address(model, "change", row.pk)).status_code == 200


def test_every_model_is_registered() -> None:
    models = {model for app in ("annotation", "modelling") for model in apps.get_app_config(app).get_models()}
    assert models - set(admin.site._registry) == set()


@pytest.mark.both_databases
@pytest.mark.parametrize("model", NEVER_CHANGED, ids=lambda model: model.__name__)
def test_events_are_never_added_changed_or_deleted(model: type, administrator: Client, judged: Project) -> None:
    row = model._default_manager.first()
    assert administrator.get(address(model, "add")).status_code == 403
    assert administrator.post(address(model, "change", row.pk), {}).status_code == 403
    assert administrator.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model._default_manager.filter(pk=row.pk).exists()
    assert "delete_selected" not in administrator.get(address(model, "changelist")).content.decode()


def test_no_list_shows_platform_ids(administrator: Client, judged: Project) -> None:
    for model in (Worker, PlatformIdentity, Judgement):
        assert "5f0c-real-person" not in administrator.get(address(model, "changelist")).content.decode()


def test_a_person_can_be_found_by_platform_id_and_erased(administrator: Client, judged: Project) -> None:
    identity = PlatformIdentity.objects.get()
    page = administrator.get(address(PlatformIdentity, "changelist"), {"q": "5f0c-real-person"})
    assert identity.worker.code in page.content.decode()
    administrator.post(address(PlatformIdentity, "delete", identity.pk), {"post": "yes"})
    assert not PlatformIdentity.objects.exists()
    assert Judgement.objects.count() == 2


@pytest.mark.both_databases
def test_a_project_with_judgements_cannot_be_deleted(administrator: Client, judged: Project) -> None:
    assert administrator.post(address(Project, "delete", judged.pk), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": judged.pk, "post": "yes"}
    administrator.post(address(Project, "changelist"), chosen)
    assert Project.objects.filter(pk=judged.pk).exists()


@pytest.mark.both_databases
def test_a_project_without_judgements_can_be_deleted(administrator: Client, project: Project) -> None:
    administrator.post(address(Project, "delete", project.pk), {"post": "yes"})
    assert not Project.objects.filter(slug="pets").exists()
    assert Tombstone.objects.get().slug == "pets"


def test_changes_in_the_admin_are_audited(administrator: Client, project: Project) -> None:
    form = administrator.get(address(Project, "change", project.pk)).context["adminform"].form
    fields = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    sent = {name: value for name, value in fields.items() if value is not None and value is not False} | {
        "redundancy": 9
    }
    inline = {"membership_set-TOTAL_FORMS": 0, "membership_set-INITIAL_FORMS": 0}
    answer = administrator.post(address(Project, "change", project.pk), {**sent, "model_settings": "{}", **inline})
    assert answer.status_code == 302
    project.refresh_from_db()
    assert project.redundancy == 9
    entry = AuditEntry.objects.first()
    assert (entry.user.username, entry.details) == ("ada", {"redundancy": [3, 9]})


def test_researchers_cannot_open_the_admin(owner: User, log_in: Callable[[User], Client]) -> None:
    assert log_in(owner).get("/admin/").status_code == 302


# Commands ---------------------------------------------------------------------------------------------------


def test_a_generated_password_is_printed_once_and_works(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_owner", "grace", "--generate")
    password = capsys.readouterr().out.strip().rsplit(" ", 1)[-1]
    grace = User.objects.get()
    assert (grace.is_staff, grace.is_superuser, grace.check_password(password)) == (True, True, True)


def test_a_password_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", "nine green bottles on a wall")
    call_command("create_owner", "grace", "--email", "grace@example.org")
    assert User.objects.get().check_password("nine green bottles on a wall")
    assert User.objects.get().email == "grace@example.org"


def test_the_password_must_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["nine green bottles on a wall", "nine green bottles on a well"])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(typed))
    with pytest.raises(CommandError, match="The two passwords differ"):
        call_command("create_owner", "grace")
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("name", "password", "message"),
    [
        ("grace", "short", "too short"),
        ("grace", "password1234", "too common"),
        ("grace", "918273645546372819", "entirely numeric"),
        ("gracehopper", "gracehopper1", "too similar"),
        ("two words", "nine green bottles on a wall", "valid username"),
    ],
)
def test_a_weak_password_or_invalid_name_is_refused(
    name: str, password: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", password)
    with pytest.raises(CommandError, match=message):
        call_command("create_owner", name)
    assert not User.objects.exists()


def test_a_username_in_use_is_refused(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", "nine green bottles on a wall")
    with pytest.raises(CommandError, match="already exists"):
        call_command("create_owner", "olga")
    assert not User.objects.get().is_superuser


def test_a_project_can_be_created_from_the_command_line(owner: User) -> None:
    call_command("create_project", "trains", "Night trains", "--owner", "olga")
    project = Project.objects.get()
    assert (project.slug, project.state, project.role_of(owner)) == ("trains", "draft", "owner")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trains", "Night trains", "--owner", "nobody"], "There is no account nobody"),
        (["new", "Night trains", "--owner", "olga"], "is reserved"),
        (["a b", "Night trains", "--owner", "olga"], "slug:"),
        (["trains", "", "--owner", "olga"], "title: This field is required."),
    ],
)
def test_create_project_validates_like_the_form(arguments: list[str], message: str, owner: User) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("create_project", *arguments)
    assert not Project.objects.exists()


def test_tables_are_named_and_ordered_for_people(administrator: Client) -> None:
    apps = {app["app_label"]: app for app in administrator.get("/admin/").context["app_list"]}
    studies = [str(row["name"]) for row in apps["annotation"]["models"]]
    assert apps["annotation"]["name"] == "Studies and people"
    assert studies[:5] == ["Users", "Studies", "Items", "Workers", "Judgements"]
    names = " ".join(studies + [str(row["name"]) for row in apps["modelling"]["models"]])
    assert "Deleted studies" in names
    assert "Updater processes" in names
    assert "Tombstone" not in names
