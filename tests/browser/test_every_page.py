"""Every page can be read by everybody: by machine, on a wide screen and a phone, in light and dark, by key alone.

The model's pages and the judging page have walks of their own (test_dashboards, test_people_pages, test_judging_page).
"""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation import services
from annotation.models import Item, Project, User
from modelling import tokens, webhooks
from modelling.models import ExportJob, WebhookDelivery, WebhookHost
from tests.browser.reading import keyboard_problems, problems_here
from tests.browser.test_thread import log_in
from tests.conftest import make_user
from tests.modelling.two_camps import fitted_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SCREENS = [(1280, "light"), (390, "dark")]
OUTSIDE = [
    "/", "/accounts/login/", "/accounts/reset/", "/accounts/reset/sent/", "/accounts/reset/MQ/used/", "/r/pets/",
    "/api/v1/", "/s/pets/", "/s/resting/", "/nothing/",
]  # fmt: skip
INSIDE = [
    "/projects/", "/projects/?archived", "/projects/new/", "/projects/old/", "/accounts/password/", "/accounts/tokens/",
]  # fmt: skip
OF_A_PROJECT = [
    "", "settings/", "copy/", "delete/", "members/", "webhooks/", "exports/", "items/", "items/add/", "items/import/",
    "judgements/import/", "activity/", "ranking/", "ranking/?q=nothing", "pairs/", "pairs/?worker=nobody",
    "new-argument/?text=Evidence", "model/versions/1/", "preview/",
]  # fmt: skip
NOTHING_YET = ["activity/", "ranking/", "workers/", "components/", "pairs/", "model/", "items/", "exports/"]
GOOD = b"key,text,group\ntext-000,Corrected.,texts\nnew,A new text.,texts\n"
WIDER_THAN_ITS_PLACE = """
(places) => places.filter((place) => place.scrollWidth > place.clientWidth).map((place) => place.innerText.slice(0, 80))
"""
WRONG = b"key,text\none,\none,Twice.\n"


@pytest.fixture
def invitation(project: Project, owner: User) -> str:
    """The link of an invitation to a study that has everything: versions, files, tokens, a webhook with messages.

    Beside it are one that is archived, one that rests and one that is empty.
    """
    fitted_study(project)
    services.change_project(project=project, user=owner, changes={"ranking_public": True})
    WebhookHost.objects.create(host="hooks.example.org")
    hook = webhooks.add_webhook(project=project, user=owner, url=f"https://hooks.example.org/{'long-' * 40}")
    outcomes = [("delivered", 204, ""), ("failed", 302, webhooks.REDIRECT), ("waiting", 503, webhooks.NOT_OK)]
    for state, status, words in outcomes:
        facts = {"payload": {"data": {"version": 1}}, "state": state, "status": status, "words": words}
        WebhookDelivery.objects.create(webhook=hook, event="version.published", **facts)
    for state in ("done", "running", "failed"):
        what = {"what": "judgements", "format": "csv", "name": "pets.csv", "words": "The disk is full."}
        ExportJob.objects.create(project=project, asked_by=owner, state=state, sequence=1, **what)
    tokens.make_token(user=owner, name="nightly", scope="read", days=30)
    old = services.create_project(owner=owner, slug="old", title="Old")
    services.archive_project(project=old, user=owner, archived=True)
    services.create_project(owner=owner, slug="resting", title="Resting", state="paused")
    services.create_project(owner=owner, slug="empty", title="Empty")
    return f"/invitations/{services.invite(project=project, user=owner, role='viewer', email='nina@example.org')}/"


def upload(page: Page, address: str, content: bytes) -> None:
    page.goto(address)
    page.set_input_files("#file", {"name": "items.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_role("button", name="Look at it first").click()
    page.wait_for_load_state()


def test_every_page_around_a_project_can_be_read_on_every_screen(
    served: str, browser: Browser, owner: User, invitation: str
) -> None:
    item = Item.objects.get(key="text-000")
    outside = [*OUTSIDE, invitation]
    inside = [*INSIDE, invitation, *(f"/projects/pets/{each}" for each in [*OF_A_PROJECT, f"items/{item.pk}/"])]
    inside += [f"/projects/empty/{each}" for each in NOTHING_YET]
    problems = []
    for width, scheme in SCREENS:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        for path in outside:
            page.goto(served + path)
            problems += problems_here(page)
        log_in(page, served, owner.username)
        for path in inside:
            page.goto(served + path)
            problems += problems_here(page)
        for content in (GOOD, WRONG):
            upload(page, f"{served}/projects/pets/items/import/", content)
            problems += problems_here(page)
        context.close()
    assert problems == []


def test_every_control_around_a_project_is_reached_by_key(
    served: str, page: Page, owner: User, invitation: str
) -> None:
    log_in(page, served, owner.username)
    problems = []
    for path in ["", "settings/", "members/", "webhooks/", "exports/", "items/import/", "pairs/", "new-argument/"]:
        page.goto(f"{served}/projects/pets/{path}")
        problems += keyboard_problems(page)
    page.goto(f"{served}/accounts/tokens/")
    assert problems + keyboard_problems(page) == []


def test_who_may_not_is_told_so_on_a_page(served: str, page: Page, project: Project, owner: User) -> None:
    services.set_membership(project=project, user=owner, member=make_user("vera"), role="viewer")
    log_in(page, served, "vera")
    page.goto(f"{served}/projects/pets/settings/")
    expect(page.get_by_role("heading", name="Your account may not do this.")).to_be_visible()
    assert problems_here(page) == []


def test_no_table_of_the_model_is_pushed_sideways_on_a_phone(
    served: str, page: Page, project: Project, owner: User, invitation: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    log_in(page, served, owner.username)
    item, worker = Item.objects.get(key="text-000"), project.workers.order_by("pk")[0]
    paths = [f"workers/{worker.code}/", f"ranking/{item.pk}/", "components/", "new-argument/?text=Evidence"]
    wide = []
    for path in [*paths, "model/versions/1/"]:
        page.goto(f"{served}/projects/pets/{path}")
        assert page.locator(".table.folds").count(), path
        wide += page.locator(".table-scroll:has(.folds)").evaluate_all(WIDER_THAN_ITS_PLACE)
    assert wide == []


def test_a_picture_of_a_german_page_is_german(
    served: str, page: Page, owner: User, invitation: str, settings: Any
) -> None:
    log_in(page, served, owner.username)
    settings.LANGUAGE_CODE = "de"
    page.goto(f"{served}/projects/pets/ranking/")
    picture = page.locator("[data-picture=intervals]")
    expect(picture.get_by_role("button", name="SVG: Wert mit 95")).to_be_visible()
    ticks = "".join(picture.locator(".ytick").all_text_contents())
    assert "," in ticks
    assert "." not in ticks
    page.goto(f"{served}/projects/pets/activity/")
    canvas = page.locator("#canvas-over-time")
    expect(canvas.locator(".xtick").first).to_be_visible()
    days = canvas.evaluate("canvas => canvas._fullLayout._d3locale.timeFormat('%A, %-d. %B')(new Date('2026-03-01'))")
    assert days == "Sonntag, 1. März"


def test_a_picture_keeps_its_height_in_another_window_and_is_light_in_a_file_and_on_paper(
    served: str, browser: Browser, owner: User, invitation: str
) -> None:
    page = browser.new_context(color_scheme="dark", viewport={"width": 1280, "height": 844}).new_page()
    page.goto(f"{served}/r/pets/")
    picture = page.locator("[data-picture=intervals]")
    expect(picture.locator(".main-svg").first).to_have_css("background-color", "rgb(24, 33, 31)")
    with page.expect_download() as download:
        picture.get_by_role("button", name="SVG").click()
    assert download.value.suggested_filename == "pets-intervals-v1.svg"
    assert "fill: rgb(22, 33, 31)" in download.value.path().read_text(encoding="utf-8")  # dark words on white
    page.set_viewport_size({"width": 800, "height": 844})
    expect(picture.locator(".main-svg").first).to_have_attribute("width", "726")
    assert picture.locator(".canvas").evaluate("canvas => canvas.offsetHeight") == 420
    page.emulate_media(media="print")
    expect(picture.locator(".main-svg").first).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.get_by_role("search")).to_be_hidden()
