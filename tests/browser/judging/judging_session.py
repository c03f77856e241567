"""A simulated worker on the judging page, with a record of every answer they gave."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import BrowserContext, Page, Response, Route, expect

from annotation.models import Item, Judgement, Project
from benchmarks.load.waiting import wait_until
from tests.conftest import make_items

READING_TIME = 350  # ms; the page ignores answers in the first 300 ms of a pair
SETTLING_TIME = 600  # ms; the page ignores taps in the first 500 ms after a sheet opened or closed
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 3}
ALL_SENT = "name => !Object.keys(localStorage).some(key => key.startsWith(`${name}/entry/`))"
HAS_OFFLINE_PAGE = "async () => Boolean(await caches.match(new URL('/s/pets/offline/', location.href)))"
CHOICES = {"1": "left", "2": "right", "0": "tie", "s": "skip"}


def make_study(project: Project, quota: int = 6) -> Project:
    """Add twelve items of one group: enough pairs for every test."""
    make_items(project, [f"Birds sing, reason number {n}." for n in range(12)], "birds")
    Item.objects.filter(project=project).exclude(group="birds").update(active=False)
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=quota)
    project.refresh_from_db()
    return project


@dataclass(frozen=True)
class Answer:
    left: str
    right: str
    choice: str

    @property
    def texts(self) -> frozenset[str]:
        return frozenset({self.left, self.right})


class JudgingSession:
    """One worker with one or more tabs; `errors` collects navigations that failed with status 400 or above."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.url = f"{address}/s/pets/"
        self.answers: list[Answer] = []
        self.errors: list[str] = []
        self.script_errors: list[str] = []
        self.page = self.new_tab()

    def new_tab(self, context: BrowserContext | None = None) -> Page:
        page = (context or self.context).new_page()
        page.clock.install()
        page.on("response", self._record_error)
        page.on("pageerror", lambda error: self.script_errors.append(str(error)))
        return page

    def _record_error(self, response: Response) -> None:
        if response.request.is_navigation_request() and response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def join(self) -> "JudgingSession":
        self.page.goto(self.url)
        for box in self.page.locator("[name=consent]").all():
            box.check()
        self.page.locator("button[type=submit]:not(.quiet)").click()
        self.wait_until_ready(self.page)
        return self

    def wait_until_ready(self, page: Page) -> None:
        """Wait until a pair is shown and can be answered."""
        expect(page.locator("[data-choice=left]")).to_be_enabled()
        page.clock.fast_forward(READING_TIME)

    def current_answer(self, page: Page, choice: str) -> Answer:
        return Answer(page.locator("#left").inner_text(), page.locator("#right").inner_text(), choice)

    def record(self, answer: Answer) -> None:
        """Record an answer; the first answer to a pair counts."""
        if answer.texts not in {known.texts for known in self.answers}:
            self.answers.append(answer)

    def press(self, key: str, page: Page | None = None) -> None:
        page = page or self.page
        self.wait_until_ready(page)
        answer = self.current_answer(page, CHOICES[key])
        page.keyboard.press(key)
        if key == "s":
            page.keyboard.press("3")
        self.record(answer)

    def click(self, choice: str = "left", page: Page | None = None) -> None:
        page = page or self.page
        self.wait_until_ready(page)
        answer = self.current_answer(page, choice)
        page.locator(f"[data-choice={choice}]").click()
        self.record(answer)

    def undo(self, page: Page | None = None) -> None:
        page = page or self.page
        undone = self.answers.pop()
        page.clock.fast_forward(READING_TIME)
        page.keyboard.press("z")
        expect(page.locator("#left")).to_have_text(undone.left)
        expect(page.locator("#right")).to_have_text(undone.right)

    def wait_until_kept(self, page: Page | None = None) -> None:
        """Wait until the service worker has stored the page and its files."""
        wait_for_promise(page or self.page, HAS_OFFLINE_PAGE)

    def wait_until_sent(self, page: Page | None = None) -> None:
        page = page or self.page
        page.wait_for_function(ALL_SENT, arg=page.locator("[data-store]").get_attribute("data-store"))


def wait_for_promise(page: Page, function: str) -> Any:
    """Poll until an async function returns something true, and return it; `wait_for_function` accepts any promise."""
    values: list[Any] = []
    wait_until(lambda: values.append(page.evaluate(function)) or values[-1], 60, function)
    return values[-1]


def stored_answers() -> set[Answer]:
    """Judgements not retracted, as the worker saw them: left text, right text, choice."""
    rows = Judgement.objects.not_retracted().select_related("item_lo", "item_hi")
    return {_to_answer(row) for row in rows}


def _to_answer(row: Judgement) -> Answer:
    left, right = (row.item_lo, row.item_hi) if row.lo_was_left else (row.item_hi, row.item_lo)
    sides = {"lo": "left" if row.lo_was_left else "right", "hi": "right" if row.lo_was_left else "left"}
    return Answer(left.text, right.text, sides.get(row.choice, row.choice))


def only_posts(handler: Any) -> Any:
    """Wrap a route handler for POST requests; other requests continue."""

    def handle(route: Route) -> None:
        if route.request.method == "POST":
            handler(route)
        else:
            route.continue_()

    return handle


@contextmanager
def paused_clock(page: Page) -> Iterator[None]:
    """Pause the page's clock, so that the test does not depend on the speed of the machine."""
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 60"))
    yield
    page.clock.resume()


def scrolls_horizontally(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
