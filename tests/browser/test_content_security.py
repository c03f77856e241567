"""No page needs more than its content security policy allows: no inline style, no inline script, no other host."""

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Item, Project, User
from annotation.services import change_project
from tests.browser.test_end_to_end import log_in
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

COLLECT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
});
"""
FIGURES = [
    "activity/",
    "ranking/",
    "components/",
    "workers/",
    "pairs/",
    "model/",
    "model/versions/1/",
    "new-argument/?text=Evidence",
]


@pytest.fixture
def watched(served: str, page: Page, project: Project, owner: User) -> Page:
    """A browser that records what the policy blocks; a fitted study with a public ranking."""
    make_fitted_study(project)
    change_project(project=project, user=owner, changes={"ranking_public": True})
    page.add_init_script(COLLECT)
    return page


def assert_allowed(page: Page, path: str) -> None:
    """Point at a figure, which draws its label, and check that the policy blocked nothing."""
    response = page.goto(path)
    assert response is not None
    assert "unsafe" not in response.headers["content-security-policy"], path
    figure = page.locator("[data-figure]:visible").first
    if figure.count():
        expect(figure.locator(".main-svg").first).to_be_visible()
    point = figure.locator(".scatterlayer .point").first
    if point.count():
        point.scroll_into_view_if_needed()
        point.hover(force=True)
        expect(page.locator(".hovertext").first).to_be_visible()
    assert page.evaluate("window.violations") == [], path


def test_figures_are_drawn_and_saved_without_inline_styles(
    watched: Page, served: str, project: Project, owner: User
) -> None:
    assert_allowed(watched, f"{served}/r/pets/")
    for name in ("SVG", "PNG"):
        with watched.expect_download():
            watched.get_by_role("button", name=f"{name}: Score by rank").click()
    assert watched.evaluate("window.violations") == []
    log_in(watched, served, owner.username)
    item, worker = Item.objects.get(key="text-000"), project.workers.order_by("pk")[0]
    for path in [*FIGURES, f"ranking/{item.pk}/", f"workers/{worker.code}/"]:
        assert_allowed(watched, f"{served}/projects/pets/{path}")


def test_the_api_reference_works_without_inline_styles(watched: Page, served: str) -> None:
    assert_allowed(watched, f"{served}/api/v1/#/items/add_items")
    operation = watched.locator("#operations-items-add_items")
    operation.get_by_role("button", name="Try it out").click()
    expect(operation.locator("textarea")).to_be_visible()
    watched.get_by_role("button", name="Authorize").first.click()
    expect(watched.locator(".auth-container").first).to_be_visible()
    assert watched.evaluate("window.violations") == []
