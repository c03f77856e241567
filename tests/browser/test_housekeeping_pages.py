"""The pages around a project can be read by everybody: webhooks, members, copies, deletions, doors to an account."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from annotation import services
from annotation.models import Project, User
from modelling import webhooks
from modelling.models import WebhookDelivery, WebhookHost
from tests.browser.test_thread import log_in

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SCREENS = [(1280, "light"), (390, "dark")]
OUTSIDE = ["/accounts/reset/", "/accounts/reset/sent/", "/accounts/reset/MQ/used/"]
INSIDE = ["/accounts/password/", "/projects/?archived"]
OF_A_PROJECT = ["webhooks/", "members/", "copy/", "delete/", "settings/"]


@pytest.fixture
def invitation(project: Project, owner: User) -> str:
    """The link of an invitation to a study that has a webhook with messages, beside one that is archived."""
    WebhookHost.objects.create(host="hooks.example.org")
    hook = webhooks.add_webhook(project=project, user=owner, url=f"https://hooks.example.org/{'long-' * 40}")
    outcomes = [("delivered", 204, ""), ("failed", 302, webhooks.REDIRECT), ("waiting", 503, webhooks.NOT_OK)]
    for state, status, words in outcomes:
        facts = {"payload": {"data": {"version": 1}}, "state": state, "status": status, "words": words}
        WebhookDelivery.objects.create(webhook=hook, event="version.published", **facts)
    old = services.create_project(owner=owner, slug="old", title="Old")
    services.archive_project(project=old, user=owner, archived=True)
    return f"/invitations/{services.invite(project=project, user=owner, role='viewer', email='nina@example.org')}/"


def problems_on(page: Page, address: str) -> list[tuple[str, str]]:
    page.goto(address)
    found = [(address, violation["id"]) for violation in Axe().run(page).response["violations"]]
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append((address, "scrolls sideways"))
    return found


def test_every_page_around_a_project_can_be_read_on_every_screen(
    served: str, browser: Browser, owner: User, invitation: str
) -> None:
    problems = []
    for width, scheme in SCREENS:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        for path in [*OUTSIDE, invitation]:
            problems += problems_on(page, served + path)
        log_in(page, served, owner.username)
        for path in [*INSIDE, invitation, *(f"/projects/pets/{each}" for each in OF_A_PROJECT), "/projects/old/"]:
            problems += problems_on(page, served + path)
        context.close()
    assert problems == []
