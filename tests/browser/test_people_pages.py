"""Components, workers, one worker, one item, and a worker's own view: drawn, readable by machine and by key."""

from collections.abc import Callable

import pytest
from django.http import HttpResponse
from playwright.sync_api import BrowserContext, Page, expect

from annotation.access import remember_worker
from annotation.models import Item, Project, User, Worker
from modelling.dashboards.axes import axes_of
from modelling.models import ComponentName
from modelling.versions import shown_snapshot
from tests.browser.reading import keyboard_problems, violations
from tests.browser.watched import log_in
from tests.modelling.two_camps import fitted_study

SCHEMES = [("light", 1280), ("dark", 390)]


@pytest.fixture
def study(served: str, project: Project, owner: User) -> str:
    fitted_study(project)
    return served


@pytest.fixture
def addresses(study: str) -> list[str]:
    """The four pages, in the order in which a reader would go through them."""
    worker, item = Worker.objects.earliest("pk"), Item.objects.get(key="text-003")
    pair = "?a=text-001&b=text-002"
    paths = ["components/", "workers/?trait=camp", f"workers/{worker.code}/{pair}", f"ranking/{item.pk}/"]
    return [f"{study}/projects/pets/{path}" for path in paths]


def visit(page: Page, address: str) -> None:
    """The page with all its pictures drawn."""
    page.goto(address)
    pictures = page.locator("[data-picture]")
    expect(page.locator("[data-picture] .main-svg").first).to_be_visible()
    for place in range(pictures.count()):
        expect(pictures.nth(place).locator(".main-svg").first).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), SCHEMES)
def test_every_page_is_clean_for_assistive_technology_and_fits(
    browser: object, study: str, addresses: list[str], scheme: str, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    log_in(page, study)
    for address in addresses:
        visit(page, address)
        assert violations(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert errors == []


def test_every_control_is_reached_and_used_by_key_alone(study: str, addresses: list[str], page: Page) -> None:
    log_in(page, study)
    for address in addresses:
        visit(page, address)
        assert keyboard_problems(page) == []
    page.goto(addresses[0])
    page.locator("#name-1").focus()
    page.keyboard.type("facts or stories")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="facts or stories")).to_be_visible()
    page.goto(addresses[1])
    page.locator("#q").focus()
    page.keyboard.type("stories")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(8)
    assert "q=stories" in page.url


def test_a_click_on_a_worker_in_the_map_leads_to_their_page(study: str, addresses: list[str], page: Page) -> None:
    log_in(page, study)
    visit(page, addresses[1])
    page.locator("[data-picture=workers] .points path").first.click(force=True)
    page.wait_for_url("**/workers/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("probably prefers")


def test_a_text_that_begins_like_a_colours_name_is_drawn_as_it_is(study: str, page: Page) -> None:
    project = Project.objects.get()
    number = axes_of(shown_snapshot(project)).strongest[0] + 1
    ComponentName.objects.create(project=project, number=number, name="-- bright side")
    log_in(page, study)
    visit(page, f"{study}/projects/pets/workers/")
    expect(page.locator("[data-picture=workers] .xtitle")).to_have_text("-- bright side")


@pytest.fixture
def as_worker(context: BrowserContext, study: str) -> Callable[[Worker], Page]:
    def page_of(worker: Worker) -> Page:
        response = HttpResponse()
        remember_worker(response, worker)
        cookies = response.cookies.items()
        context.add_cookies([{"name": name, "value": each.value, "url": study} for name, each in cookies])
        return context.new_page()

    return page_of


def test_a_worker_who_has_finished_sees_their_own_view(study: str, as_worker: Callable[[Worker], Page]) -> None:
    worker = Worker.objects.earliest("pk")
    Worker.objects.filter(pk=worker.pk).update(state="finished")
    page = as_worker(worker)
    page.goto(f"{study}/s/pets/")
    expect(page.get_by_role("heading", name="Your view and the crowd's")).to_be_visible()
    expect(page.locator("#own-view + p")).to_contain_text("you preferred what the crowd as a whole prefers")
    assert violations(page) == []
