"""Accessibility checks for any page: axe, horizontal scrolling, headings and the Tab key."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CONTROLS = "main :is(a[href], button, input:not([type=hidden]), select, textarea, summary):visible"
IS_REPEATED = """
() => {
  const here = document.activeElement;
  if (!here || here === document.body) return false;
  if (window.reached.has(here)) return true;
  window.reached.add(here);
  return false;
}
"""


def violations(page: Page) -> list[str]:
    """Return the violations that axe finds, each with the start of its element's HTML."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]]


def find_page_problems(page: Page) -> list[tuple[str, str]]:
    """Accessibility and layout problems of the open page, with its URL."""
    found = violations(page)
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("scrolls horizontally")
    if page.locator("h1").count() != 1:
        found.append("does not have exactly one h1")
    return [(page.url, problem) for problem in found]


def count_tab_stops(page: Page, limit: int = 400) -> int:
    """Count the elements in the main part of the page that the Tab key reaches."""
    page.evaluate("document.body.focus(); window.reached = new Set()")
    for _ in range(limit):
        page.keyboard.press("Tab")
        if page.evaluate(IS_REPEATED):
            break
    return int(page.evaluate("[...window.reached].filter(each => each.closest('main')).length"))


def find_keyboard_problems(page: Page) -> list[tuple[str, str]]:
    """Report a page with controls that the Tab key does not reach."""
    expected = page.locator(CONTROLS).count()
    reached = count_tab_stops(page)
    return [] if reached >= expected else [(page.url, f"Tab reaches {reached} of {expected}")]
