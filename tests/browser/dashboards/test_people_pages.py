"""Components, workers, one worker, one item and a worker's own view: figures, accessibility and keyboard."""

import re
from collections.abc import Callable

import pytest
from django.http import HttpResponse
from playwright.sync_api import Browser, BrowserContext, Page, expect

from annotation.http.access import set_worker_cookie
from annotation.models import Item, Project, User, Worker
from modelling.models import ComponentName
from modelling.training.components.axes import load_component_axes
from modelling.training.versions import shown_snapshot
from tests.browser.dashboards.live_page import log_in
from tests.browser.helpers.page_checks import find_keyboard_problems, violations
from tests.modelling.samples.two_camps import make_fitted_study

WIDTHS = "cells => cells.map(cell => cell.offsetWidth)"
SCHEMES = [("light", 1280), ("dark", 390)]


@pytest.fixture
def study(served: str, project: Project, owner: User) -> str:
    make_fitted_study(project)
    return served


@pytest.fixture
def addresses(study: str) -> list[str]:
    """The four pages with figures."""
    worker, item = Worker.objects.earliest("pk"), Item.objects.get(key="text-003")
    pair = "?a=text-001&b=text-002"
    paths = ["components/", "workers/?trait=camp", f"workers/{worker.code}/{pair}", f"ranking/{item.pk}/"]
    return [f"{study}/projects/pets/{path}" for path in paths]


def visit(page: Page, address: str) -> None:
    """Open a page and wait until all figures are drawn."""
    page.goto(address)
    figures = page.locator("[data-figure]")
    expect(page.locator("[data-figure] .main-svg").first).to_be_visible()
    for index in range(figures.count()):
        expect(figures.nth(index).locator(".main-svg").first).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), SCHEMES)
def test_pages_are_accessible_and_fit_the_screen(
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


def test_with_large_text_no_page_scrolls_sideways(study: str, addresses: list[str], large_text: Browser) -> None:
    page = large_text.new_context(viewport={"width": 390, "height": 844}).new_page()
    log_in(page, study)
    wide = []
    for address in addresses:
        visit(page, address)
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(address)
    assert wide == []


def test_the_tables_of_a_worker_fit_the_screen_with_short_rows(study: str, addresses: list[str], page: Page) -> None:
    Item.objects.update(text="An argument that is too long for one line of a table. " * 5)
    log_in(page, study)
    visit(page, addresses[2])
    for name in ("Differences by item", "Judgements"):
        table = page.get_by_role("region", name=name)
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), name
        heights = table.locator("tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
        assert 0 < len(heights) <= 25
        widths = table.locator("tbody tr").first.locator("td:has(.excerpt)").evaluate_all(WIDTHS)
        assert max(widths) - min(widths) < 20, name
        assert max(heights) < 75, name  # a remark may take two lines


def test_long_keys_end_with_what_tells_them_apart(study: str, page: Page) -> None:
    for item in Item.objects.all():
        Item.objects.filter(pk=item.pk).update(key=f"a-long-name-of-the-collection|{item.key}")
    log_in(page, study)
    page.goto(f"{study}/projects/pets/ranking/")
    link = page.get_by_role("region", name="Ranking").locator("tbody a").first
    expect(link).to_have_text(re.compile(r"^…-the-collection\|text-\d+$"))
    expect(link).to_have_attribute("title", re.compile(r"^a-long-name-of-the-collection\|text-\d+$"))


def test_every_control_works_by_keyboard(study: str, addresses: list[str], page: Page) -> None:
    log_in(page, study)
    for address in addresses:
        visit(page, address)
        assert find_keyboard_problems(page) == []
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


def test_a_click_on_a_worker_in_the_map_opens_their_page(study: str, addresses: list[str], page: Page) -> None:
    log_in(page, study)
    visit(page, addresses[1])
    page.locator("[data-figure=workers] .points path").first.click(force=True)
    page.wait_for_url("**/workers/*/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Worker ")


def test_a_name_that_starts_with_two_hyphens_is_not_taken_for_a_colour(study: str, page: Page) -> None:
    project = Project.objects.get()
    number = load_component_axes(shown_snapshot(project)).strongest[0] + 1
    ComponentName.objects.create(project=project, number=number, name="-- bright side")
    log_in(page, study)
    visit(page, f"{study}/projects/pets/workers/")
    expect(page.locator("[data-figure=workers] .xtitle")).to_have_text("-- bright side")


@pytest.fixture
def as_worker(context: BrowserContext, study: str) -> Callable[[Worker], Page]:
    def page_of(worker: Worker) -> Page:
        response = HttpResponse()
        set_worker_cookie(response, worker)
        cookies = response.cookies.items()
        context.add_cookies([{"name": name, "value": each.value, "url": study} for name, each in cookies])
        return context.new_page()

    return page_of


def test_a_finished_worker_sees_their_own_view(study: str, as_worker: Callable[[Worker], Page]) -> None:
    worker = Worker.objects.earliest("pk")
    Worker.objects.filter(pk=worker.pk).update(state="finished")
    page = as_worker(worker)
    page.goto(f"{study}/s/pets/")
    expect(page.get_by_role("heading", name="Your judgements and the crowd's")).to_be_visible()
    expect(page.locator("#own-view + p")).to_contain_text("you preferred the same text as the crowd")
    assert violations(page) == []


def test_an_own_view_is_not_shown_if_the_researcher_does_not_want_it(
    study: str, as_worker: Callable[[Worker], Page]
) -> None:
    worker = Worker.objects.earliest("pk")
    Worker.objects.filter(pk=worker.pk).update(state="finished")
    Project.objects.update(own_view_shown=False)
    page = as_worker(worker)
    page.goto(f"{study}/s/pets/")
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    expect(page.locator("[data-fragment]")).to_have_count(0)
