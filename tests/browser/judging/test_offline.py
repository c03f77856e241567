"""The study without a connection: reload, pairs ahead, the last answers, Try now, and what the browser stores."""

import re
from collections.abc import Callable

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Judgement, Project
from tests.browser.judging.judging_session import PHONE, JudgingSession, stored_answers, wait_for_promise

CACHED_TEXT = "async () => (await caches.match(new URL('/s/pets/offline/', location.href)))?.text()"


def test_a_reload_offline_shows_the_study(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=30, context=PHONE, pairs_ahead=20, redundancy=5)
    page = session.page
    session.wait_until_kept()
    session.press("1")
    session.wait_until_sent()
    session.context.set_offline(True)
    page.reload()
    session.wait_until_ready(page)
    for _ in range(3):
        session.press("2")
    page.reload()
    for _ in range(16):
        session.press("0")
    expect(page.locator("#waiting-text")).to_have_text(re.compile("Answers stored here: 19."))
    expect(page.locator("#count")).to_have_text("20 / 30")
    assert Axe().run(page).response["violations"] == []

    session.context.set_offline(False)
    session.wait_until_sent()
    session.press("1")
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)
    assert Judgement.objects.count() == 21
    assert session.script_errors == []


def test_the_last_answers_offline_say_what_is_true(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=2)
    page = session.page
    session.context.set_offline(True)
    session.press("1")
    session.press("2")
    expect(page.locator("#waiting-text")).to_have_text(
        "That was the last pair. You are offline. Answers stored on this device: 2. "
        "They will be sent when you are back online; if you close this page first, open it again then."
    )
    session.context.set_offline(False)
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    assert stored_answers() == set(session.answers)


def test_try_now_sends_without_waiting_for_the_countdown(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(pairs_ahead=1)
    page = session.page
    page.route("**/judgements/", lambda route: route.abort())
    session.press("1")
    expect(page.locator("#countdown")).to_have_text(re.compile(r"Next attempt in \d+ s"))
    page.unroute("**/judgements/")
    page.get_by_role("button", name="Try now").click()
    session.wait_until_sent()
    session.wait_until_ready(page)
    assert stored_answers() == set(session.answers)


def test_the_browser_stores_neither_texts_nor_codes_in_its_cache(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session()
    page = session.page
    cached = wait_for_promise(page, CACHED_TEXT)
    assert page.locator("#left").inner_text() not in cached
    page.locator("#open-help").click()
    assert page.locator("#help .address").nth(1).inner_text() not in cached


def test_online_pages_come_from_the_server_and_a_finished_study_is_forgotten(
    start_session: Callable[..., JudgingSession],
) -> None:
    session = start_session()
    page = session.page
    session.wait_until_kept()
    Project.objects.update(question="A new question?")
    page.reload()
    expect(page.get_by_role("heading", name="A new question?")).to_be_visible()
    session.wait_until_ready(page)
    page.get_by_role("button", name="Stop here").click()
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    wait_for_promise(page, "async () => (await caches.keys()).length === 0")
