"""Navigation between the pages of a study, and the link for workers."""

import pytest
from playwright.sync_api import Browser, expect

from annotation.models import Project, User
from tests.browser.test_end_to_end import log_in

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_researcher_moves_between_groups_and_copies_the_link(
    browser: Browser, served: str, project: Project, owner: User, width: int
) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        log_in(page, served, owner.username)
        page.goto(f"{served}/projects/pets/")
        expect(page.get_by_role("img", name="QR code of the link for workers")).to_be_visible()
        page.get_by_role("button", name="Copy the link").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == f"{served}/s/pets/"
        page.get_by_role("navigation", name="Study").get_by_role("link", name="Results").click()
        pages = page.get_by_role("navigation", name="Results")
        expect(pages.locator("[aria-current=page]")).to_have_text("Ranking")
        pages.get_by_role("link", name="Test a text").click()
        expect(pages.locator("[aria-current=page]")).to_have_text("Test a text")
        expect(pages.locator("[aria-current=page]")).to_be_in_viewport()
