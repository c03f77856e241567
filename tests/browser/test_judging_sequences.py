"""Scripted sittings: back, reload, double clicks, tabs, devices, lost answers, no network. Each ends with the server
holding exactly what the worker's own book says, and no page of status 400 or above was shown (P9, P10).

Eight run every day; CONCORD_DRILLS=1 runs all forty-four.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Route, expect

from annotation.models import Judgement, Project
from tests.browser.sitting import SENT, SETTLING, Sitting, make_study, only_posts, standing

QUOTA = 6

# A step is a word; `b.` says it in the second tab, `d.` on a second device with the same cookies.
DAILY = {
    "a double click answers one pair": "double 2 double",
    "back, then the other side": "1 back 2 forward 1",
    "reload while the answer is under way": "1 reload 2 reload 1",
    "two tabs on the same pair": "tab 1 b.2 1 b.2",
    "five answers offline, then reload": "off 1 2 1 2 1 reload on",
    "the answer was saved but its receipt lost": "lose 1 2",
    "the page's token ran out": "stale 1 renewed 2",
    "another device was quicker": "device d.1 2 1",
}
OTHERS = {
    "nothing goes wrong": "1 2 0 s 1 2",
    "a key pressed twice within 10 ms": "doublekey 1 doublekey",
    "a double click on a reason": "doubleskip 1",
    "back and forward": "1 back forward 2",
    "reload before the first answer": "reload 1 reload",
    "a double click, back, reload": "double back reload 1",
    "two tabs in turn": "tab 1 b.1 1 b.1 1 b.1",
    "two tabs, one closed with answers unsent": "tab off b.1 1 b.close on 1",
    "two tabs offline": "tab off 1 b.2 1 on b.1",
    "another device, both answer the same pair": "device 1 d.2 d.1",
    "coming back from the page cache": "device d.1 restored 1",
    "a minute offline": "off 1 1 wait on 2",
    "five answers offline": "off 1 2 1 2 1 on",
    "five answers offline, then closed": "off 1 2 0 2 1 close on 1",
    "offline again and again": "off 1 on 2 off 1 on 2",
    "offline to the last answer": "1 off 2 1 2 1 on 2",
    "two receipts lost in a row": "lose 1 lose 2 1",
    "receipt lost, then reload": "lose 1 reload 2",
    "receipt lost, then closed": "lose 1 close 2",
    "receipt lost, then offline": "lose 1 off 2 1 on",
    "the last receipt lost": "1 2 1 2 1 lose 1",
    "the request never arrived": "drop 1 2",
    "the server was away": "away 1 2 away 1",
    "the server asked for patience": "flood 1 2",
    "a hotel's log-in page instead of an answer": "portal 1 2",
    "the token ran out while offline": "off 1 2 stale on renewed 1",
    "the token ran out, then a receipt was lost": "stale 1 renewed lose 2",
    "the session was lost and found": "1 forget 2 remember reload 1",
    "paused in between": "1 pause 2 open reload 1",
    "paused, looked at, opened again": "1 pause 2 reload open reload 1",
    "undo and answer otherwise": "1 z 2 1",
    "undo three in a row": "1 2 1 z z z 2 2",
    "undo what was not yet sent": "off 1 2 z 1 on",
    "undo what may have been sent": "off 1 undo on wait 2",
    "undo, then reload": "1 2 z reload 1",
    "undo whose receipt was lost": "1 loseundo z 2",
}
SEQUENCES = DAILY | OTHERS
CHOSEN = SEQUENCES if os.environ.get("CONCORD_DRILLS") else DAILY


class Script:
    """Says each word of a sequence to the browser."""

    def __init__(self, sitting: Sitting, browser: Browser, project: Project) -> None:
        self.sitting, self.browser, self.project = sitting, browser, project
        self.tabs = {"": sitting.page}
        self.contexts = [sitting.context]
        self.kept_cookies: list[dict[str, object]] = []
        sitting.page.on("dialog", leave)

    def say(self, step: str) -> None:
        tab, _dot, word = step.rpartition(".")
        if word in {"1", "2", "0", "s"}:
            self.sitting.press(word, self.tabs[tab])
        else:
            getattr(self, f"do_{word}")(tab)

    # Hands

    def do_double(self, tab: str) -> None:
        page = self.tabs[tab]
        self.sitting.ready(page)
        answer = self.sitting.shown(page, "left")
        page.locator("[data-choice=left]").hover()
        with standing_still(page):
            for _click in range(2):
                page.mouse.down()
                page.mouse.up()
                page.clock.run_for(10)
        self.sitting.write(answer)

    def do_doublekey(self, tab: str) -> None:
        page = self.tabs[tab]
        self.sitting.ready(page)
        with standing_still(page):
            self.sitting.press("1", page)
            page.clock.run_for(10)
            page.keyboard.press("1")

    def do_doubleskip(self, tab: str) -> None:
        page = self.tabs[tab]
        self.sitting.ready(page)
        answer = self.sitting.shown(page, "skip")
        page.locator("[data-choice=skip]").click()
        with standing_still(page):
            page.locator("[data-reason=both_poor]").dblclick()
        self.sitting.write(answer)

    def do_z(self, tab: str) -> None:
        self.sitting.undo(self.tabs[tab])

    def do_undo(self, tab: str) -> None:
        """Asks for an undo that only the server can grant, later."""
        page = self.tabs[tab]
        self.sitting.book.pop()
        page.clock.fast_forward(SETTLING)
        page.keyboard.press("z")

    # The browser

    def do_reload(self, tab: str) -> None:
        if not self.offline:
            self.tabs[tab].reload()
            return
        with pytest.raises(Error, match="ERR_INTERNET_DISCONNECTED"):
            self.tabs[tab].reload()

    def do_back(self, tab: str) -> None:
        self.tabs[tab].go_back()

    def do_forward(self, tab: str) -> None:
        self.tabs[tab].go_forward()

    def do_restored(self, tab: str) -> None:
        self.sitting.wait_until_sent(self.tabs["d"])
        self.tabs[tab].evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        expect(self.tabs[tab].locator("#count")).to_have_text(f"{len(self.sitting.book)} / {QUOTA}")

    def do_close(self, tab: str) -> None:
        self.tabs[tab].close()
        self.tabs[tab] = self._new_tab(self.sitting.context)
        if not self.offline:
            self.tabs[tab].goto(self.sitting.url)

    def do_tab(self, tab: str) -> None:
        self.tabs["b"] = self._new_tab(self.sitting.context)
        self.tabs["b"].goto(self.sitting.url)
        self.sitting.ready(self.tabs["b"])

    def do_device(self, tab: str) -> None:
        context = self.browser.new_context(storage_state={"cookies": self.sitting.context.cookies(), "origins": []})  # type: ignore[typeddict-item]
        self.contexts.append(context)
        self.tabs["d"] = self._new_tab(context)
        self.tabs["d"].goto(self.sitting.url)
        self.sitting.ready(self.tabs["d"])

    def _new_tab(self, context: BrowserContext) -> Page:
        page = self.sitting.new_tab(context)
        page.on("dialog", leave)
        return page

    # The network

    offline = False

    def do_off(self, tab: str) -> None:
        self.offline = True
        self.sitting.context.set_offline(True)

    def do_on(self, tab: str) -> None:
        self.offline = False
        self.sitting.context.set_offline(False)
        for page in self.tabs.values():
            if not page.url.startswith("http"):
                page.goto(self.sitting.url)

    def do_wait(self, tab: str) -> None:
        self.tabs[tab].clock.fast_forward(60_000)

    def do_lose(self, tab: str) -> None:
        self._once("**/judgements/", lose)

    def do_loseundo(self, tab: str) -> None:
        self._once("**/retractions/", lose)

    def do_drop(self, tab: str) -> None:
        self._once("**/judgements/", lambda route: route.abort())

    def do_away(self, tab: str) -> None:
        self._once("**/judgements/", partial(answer_with, status=503, retry_after="3"))

    def do_flood(self, tab: str) -> None:
        self._once("**/judgements/", partial(answer_with, status=429, retry_after="1"))

    def do_portal(self, tab: str) -> None:
        self._once(
            "**/judgements/", lambda route: route.fulfill(body="<h1>Welcome, guest</h1>", content_type="text/html")
        )

    def _once(self, pattern: str, handler: Callable[[Route], None]) -> None:
        self.sitting.context.route(pattern, only_posts(handler), times=1)

    # The server

    def do_stale(self, tab: str) -> None:
        self.sitting.context.clear_cookies(name="csrftoken")
        self.tabs[tab].evaluate("window.outdated = true")

    def do_renewed(self, tab: str) -> None:
        """The page has loaded itself anew."""
        self.tabs[tab].wait_for_function("() => !window.outdated")

    def do_forget(self, tab: str) -> None:
        self.sitting.wait_until_sent(self.tabs[tab])
        self.kept_cookies = self.sitting.context.cookies()  # type: ignore[assignment]
        self.sitting.context.clear_cookies(name=f"concord_worker_{self.project.pk}")

    def do_remember(self, tab: str) -> None:
        expect(self.tabs[tab].get_by_role("button", name="Reload the page")).to_be_visible()
        self.sitting.context.add_cookies(self.kept_cookies)  # type: ignore[arg-type]

    def do_pause(self, tab: str) -> None:
        self.sitting.wait_until_sent(self.tabs[tab])
        Project.objects.filter(pk=self.project.pk).update(state="paused")

    def do_open(self, tab: str) -> None:
        expect(self.tabs[tab].get_by_text("kept on this device: 1.")).to_be_visible()
        Project.objects.filter(pk=self.project.pk).update(state="open")

    # The end

    def finish(self) -> None:
        """Everything any tab still keeps is sent, without anybody touching it but the clock."""
        for page in self.tabs.values():
            for _try in range(12):
                page.clock.fast_forward(25_000)
                if self._has_sent(page):
                    break
            assert self._has_sent(page), "answers are still kept on the device"
        for context in self.contexts:
            context.unroute_all()

    def _has_sent(self, page: Page) -> bool:
        try:
            page.wait_for_function(SENT, arg=page.locator("[data-store]").get_attribute("data-store"), timeout=1500)
        except Error:
            return False
        return True


@contextmanager
def standing_still(page: Page) -> Iterator[None]:
    """Meanwhile the page's clock moves only when told to, however busy the machine is."""
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 60"))
    yield
    page.clock.resume()


def leave(dialog: Dialog) -> None:
    """The browser asks before a page with unsent answers is left; this worker leaves all the same."""
    assert dialog.type == "beforeunload", dialog.message
    dialog.accept()


def lose(route: Route) -> None:
    """The server has answered; the browser never hears it."""
    route.fetch()
    route.abort()


def answer_with(route: Route, *, status: int, retry_after: str) -> None:
    body = {"title": "Not now.", "detail": "Wait a moment.", "status": status}
    route.fulfill(status=status, json=body, headers={"Retry-After": retry_after})


@pytest.mark.parametrize("name", CHOSEN)
def test_the_rows_are_what_the_worker_answered(name: str, served: str, browser: Browser, project: Project) -> None:
    make_study(project, quota=QUOTA)
    sitting = Sitting(browser.new_context(), served).join()
    script = Script(sitting, browser, project)
    for step in SEQUENCES[name].split():
        script.say(step)
    script.finish()

    assert standing() == set(sitting.book)
    rows = list(Judgement.objects.values_list("worker", "item_lo", "item_hi", "round"))
    assert len(rows) == len(set(rows))
    sitting.page = script.tabs[""]
    sitting.page.goto(sitting.url)
    if len(sitting.book) < QUOTA:
        expect(sitting.page.locator("#count")).to_have_text(f"{len(sitting.book)} / {QUOTA}")
    else:
        expect(sitting.page.get_by_role("heading", name="Thank you.")).to_be_visible()
    assert sitting.errors == []
    assert sitting.scripts_failed == []
