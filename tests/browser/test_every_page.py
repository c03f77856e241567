"""Accessibility of every page: on a wide screen and a phone, in light and dark, and by keyboard.

Some of the model's pages and the judging page have their own tests (test_dashboards, test_people_pages,
test_judging_page).
"""

from decimal import Decimal
from functools import reduce
from typing import Any, Literal

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from annotation import services
from annotation.models import Arm, Item, Project, User, Worker, WorkerCheck
from annotation.services.participation.arms import change_arms
from annotation.services.participation.preparation import change_gold
from annotation.services.participation.worker_invitations import invite_workers
from modelling.models import ExportJob, WebhookDelivery, WebhookHost
from modelling.updater.webhooks import delivery
from modelling.web.api import tokens
from tests.annotation.platforms.studies import recruit
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.browser.test_end_to_end import log_in
from tests.conftest import make_user
from tests.modelling.samples.two_camps import make_fitted_study
from tests.test_access import TABLE as ACCESS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SCREENS = [(1280, "light"), (390, "dark")]
PUBLIC = [
    "/", "/accounts/login/", "/accounts/reset/", "/accounts/reset/sent/", "/accounts/reset/MQ/used/", "/r/pets/",
    "/api/v1/", "/s/pets/", "/s/paused/", "/nothing/",
]  # fmt: skip
ACCOUNT = [
    "/projects/", "/projects/?archived", "/projects/new/", "/projects/old/", "/accounts/password/", "/accounts/tokens/",
    "/accounts/two-factor/",
]  # fmt: skip
STUDY = "projects/<slug:slug>/"
NO_PAGES = {"state/", "trial/task/", "exports/<int:number>/"}  # redirects, JSON and files
QUERIES = ["ranking/?q=nothing", "pairs/?worker=nobody", "new-argument/?text=Evidence"]
PAID = ["", "link/", "recruitment/", "participants/", "passport/", "arms/", "gold/", "people/"]
WITHOUT_DATA = [
    "activity/", "ranking/", "workers/", "components/", "reliability/", "pairs/", "model/", "items/", "exports/",
]  # fmt: skip
GOOD = b"key,text,group\ntext-000,Corrected.,texts\nnew,A new text.,texts\n"
OVERFLOWING = """
(elements) => elements.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText.slice(0, 80))
"""
WRONG = b"key,text\none,\none,Twice.\n"


@pytest.fixture
def invitation(project: Project, owner: User) -> str:
    """An invitation to a study with versions, files, tokens and a webhook; an archived and an empty study exist too."""
    make_fitted_study(project)
    services.change_project(project=project, user=owner, changes={"ranking_public": True})
    WebhookHost.objects.create(host="hooks.example.org")
    hook = delivery.add_webhook(project=project, user=owner, url=f"https://hooks.example.org/{'long-' * 40}")
    outcomes = [("delivered", 204, ""), ("failed", 302, delivery.REDIRECT), ("waiting", 503, delivery.NOT_OK)]
    for state, status, words in outcomes:
        facts = {"payload": {"data": {"version": 1}}, "state": state, "status": status, "message": words}
        WebhookDelivery.objects.create(webhook=hook, event="version.published", **facts)
    for state in ("done", "running", "failed"):
        what = {"what": "judgements", "format": "csv", "name": "pets.csv", "message": "The disk is full."}
        ExportJob.objects.create(project=project, requested_by=owner, state=state, sequence=1, **what)
    tokens.create_token(user=owner, name="nightly", scope="read", days=30)
    old = services.create_project(owner=owner, slug="old", title="Old")
    services.archive_project(project=old, user=owner, archived=True)
    services.create_project(owner=owner, slug="paused", title="Paused", state="paused")
    services.create_project(owner=owner, slug="empty", title="Empty")
    make_paid_study(owner)
    return f"/invitations/{services.invite(project=project, user=owner, role='viewer', email='nina@example.org')}/"


def make_paid_study(owner: User) -> None:
    """A study on Prolific with two arms, gold pairs, invitations, a changed plan and a participant."""
    paid = services.create_project(owner=owner, slug="paid", title="Paid")
    change_arms(project=paid, user=owner, arms=[Arm(name=name) for name in ("short", "long")])
    services.change_project(project=paid, user=owner, changes={"state": "open"})
    services.change_project(project=paid, user=owner, changes={"redundancy": 5})
    gold = [{"better": "A long and good reason. " * 20, "worse": "No."}]
    change_gold(project=paid, user=owner, gold=gold, gold_checks=1, gold_limit=1, gold_consequence="flag")
    invite_workers(project=paid, user=owner, labels=["a" * 180 + "@example.org", "ben"], days=7)
    recruit(paid, reward=Decimal("1.00"), estimated_minutes=20)
    worker = services.enrol(project=paid, platform="prolific", external_id="5f" * 12)
    facts = {"kind": "gold", "pair": gold[0], "expected": "left", "choice": "right", "answered_at": timezone.now()}
    WorkerCheck.objects.create(project=paid, worker=worker, number=1, **facts)


def study_pages() -> list[str]:
    """Every page of a study, from the table of access rights, so that a new page is checked too."""
    item, worker = Item.objects.get(key="text-000"), Worker.objects.filter(project__slug="pets").earliest("pk")
    routes = [route.removeprefix(STUDY) for method, route in ACCESS if method == "GET" and route.startswith(STUDY)]
    pages = [route for route in routes if route not in NO_PAGES and (route.endswith("/") or not route)]
    values = {"<int:pk>": item.pk, "<slug:code>": worker.code, "<int:number>": 1}
    filled = [reduce(lambda text, name: text.replace(name, str(values[name])), values, page) for page in pages]
    return [f"/projects/pets/{page}" for page in filled + QUERIES]


def upload(page: Page, address: str, content: bytes) -> None:
    page.goto(address)
    page.set_input_files("#file", {"name": "items.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_role("button", name="Preview").click()
    page.wait_for_load_state()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_pages_are_accessible_on_every_screen(
    served: str, browser: Browser, owner: User, invitation: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    public, private = [*PUBLIC, invitation], [*ACCOUNT, invitation, *study_pages()]
    private += [f"/projects/empty/{each}" for each in WITHOUT_DATA] + [f"/projects/paid/{each}" for each in PAID]
    problems = []
    page = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme).new_page()
    for path in public:
        page.goto(served + path)
        problems += find_page_problems(page)
    log_in(page, served, owner.username)
    for path in private:
        page.goto(served + path)
        problems += find_page_problems(page)
    for content in (GOOD, WRONG):
        upload(page, f"{served}/projects/pets/items/import/", content)
        problems += find_page_problems(page)
    assert problems == []


def test_the_api_reference_is_drawn_within_the_content_security_policy(served: str, browser: Browser) -> None:
    problems, errors, addresses = [], [], set()
    for width, scheme in SCREENS:
        page = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme).new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: addresses.add(request.url))
        page.goto(f"{served}/api/v1/#/items/add_items")
        expect(page.locator(".opblock")).to_have_count(27)
        expect(page.locator("#operations-items-add_items").get_by_text("Request body")).to_be_visible()
        problems.extend(find_page_problems(page))
        page.context.close()
    assert (problems, errors) == ([], [])
    assert all(address.startswith((served, "data:")) for address in addresses)


def test_every_control_is_reached_by_keyboard(served: str, page: Page, owner: User, invitation: str) -> None:
    log_in(page, served, owner.username)
    problems = []
    paths = ["", "settings/", "members/", "webhooks/", "exports/", "items/import/", "pairs/", "new-argument/"]
    paths += ["claims/", "reliability/", "suggestions/", "stopping/"]
    paths = [f"pets/{path}" for path in [*paths, "preparation/", "questions/"]] + [f"paid/{path}" for path in PAID]
    for path in paths:
        page.goto(f"{served}/projects/{path}")
        problems += find_keyboard_problems(page)
    page.goto(f"{served}/accounts/tokens/")
    assert problems + find_keyboard_problems(page) == []


def test_a_refused_user_sees_an_error_page(served: str, page: Page, project: Project, owner: User) -> None:
    services.set_membership(project=project, user=owner, member=make_user("vera"), role="viewer")
    log_in(page, served, "vera")
    page.goto(f"{served}/projects/pets/settings/")
    expect(page.get_by_role("heading", name="You do not have permission to do this.")).to_be_visible()
    assert find_page_problems(page) == []


def test_tables_do_not_scroll_sideways_on_a_phone(
    served: str, page: Page, project: Project, owner: User, invitation: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    log_in(page, served, owner.username)
    item, worker = Item.objects.get(key="text-000"), project.workers.order_by("pk")[0]
    paths = [f"workers/{worker.code}/", f"ranking/{item.pk}/", "components/", "new-argument/?text=Evidence"]
    wide = []
    paths = [f"pets/{path}" for path in [*paths, "ranking/", "workers/", "model/versions/1/"]]
    for path in [*paths, "paid/people/"]:
        page.goto(f"{served}/projects/{path}")
        assert page.locator(".table.folds").count(), path
        wide += page.locator(".table-scroll:has(.folds)").evaluate_all(OVERFLOWING)
    assert wide == []


def test_wide_tables_fit_a_wide_screen_in_german(
    served: str, page: Page, project: Project, owner: User, invitation: str, settings: Any
) -> None:
    Item.objects.filter(active=True).update(text="An argument that is too long for one line of a table. " * 5)
    log_in(page, served, owner.username)
    settings.LANGUAGE_CODE = "de"
    worker, wide = project.workers.order_by("pk")[0], []
    for path in ("pets/ranking/", "pets/workers/", f"pets/workers/{worker.code}/", "pets/claims/", "paid/people/"):
        page.goto(f"{served}/projects/{path}")
        wide += page.locator(".table-scroll:has(tbody)").evaluate_all(OVERFLOWING)
    assert wide == []


def test_figures_of_a_german_page_use_german_numbers_and_dates(
    served: str, page: Page, owner: User, invitation: str, settings: Any
) -> None:
    log_in(page, served, owner.username)
    settings.LANGUAGE_CODE = "de"
    page.goto(f"{served}/projects/pets/ranking/")
    figure = page.locator("[data-figure=intervals]")
    expect(figure.get_by_role("button", name="SVG: Wert nach Rang")).to_be_visible()
    canvas = page.locator("#canvas-intervals")
    assert canvas.evaluate("canvas => canvas._fullLayout._d3locale.numberFormat(',.1f')(1234.5)") == "1.234,5"
    page.goto(f"{served}/projects/pets/activity/")
    canvas = page.locator("#canvas-over-time")
    expect(canvas.locator(".xtick").first).to_be_visible()
    days = canvas.evaluate("canvas => canvas._fullLayout._d3locale.timeFormat('%A, %-d. %B')(new Date('2026-03-01'))")
    assert days == "Sonntag, 1. März"


def test_figures_keep_their_height_and_are_light_in_files_and_print(
    served: str, browser: Browser, owner: User, invitation: str
) -> None:
    page = browser.new_context(color_scheme="dark", viewport={"width": 1280, "height": 844}).new_page()
    page.goto(f"{served}/r/pets/")
    figure = page.locator("[data-figure=intervals]")
    expect(figure.locator(".main-svg").first).to_have_css("background-color", "rgb(24, 33, 31)")
    with page.expect_download() as download:
        figure.get_by_role("button", name="SVG").click()
    assert download.value.suggested_filename == "pets-intervals-v1.svg"
    assert "fill: rgb(22, 33, 31)" in download.value.path().read_text(encoding="utf-8")  # dark text on white
    height = figure.locator(".canvas").evaluate("canvas => canvas.offsetHeight")
    page.set_viewport_size({"width": 800, "height": 844})
    expect(figure.locator(".main-svg").first).to_have_attribute("width", "726")
    assert figure.locator(".canvas").evaluate("canvas => canvas.offsetHeight") == height
    page.emulate_media(media="print")
    expect(figure.locator(".main-svg").first).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.get_by_role("search")).to_be_hidden()
