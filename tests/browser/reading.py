"""Whether a page can be read: by machine, on a narrow screen, and by who has only a keyboard."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CONTROLS = "main :is(a[href], button, input:not([type=hidden]), select, textarea, summary):visible"
SEEN_BEFORE = """
() => {
  const here = document.activeElement;
  if (!here || here === document.body) return false;
  if (window.reached.has(here)) return true;
  window.reached.add(here);
  return false;
}
"""


def violations(page: Page) -> list[str]:
    """What axe finds, with the beginning of each place."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]]


def problems_here(page: Page) -> list[tuple[str, str]]:
    """What is wrong with the page that is open, for any reader."""
    found = violations(page)
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("scrolls sideways")
    if page.locator("h1").count() != 1:
        found.append("has not one main heading")
    return [(page.url, problem) for problem in found]


def reached_by_tab(page: Page, most: int = 400) -> int:
    """How many different places in the page's main part the Tab key comes to."""
    page.evaluate("document.body.focus(); window.reached = new Set()")
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(SEEN_BEFORE):
            break
    return int(page.evaluate("[...window.reached].filter(each => each.closest('main')).length"))


def keyboard_problems(page: Page) -> list[tuple[str, str]]:
    """Controls of the open page that the Tab key does not come to."""
    wanted = page.locator(CONTROLS).count()
    reached = reached_by_tab(page)
    return [] if reached >= wanted else [(page.url, f"Tab reaches {reached} of {wanted}")]
