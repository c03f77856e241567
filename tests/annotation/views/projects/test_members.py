"""Members and roles; a project always keeps an owner."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import AuditEntry, Membership, Project, User
from tests.conftest import make_user

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]
ADDRESS = "/projects/pets/members/"


def roles(project: Project) -> dict[str, str]:
    return dict(Membership.objects.filter(project=project).values_list("user__username", "role"))


def test_an_owner_adds_a_user_by_username(project: Project, owner: User, log_in: LogIn) -> None:
    make_user("nora")
    response = log_in(owner).post(ADDRESS, {"member": "nora", "role": "analyst"}, follow=True)
    assert roles(project) == {"olga": "owner", "nora": "analyst"}
    assert "nora" in response.content.decode()
    assert AuditEntry.objects.filter(project=project).first().details == {"member": "nora", "role": "analyst"}


def test_an_owner_changes_a_role_and_removes_a_member(
    project: Project, owner: User, viewer: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    client.post(ADDRESS, {"member": "victor", "role": "owner"})
    assert roles(project)["victor"] == "owner"
    client.post(ADDRESS, {"member": "victor", "role": ""})
    assert roles(project) == {"olga": "owner"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member": "nobody", "role": "viewer"}, "There is no active user with this name."),
        ({"member": "", "role": "viewer"}, "This field is required."),
        ({"member": "olga", "role": "king"}, "not one of the available choices"),
        ({"member": "\u0000", "role": "viewer"}, "Null characters are not allowed."),
    ],
)
def test_an_unknown_user_or_role_is_rejected(
    fields: dict[str, str], message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = log_in(owner).post(ADDRESS, fields)
    assert response.status_code == 422
    assert message in response.content.decode()
    assert roles(project) == {"olga": "owner"}


@pytest.mark.parametrize("role", ["", "viewer"])
def test_the_last_owner_cannot_be_removed(role: str, project: Project, owner: User, log_in: LogIn) -> None:
    response = log_in(owner).post(ADDRESS, {"member": "olga", "role": role})
    assert response.status_code == 422
    assert "A study needs at least one owner." in response.content.decode()
    assert roles(project) == {"olga": "owner"}


def test_an_owner_who_leaves_is_redirected_to_an_allowed_page(project: Project, owner: User, log_in: LogIn) -> None:
    Membership.objects.create(project=project, user=make_user("nora"), role="owner")
    client = log_in(owner)
    assert client.post(ADDRESS, {"member": "olga", "role": "viewer"}).headers["Location"] == "/projects/pets/"
    Membership.objects.filter(user=owner).update(role="owner")
    assert client.post(ADDRESS, {"member": "olga", "role": ""}).headers["Location"] == "/projects/"


def test_analysts_cannot_change_members(project: Project, analyst: User, log_in: LogIn) -> None:
    client = log_in(analyst)
    assert client.get(ADDRESS).status_code == 403
    assert client.post(ADDRESS, {"member": "anna", "role": "owner"}).status_code == 403
    assert roles(project)["anna"] == "analyst"
