"""Scripted sessions with back, reload, double clicks, tabs, devices, lost responses and no network.

After each, the server holds exactly the answers that the worker gave, and no error page was shown. Eight run by
default, all forty-four with DRILLS=long.
"""

import os
from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Route, expect

from annotation.models import Judgement, Project
from tests.browser.judging.judging_session import (
    ALL_SENT,
    READING_TIME,
    SETTLING_TIME,
    JudgingSession,
    make_study,
    only_posts,
    paused_clock,
    stored_answers,
)

QUOTA = 6

# A step is a key or the name of a `do_` method; `b.` runs it in a second tab, `d.` on a second device.
DEFAULT = {
    "a double click answers one pair": "double 2 double",
    "back, then the other side": "1 back 2 forward 1",
    "reload while the answer is being sent": "1 reload 2 reload 1",
    "two tabs on the same pair": "tab 1 b.2 1 b.2",
    "five answers offline, then reload": "off 1 2 1 2 1 reload on",
    "the answer is saved but its receipt lost": "lose 1 2",
    "the CSRF token has expired": "stale 1 renewed 2",
    "another device is faster": "device d.1 d.sent 2 1",
}
DRILLS = {
    "nothing goes wrong": "1 2 0 s 1 2",
    "a key pressed twice within 10 ms": "doublekey 1 doublekey",
    "a double click on a reason": "doubleskip 1",
    "back and forward": "1 back forward 2",
    "reload before the first answer": "reload 1 reload",
    "a double click, back, reload": "double back reload 1",
    "two tabs in turn": "tab 1 b.1 1 b.1 1 b.1",
    "two tabs, one closed with answers unsent": "tab off b.1 1 b.close on 1",
    "two tabs offline": "tab off 1 b.2 1 on b.1",
    "another device, both answer the same pair": "device 1 sent d.2 d.1",
    "restored from the page cache": "device d.1 restored 1",
    "a minute offline": "off 1 1 wait on 2",
    "five answers offline": "off 1 2 1 2 1 on",
    "five answers offline, then closed": "off 1 2 0 2 1 close on 1",
    "reloaded offline, then more answers": "1 off 2 reload 1 z 2 reload 1 on 2",
    "offline again and again": "off 1 on 2 off 1 on 2",
    "offline to the last answer": "1 off 2 1 2 1 on 2",
    "two receipts lost in a row": "lose 1 lose 2 1",
    "receipt lost, then reload": "lose 1 reload 2",
    "receipt lost, then closed": "lose 1 close 2",
    "receipt lost, then offline": "lose 1 off 2 1 on",
    "the last receipt lost": "1 2 1 2 1 lose 1",
    "the request never arrives": "drop 1 2",
    "the server is unavailable": "away 1 2 away 1",
    "the server throttles": "flood 1 2",
    "a captive portal responds": "portal 1 2",
    "the CSRF token expires while offline": "off 1 2 stale on renewed 1",
    "the CSRF token expires, then a receipt is lost": "stale 1 renewed lose 2",
    "the session cookie is lost and restored": "1 forget 2 remember reload 1",
    "paused during the session": "1 pause 2 open reload 1",
    "paused, reloaded, opened again": "1 pause 2 reload open reload 1",
    "undo and answer differently": "1 z 2 1",
    "undo three in a row": "1 2 1 z z z 2 2",
    "undo an unsent answer": "off 1 2 z 1 on",
    "undo an answer that may have been sent": "off 1 undo on wait 2",
    "undo, then reload": "1 2 z reload 1",
    "undo whose receipt is lost": "1 loseundo z 2",
}
SEQUENCES = DEFAULT | DRILLS
SELECTED = SEQUENCES if os.environ.get("DRILLS") == "long" else DEFAULT


class SequenceRunner:
    """Runs each step of a sequence in the browser."""

    def __init__(self, session: JudgingSession, browser: Browser, project: Project) -> None:
        self.session, self.browser, self.project = session, browser, project
        self.tabs = {"": session.page}
        self.contexts = [session.context]
        self.saved_cookies: list[dict[str, object]] = []
        session.page.on("dialog", accept_leaving)

    def run(self, step: str) -> None:
        tab, _dot, name = step.rpartition(".")
        if name in {"1", "2", "0", "s"}:
            self.session.press(name, self.tabs[tab])
        else:
            getattr(self, f"do_{name}")(tab)

    # Input

    def do_double(self, tab: str) -> None:
        page = self.tabs[tab]
        self.session.wait_until_ready(page)
        answer = self.session.current_answer(page, "left")
        page.locator("[data-choice=left]").hover()
        with paused_clock(page):
            for _click in range(2):
                page.mouse.down()
                page.mouse.up()
                page.clock.run_for(10)
        self.session.record(answer)

    def do_doublekey(self, tab: str) -> None:
        page = self.tabs[tab]
        self.session.wait_until_ready(page)
        with paused_clock(page):
            self.session.press("1", page)
            page.clock.run_for(10)
            page.keyboard.press("1")

    def do_doubleskip(self, tab: str) -> None:
        page = self.tabs[tab]
        self.session.wait_until_ready(page)
        answer = self.session.current_answer(page, "skip")
        page.locator("[data-choice=skip]").click()
        page.clock.fast_forward(SETTLING_TIME)
        with paused_clock(page):
            page.locator("[data-reason=both_poor]").dblclick()
        self.session.record(answer)

    def do_z(self, tab: str) -> None:
        self.session.undo(self.tabs[tab])

    def do_undo(self, tab: str) -> None:
        """Request an undo that the server confirms later."""
        page = self.tabs[tab]
        self.session.answers.pop()
        page.clock.fast_forward(READING_TIME)
        page.keyboard.press("z")

    # Browser

    def do_reload(self, tab: str) -> None:
        self.tabs[tab].reload()

    def do_back(self, tab: str) -> None:
        self.tabs[tab].go_back()

    def do_forward(self, tab: str) -> None:
        self.tabs[tab].go_forward()

    def do_restored(self, tab: str) -> None:
        self.session.wait_until_sent(self.tabs["d"])
        self.tabs[tab].evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        expect(self.tabs[tab].locator("#count")).to_have_text(f"{len(self.session.answers)} / {QUOTA}")

    def do_close(self, tab: str) -> None:
        self.tabs[tab].close()
        self.tabs[tab] = self._new_tab(self.session.context)
        if not self.offline:
            self.tabs[tab].goto(self.session.url)

    def do_tab(self, tab: str) -> None:
        self.tabs["b"] = self._new_tab(self.session.context)
        self.tabs["b"].goto(self.session.url)
        self.session.wait_until_ready(self.tabs["b"])

    def do_device(self, tab: str) -> None:
        context = self.browser.new_context(storage_state={"cookies": self.session.context.cookies(), "origins": []})  # type: ignore[typeddict-item]
        self.contexts.append(context)
        self.tabs["d"] = self._new_tab(context)
        self.tabs["d"].goto(self.session.url)
        self.session.wait_until_ready(self.tabs["d"])

    def _new_tab(self, context: BrowserContext) -> Page:
        page = self.session.new_tab(context)
        page.on("dialog", accept_leaving)
        return page

    # Network

    offline = False

    def do_off(self, tab: str) -> None:
        self.session.wait_until_kept(self.tabs[tab])
        self.offline = True
        self.session.context.set_offline(True)

    def do_on(self, tab: str) -> None:
        self.offline = False
        self.session.context.set_offline(False)
        for page in self.tabs.values():
            if not page.url.startswith("http"):
                page.goto(self.session.url)

    def do_sent(self, tab: str) -> None:
        """Wait until the server has this device's answers, so that it is clear which device was first."""
        self.session.wait_until_sent(self.tabs[tab])

    def do_wait(self, tab: str) -> None:
        self.tabs[tab].clock.fast_forward(60_000)

    def do_lose(self, tab: str) -> None:
        self._once("**/judgements/", lose_response)

    def do_loseundo(self, tab: str) -> None:
        self._once("**/retractions/", lose_response)

    def do_drop(self, tab: str) -> None:
        self._once("**/judgements/", lambda route: route.abort())

    def do_away(self, tab: str) -> None:
        self._once("**/judgements/", partial(respond_with, status=503, retry_after="3"))

    def do_flood(self, tab: str) -> None:
        self._once("**/judgements/", partial(respond_with, status=429, retry_after="1"))

    def do_portal(self, tab: str) -> None:
        self._once(
            "**/judgements/", lambda route: route.fulfill(body="<h1>Welcome, guest</h1>", content_type="text/html")
        )

    def _once(self, pattern: str, handler: Callable[[Route], None]) -> None:
        self.session.context.route(pattern, only_posts(handler), times=1)

    # Server

    def do_stale(self, tab: str) -> None:
        self.session.wait_until_kept(self.tabs[tab])  # storing the page renews the cookie
        self.session.context.clear_cookies(name="csrftoken")
        self.tabs[tab].evaluate("window.outdated = true")

    def do_renewed(self, tab: str) -> None:
        """Wait until the page has reloaded itself."""
        self.tabs[tab].wait_for_function("() => !window.outdated")

    def do_forget(self, tab: str) -> None:
        self.session.wait_until_sent(self.tabs[tab])
        self.saved_cookies = self.session.context.cookies()  # type: ignore[assignment]
        self.session.context.clear_cookies(name=f"concord_worker_{self.project.pk}")

    def do_remember(self, tab: str) -> None:
        expect(self.tabs[tab].get_by_role("button", name="Reload the page")).to_be_visible()
        self.session.context.add_cookies(self.saved_cookies)  # type: ignore[arg-type]

    def do_pause(self, tab: str) -> None:
        self.session.wait_until_sent(self.tabs[tab])
        Project.objects.filter(pk=self.project.pk).update(state="paused")

    def do_open(self, tab: str) -> None:
        expect(self.tabs[tab].get_by_text("stored on this device: 1.")).to_be_visible()
        Project.objects.filter(pk=self.project.pk).update(state="open")

    def finish(self) -> None:
        """Advance the clock until every tab has sent its stored answers."""
        for page in self.tabs.values():
            for _try in range(12):
                page.clock.fast_forward(25_000)
                if self._has_sent(page):
                    break
            assert self._has_sent(page), "answers are still stored on the device"
        for context in self.contexts:
            context.unroute_all()

    def _has_sent(self, page: Page) -> bool:
        try:
            page.wait_for_function(ALL_SENT, arg=page.locator("[data-store]").get_attribute("data-store"), timeout=1500)
        except Error:
            return False
        return True


def accept_leaving(dialog: Dialog) -> None:
    """Leave the page although the browser warns about unsent answers."""
    assert dialog.type == "beforeunload", dialog.message
    dialog.accept()


def lose_response(route: Route) -> None:
    """Let the server respond, but fail the request in the browser."""
    route.fetch()
    route.abort()


def respond_with(route: Route, *, status: int, retry_after: str) -> None:
    body = {"title": "Not now.", "detail": "Wait a moment.", "status": status}
    route.fulfill(status=status, json=body, headers={"Retry-After": retry_after})


@pytest.mark.parametrize("name", SELECTED)
def test_the_stored_judgements_are_the_answers_given(
    name: str, served: str, browser: Browser, project: Project
) -> None:
    make_study(project, quota=QUOTA)
    session = JudgingSession(browser.new_context(), served).join()
    runner = SequenceRunner(session, browser, project)
    for step in SEQUENCES[name].split():
        runner.run(step)
    runner.finish()

    assert stored_answers() == set(session.answers)
    rows = list(Judgement.objects.values_list("worker", "item_lo", "item_hi", "round"))
    assert len(rows) == len(set(rows))
    session.page = runner.tabs[""]
    session.page.goto(session.url)
    if len(session.answers) < QUOTA:
        expect(session.page.locator("#count")).to_have_text(f"{len(session.answers)} / {QUOTA}")
    else:
        expect(session.page.get_by_role("heading", name="Thank you.")).to_be_visible()
    assert session.errors == []
    assert session.script_errors == []
