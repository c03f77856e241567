"""A worker at the judging page: what they do, what they were shown, and their own book of what they answered."""

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import BrowserContext, Page, Response, Route, expect

from annotation.models import Item, Judgement, Project
from tests.conftest import make_items

expect.set_options(timeout=15_000)  # ms; machines that run tests are busy
SETTLING = 350  # ms; the page takes no answer in the first 300 ms of a pair
SENT = "name => !Object.keys(localStorage).some(key => key.startsWith(`${name}/entry/`))"
CHOICES = {"1": "left", "2": "right", "0": "tie", "s": "skip"}


def make_study(project: Project, quota: int = 6) -> Project:
    """Twelve birds of one group: enough pairs for a sitting of any length tried here."""
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


class Sitting:
    """One worker with one or more tabs. `errors` holds every page of status 400 and above that was shown to them."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.url = f"{address}/s/pets/"
        self.book: list[Answer] = []
        self.errors: list[str] = []
        self.scripts_failed: list[str] = []
        self.page = self.new_tab()

    def new_tab(self, context: BrowserContext | None = None) -> Page:
        page = (context or self.context).new_page()
        page.clock.install()
        page.on("response", self._note)
        page.on("pageerror", lambda error: self.scripts_failed.append(str(error)))
        return page

    def _note(self, response: Response) -> None:
        if response.request.is_navigation_request() and response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def join(self) -> "Sitting":
        self.page.goto(self.url)
        self.page.locator("[name=consent]").check()
        self.page.locator("button[type=submit]").click()
        self.ready(self.page)
        return self

    def ready(self, page: Page) -> None:
        """A pair is there, its buttons work, and it has been there long enough to be answered."""
        expect(page.locator("[data-choice=left]")).to_be_enabled()
        page.clock.fast_forward(SETTLING)

    def shown(self, page: Page, choice: str) -> Answer:
        return Answer(page.locator("#left").inner_text(), page.locator("#right").inner_text(), choice)

    def write(self, answer: Answer) -> None:
        """In the worker's book, unless that pair is answered there already: the first answer counts."""
        if answer.texts not in {known.texts for known in self.book}:
            self.book.append(answer)

    def press(self, key: str, page: Page | None = None) -> None:
        """One answer by key."""
        page = page or self.page
        self.ready(page)
        answer = self.shown(page, CHOICES[key])
        page.keyboard.press(key)
        if key == "s":
            page.keyboard.press("3")
        self.write(answer)

    def click(self, choice: str = "left", page: Page | None = None) -> None:
        page = page or self.page
        self.ready(page)
        answer = self.shown(page, choice)
        page.locator(f"[data-choice={choice}]").click()
        self.write(answer)

    def undo(self, page: Page | None = None) -> None:
        page = page or self.page
        taken_back = self.book.pop()
        page.clock.fast_forward(SETTLING)
        page.keyboard.press("z")
        expect(page.locator("#left")).to_have_text(taken_back.left)
        expect(page.locator("#right")).to_have_text(taken_back.right)

    def wait_until_sent(self, page: Page | None = None) -> None:
        page = page or self.page
        page.wait_for_function(SENT, arg=page.locator("[data-store]").get_attribute("data-store"))


def standing() -> set[Answer]:
    """What the server holds, in the words of what was shown: left text, right text, choice."""
    rows = Judgement.objects.standing().select_related("item_lo", "item_hi")
    return {_as_shown(row) for row in rows}


def _as_shown(row: Judgement) -> Answer:
    left, right = (row.item_lo, row.item_hi) if row.lo_was_left else (row.item_hi, row.item_lo)
    sides = {"lo": "left" if row.lo_was_left else "right", "hi": "right" if row.lo_was_left else "left"}
    return Answer(left.text, right.text, sides.get(row.choice, row.choice))


def only_posts(handler: Any) -> Any:
    """A route handler for POSTs; everything else goes through."""

    def handle(route: Route) -> None:
        if route.request.method == "POST":
            handler(route)
        else:
            route.continue_()

    return handle
