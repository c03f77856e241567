"""Access by role, URL and method. A URL that is not in the table fails the test."""

from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from annotation import services
from annotation.models import Item, Project, User, Worker
from tests.modelling.samples.two_camps import make_fitted_study
from tests.modelling.web.api.rights import API, DOCUMENTS

pytestmark = pytest.mark.django_db

ROLES = ["anonymous", "worker", "stranger", "viewer", "analyst", "owner", "staff"]
REFUSALS = {302, 403, 404, 405}  # expected for methods that are not in the table

# The status for each role, in the order of ROLES: 302 to the log-in page without a session, 404 for non-members, 403
# for members with a lower role, 422 or 404 if the role suffices but the request is empty.
OPEN = [200] * 7
MEMBERS = [302, 302, 404, 200, 200, 200, 200]
ANALYSTS = [302, 302, 404, 403, 200, 200, 200]
OWNERS = [302, 302, 404, 403, 403, 200, 200]
LOGGED_IN = [302, 302, 200, 200, 200, 200, 200]


def empty(row: list[int], status: int) -> list[int]:
    """Return the same rights with this status for an allowed request without content."""
    return [status if code == 200 else code for code in row]


TABLE: dict[tuple[str, str], list[int]] = {
    ("GET", "healthz"): OPEN,
    ("GET", "readyz"): empty(OPEN, 503),  # no updater is running
    ("GET", "metrics"): empty(OPEN, 404),  # no token is configured
    ("GET", "accounts/login/"): [200, 200, 302, 302, 302, 302, 302],
    ("POST", "accounts/login/"): [200, 200, 302, 302, 302, 302, 302],
    ("GET", "accounts/login/code/"): [302] * 7,  # no password was entered
    ("POST", "accounts/login/code/"): [302] * 7,
    ("GET", "accounts/two-factor/"): LOGGED_IN,
    ("POST", "accounts/two-factor/"): LOGGED_IN,
    ("POST", "accounts/logout/"): [302] * 7,
    ("GET", "accounts/password/"): LOGGED_IN,
    ("POST", "accounts/password/"): LOGGED_IN,
    ("GET", "accounts/reset/"): OPEN,
    ("POST", "accounts/reset/"): OPEN,
    ("GET", "accounts/reset/sent/"): OPEN,
    ("GET", "accounts/reset/<uidb64>/<token>/"): empty(OPEN, 410),  # unknown link
    ("POST", "accounts/reset/<uidb64>/<token>/"): empty(OPEN, 410),
    ("GET", "invitations/<slug:token>/"): empty(OPEN, 404),
    ("POST", "invitations/<slug:token>/"): empty(OPEN, 404),
    ("GET", ""): OPEN,
    ("GET", "s/<slug:slug>/"): OPEN,
    ("GET", "s/<slug:slug>/join/"): [302] * 7,
    ("POST", "s/<slug:slug>/join/"): [302] * 7,
    ("GET", "s/<slug:slug>/questions/"): [302] * 7,
    ("POST", "s/<slug:slug>/questions/"): [302] * 7,
    ("GET", "s/<slug:slug>/own-view/"): [401, 202, 401, 401, 401, 401, 401],
    ("GET", "s/<slug:slug>/task/"): [401, 200, 401, 401, 401, 401, 401],
    ("POST", "s/<slug:slug>/judgements/"): [401, 400, 401, 401, 401, 401, 401],
    ("POST", "s/<slug:slug>/retractions/"): [401, 400, 401, 401, 401, 401, 401],
    ("GET", "s/<slug:slug>/decline/"): [302] * 7,
    ("POST", "s/<slug:slug>/decline/"): [200, 302, 200, 200, 200, 200, 200],
    ("GET", "s/<slug:slug>/finish/"): [302, 403, 302, 302, 302, 302, 302],
    ("POST", "s/<slug:slug>/finish/"): [302, 403, 302, 302, 302, 302, 302],
    ("GET", "s/<slug:slug>/offline/"): [404, 200, 404, 404, 404, 404, 404],
    ("GET", "s/<slug:slug>/service-worker.js"): OPEN,
    ("POST", "s/<slug:slug>/stop/"): [302] * 7,
    ("POST", "s/<slug:slug>/resume/"): [302] * 7,
    ("GET", "s/<slug:slug>/return/"): OPEN,
    ("POST", "s/<slug:slug>/return/"): empty(OPEN, 422),
    ("POST", "s/<slug:slug>/leave/"): OPEN,
    ("GET", "s/<slug:slug>/data/"): [302, 200, 302, 302, 302, 302, 302],
    ("POST", "s/<slug:slug>/data/delete/"): [302, 422, 302, 302, 302, 302, 302],
    ("GET", "s/<slug:slug>/data/my-data.json"): [302, 200, 302, 302, 302, 302, 302],
    ("GET", "s/<slug:slug>/data/my-answers.csv"): [302, 200, 302, 302, 302, 302, 302],
    ("GET", "s/<slug:slug>/prepare/"): [302] * 7,
    ("POST", "s/<slug:slug>/prepare/"): [302] * 7,
    ("GET", "s/<slug:slug>/mturk/"): empty(OPEN, 404),  # the study recruits on no platform
    ("POST", "hooks/prolific/<slug:slug>/"): empty(OPEN, 404),
    ("GET", "r/<slug:slug>/"): empty(OPEN, 404),  # the ranking is not public
    ("GET", "accounts/tokens/"): LOGGED_IN,
    ("POST", "accounts/tokens/"): empty(LOGGED_IN, 422),
    ("POST", "accounts/tokens/<int:pk>/revoke/"): empty(LOGGED_IN, 404),  # no such token
    **{("GET", route): OPEN for route in DOCUMENTS},
    ("GET", "projects/"): LOGGED_IN,
    ("POST", "text-preview/"): LOGGED_IN,  # writes nothing
    ("GET", "projects/new/"): LOGGED_IN,
    ("POST", "projects/new/"): empty(LOGGED_IN, 422),
    ("GET", "projects/<slug:slug>/"): MEMBERS,
    ("GET", "projects/<slug:slug>/link/"): MEMBERS,
    ("GET", "projects/<slug:slug>/settings/"): OWNERS,
    ("POST", "projects/<slug:slug>/settings/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/questions/"): OWNERS,
    ("POST", "projects/<slug:slug>/questions/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/state/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/state/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/recruitment/"): OWNERS,
    ("POST", "projects/<slug:slug>/recruitment/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/people/"): OWNERS,
    ("POST", "projects/<slug:slug>/people/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/people/invitations.csv"): OWNERS,
    ("POST", "projects/<slug:slug>/people/revoke/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/preparation/"): OWNERS,
    ("POST", "projects/<slug:slug>/preparation/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/gold/"): OWNERS,
    ("POST", "projects/<slug:slug>/gold/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/arms/"): OWNERS,
    ("POST", "projects/<slug:slug>/arms/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/participants/"): OWNERS,
    ("POST", "projects/<slug:slug>/participants/<slug:code>/end/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/participants/<slug:kind>.csv"): empty(OWNERS, 404),  # no platform
    ("GET", "projects/<slug:slug>/passport/"): MEMBERS,
    ("POST", "projects/<slug:slug>/passport/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/copy/"): OWNERS,
    ("POST", "projects/<slug:slug>/copy/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/archive/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/delete/"): OWNERS,
    ("POST", "projects/<slug:slug>/delete/"): empty(OWNERS, 422),
    ("GET", "projects/<slug:slug>/preview/"): MEMBERS,
    ("POST", "projects/<slug:slug>/preview/"): empty(MEMBERS, 302),  # writes nothing
    ("GET", "projects/<slug:slug>/preview/pairs/"): MEMBERS,
    ("GET", "projects/<slug:slug>/preview/questions/"): empty(MEMBERS, 302),  # there are no questions
    ("POST", "projects/<slug:slug>/preview/questions/"): empty(MEMBERS, 302),
    ("GET", "projects/<slug:slug>/preview/thanks/"): MEMBERS,
    ("GET", "projects/<slug:slug>/trial/"): ANALYSTS,
    ("GET", "projects/<slug:slug>/trial/task/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/trial/task/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/trial/judgements/"): empty(ANALYSTS, 400),
    ("POST", "projects/<slug:slug>/trial/retractions/"): empty(ANALYSTS, 400),
    ("POST", "projects/<slug:slug>/trial/restart/"): empty(ANALYSTS, 302),
    ("POST", "projects/<slug:slug>/workers/<slug:code>/exclude/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/workers/<slug:code>/include/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/workers/<slug:code>/suspend/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/workers/<slug:code>/erase/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/members/"): OWNERS,
    ("POST", "projects/<slug:slug>/members/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/invitations/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/invitations/<int:pk>/withdraw/"): empty(OWNERS, 404),
    ("GET", "projects/<slug:slug>/items/"): MEMBERS,
    ("GET", "projects/<slug:slug>/items/add/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/items/add/"): empty(ANALYSTS, 422),
    ("GET", "projects/<slug:slug>/items/import/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/items/import/"): empty(ANALYSTS, 422),
    ("GET", "projects/<slug:slug>/items/<int:pk>/"): MEMBERS,
    ("POST", "projects/<slug:slug>/items/<int:pk>/"): empty(ANALYSTS, 422),
    ("POST", "projects/<slug:slug>/items/<int:pk>/switch/"): empty(ANALYSTS, 302),
    ("GET", "projects/<slug:slug>/judgements/import/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/judgements/import/"): empty(ANALYSTS, 422),
    ("GET", "projects/<slug:slug>/ranking/"): MEMBERS,
    ("GET", "projects/<slug:slug>/ranking.csv"): empty(ANALYSTS, 404),  # there is no ranking yet
    ("GET", "projects/<slug:slug>/workers/"): MEMBERS,
    ("GET", "projects/<slug:slug>/workers/<slug:code>/"): MEMBERS,
    ("GET", "projects/<slug:slug>/components/"): MEMBERS,
    ("GET", "projects/<slug:slug>/components.csv"): empty(ANALYSTS, 404),  # there is no version yet
    ("GET", "projects/<slug:slug>/workers.csv"): empty(ANALYSTS, 404),
    ("GET", "projects/<slug:slug>/workers/<slug:code>/preferences.csv"): empty(ANALYSTS, 404),
    ("GET", "projects/<slug:slug>/workers/<slug:code>/judgements.csv"): empty(ANALYSTS, 404),
    ("GET", "projects/<slug:slug>/ranking/<int:pk>/"): MEMBERS,
    ("GET", "projects/<slug:slug>/ranking/<int:pk>/judgements.csv"): empty(ANALYSTS, 404),
    ("POST", "projects/<slug:slug>/components/<int:number>/name/"): empty(ANALYSTS, 404),
    ("GET", "projects/<slug:slug>/exports/"): ANALYSTS,
    ("POST", "projects/<slug:slug>/exports/"): empty(ANALYSTS, 422),
    ("GET", "projects/<slug:slug>/exports/<int:number>/"): empty(ANALYSTS, 404),
    ("GET", "projects/<slug:slug>/new-argument/"): MEMBERS,
    ("POST", "projects/<slug:slug>/new-argument/"): MEMBERS,  # writes nothing
    ("GET", "projects/<slug:slug>/reliability/"): MEMBERS,
    ("GET", "projects/<slug:slug>/designer/"): MEMBERS,
    ("POST", "projects/<slug:slug>/designer/simulate/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/designer/cancel/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/suggestions/"): MEMBERS,
    ("GET", "projects/<slug:slug>/stopping/"): MEMBERS,
    ("GET", "projects/<slug:slug>/claims/"): MEMBERS,
    ("GET", "projects/<slug:slug>/pairs/"): MEMBERS,
    ("GET", "projects/<slug:slug>/activity/"): MEMBERS,
    ("GET", "projects/<slug:slug>/model/"): MEMBERS,
    ("GET", "projects/<slug:slug>/model/versions/<int:number>/"): empty(MEMBERS, 404),  # there is no version yet
    ("GET", "projects/<slug:slug>/model/compare/"): MEMBERS,
    ("POST", "projects/<slug:slug>/model/pin/"): empty(OWNERS, 404),
    ("POST", "projects/<slug:slug>/model/unpin/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/model/refit/"): empty(OWNERS, 302),
    ("GET", "projects/<slug:slug>/model/settings/"): OWNERS,
    ("POST", "projects/<slug:slug>/model/settings/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/model/search/"): empty(OWNERS, 302),
    ("POST", "projects/<slug:slug>/model/search/use/"): empty(OWNERS, 404),
    ("GET", "projects/<slug:slug>/webhooks/"): OWNERS,
    ("POST", "projects/<slug:slug>/webhooks/"): empty(OWNERS, 422),
    ("POST", "projects/<slug:slug>/webhooks/<int:pk>/secret/"): empty(OWNERS, 404),  # there is no webhook yet
    ("POST", "projects/<slug:slug>/webhooks/<int:pk>/switch/"): empty(OWNERS, 404),
    ("POST", "projects/<slug:slug>/webhooks/<int:pk>/test/"): empty(OWNERS, 404),
    ("POST", "projects/<slug:slug>/webhooks/<int:pk>/remove/"): empty(OWNERS, 404),
}
TESTED_WITH_EVERY_METHOD = ("anonymous", "worker", "owner")  # a method refused to owners is refused to all members
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            if route != "admin/":  # tested below
                yield from routes(pattern.url_patterns, route)
        else:
            yield route


ROUTES = sorted(set(routes(get_resolver().url_patterns)))


@pytest.fixture
def clients(
    project: Project, stranger: User, viewer: User, analyst: User, owner: User, worker_client: Client,
    admin_user: User, log_in: Callable[[User], Client],
) -> dict[str, Client]:  # fmt: skip
    people = {"stranger": stranger, "viewer": viewer, "analyst": analyst, "owner": owner, "staff": admin_user}
    return {"anonymous": Client(), "worker": worker_client, **{role: log_in(user) for role, user in people.items()}}


def address(route: str, project: Project) -> str:
    values = {
        "<slug:slug>": project.slug,
        "<int:pk>": str(Item.objects.filter(project=project).latest("pk").pk),
        "<int:number>": "1",
        "<uidb64>": "MQ",
        "<token>": "never-sent",
        "<slug:token>": "never-sent",
        "<slug:kind>": "approve",
        "<slug:code>": Worker.objects.filter(project=project).latest("pk").code,
    }
    for part, value in values.items():
        route = route.replace(part, value)
    return f"/{route}"


def test_every_url_is_in_the_table() -> None:
    """The API has its own table."""
    assert {route for _, route in TABLE} | {route for _, route in API} == set(ROUTES)


@pytest.mark.parametrize("route", sorted({route for _, route in TABLE}))
def test_each_role_gets_what_the_table_says(route: str, project: Project, clients: dict[str, Client]) -> None:
    where = address(route, project)
    for method in METHODS:
        for position, role in enumerate(ROLES):
            if (method, route) not in TABLE and role not in TESTED_WITH_EVERY_METHOD:
                continue
            answer = clients[role].generic(method, where, content_type="application/x-www-form-urlencoded")
            allowed = {TABLE[method, route][position]} if (method, route) in TABLE else REFUSALS
            assert answer.status_code in allowed, f"{role} {method} {where}: {answer.status_code}"
            if answer.status_code == 302 and role in ("anonymous", "worker") and where.startswith("/projects/"):
                assert answer["Location"].startswith("/accounts/login/?next=")


NOT_FOUND = [
    "projects/<slug:slug>/exports/<int:number>/",  # no export was requested
    "projects/<slug:slug>/participants/<slug:kind>.csv",  # the study recruits on no platform
]


@pytest.mark.slow
@pytest.mark.both_databases
def test_every_page_of_a_study_with_a_version_responds(project: Project, clients: dict[str, Client]) -> None:
    make_fitted_study(project)
    for method, route in TABLE:
        if method == "GET" and route.startswith("projects/") and route not in NOT_FOUND:
            response = clients["owner"].get(address(route, project), follow=True)
            assert response.status_code == 200, f"{route}: {response.status_code}"


# POST requests that an archived project still allows.
STILL_ALLOWED = ["archive", "copy", "delete", "erase", "exports", "members", "new-argument", "withdraw"]


@pytest.mark.parametrize("route", [r for r in ROUTES if r.startswith("projects/<slug") and ("POST", r) in TABLE])
def test_an_archived_project_is_read_only(route: str, project: Project, clients: dict[str, Client]) -> None:
    services.archive_project(project=project, user=None, archived=True)
    answer = clients["owner"].post(address(route, project))
    allowed = any(route.endswith(f"/{what}/") for what in STILL_ALLOWED)
    assert answer.status_code == (TABLE["POST", route][5] if allowed else 409)


@pytest.mark.parametrize("role", ["anonymous", "worker", "stranger", "viewer", "analyst", "owner"])
def test_only_staff_can_open_the_admin(role: str, clients: dict[str, Client]) -> None:
    for where in (
        "/admin/",
        "/admin/annotation/judgement/",
        "/admin/annotation/worker/",
        "/admin/modelling/modelsnapshot/",
    ):
        answer = clients[role].get(where)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")
        refused = clients[role].get(answer["Location"])
        assert refused.status_code == (302 if role in ("anonymous", "worker") else 403)


def test_ids_of_another_project_are_not_found(project: Project, owner: User, stranger: User, log_in) -> None:
    elsewhere = Project.objects.get(slug="elsewhere")
    foreign_item = Item.objects.create(project=elsewhere, key="x", text="x")
    foreign_worker = services.enrol(project=elsewhere)
    client = log_in(owner)
    assert client.get(f"/projects/pets/items/{foreign_item.pk}/").status_code == 404
    assert client.post(f"/projects/pets/items/{foreign_item.pk}/switch/").status_code == 404
    assert client.get(f"/projects/pets/workers/{foreign_worker.code}/").status_code == 404
    assert client.get(f"/projects/pets/ranking/{foreign_item.pk}/").status_code == 404
    assert client.get("/projects/elsewhere/ranking.csv").status_code == 404
