"""Leaving and returning in a browser: stop early, return with a code, delete the answers."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from annotation.models import Judgement, Project, Worker
from annotation.services import stop_early
from tests.annotation.platforms.studies import CODES, recruit
from tests.browser.judging.judging_session import (
    PHONE,
    SETTLING_TIME,
    JudgingSession,
    scrolls_horizontally,
    stored_answers,
)

MAX_RETRY = 30_000  # ms; longer than the page waits between two attempts
NARROW = {"viewport": {"width": 320, "height": 568}, "has_touch": True, "is_mobile": True}


def check_page(page: Page) -> None:
    """No accessibility violation and no sideways scrolling."""
    assert Axe().run(page).response["violations"] == []
    assert not scrolls_horizontally(page)


def read_return_code(session: JudgingSession) -> str:
    """Open Help as the worker would, and note the return code."""
    session.page.locator("#open-help").click()
    code = session.page.locator("#help .address").nth(1).inner_text()
    session.page.clock.fast_forward(SETTLING_TIME)
    session.page.get_by_role("button", name="Back to the pair").click()
    session.page.clock.fast_forward(SETTLING_TIME)
    return code


def return_with(page: Page, code: str) -> None:
    page.get_by_label("Your return code").fill(code)
    page.get_by_role("button", name="Return", exact=True).click()


@pytest.mark.parametrize("context", [PHONE, NARROW, {}], ids=["390", "320", "1280"])
def test_stop_see_the_data_and_delete_it(start_session: Callable[..., JudgingSession], context: dict[str, Any]) -> None:
    session = start_session(context=context)
    page = session.page
    session.click("left")
    session.click("tie")
    page.get_by_role("button", name="Stop here").click()
    expect(page.get_by_text("You stopped after 2 of 6 pairs.")).to_be_visible()
    check_page(page)
    assert stored_answers() == set(session.answers)

    page.get_by_role("link", name="See, download or delete my data").click()
    check_page(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Everything (JSON)").click()
    assert download.value.suggested_filename == "my-data.json"
    page.get_by_label("Delete all my answers.").check()
    page.get_by_role("button", name="Delete my answers").click()
    expect(page.get_by_role("heading", name="Your answers are deleted.")).to_be_visible()
    check_page(page)
    page.wait_for_function("!Object.keys(localStorage).some(key => key.startsWith('concord-pets-'))")
    assert stored_answers() == set()


def test_a_tab_left_open_after_deleting_says_that_the_session_has_ended(
    start_session: Callable[..., JudgingSession],
) -> None:
    session = start_session()
    session.click("left")
    session.wait_until_sent()
    other = session.new_tab()
    other.goto(f"{session.url}data/")
    other.get_by_label("Delete all my answers.").check()
    other.get_by_role("button", name="Delete my answers").click()
    expect(other.get_by_role("heading", name="Your answers are deleted.")).to_be_visible()
    session.page.clock.fast_forward(1000)
    expect(session.page.locator("#problem-text")).to_have_text(
        "Your session on this device has ended. Reload the page to continue."
    )
    expect(session.page.locator("[data-choice=left]")).to_be_disabled()
    assert stored_answers() == set()


def test_unsent_answers_find_their_owner_again(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session()
    page, owner = session.page, Worker.objects.get()
    code = read_return_code(session)
    session.context.set_offline(True)
    session.press("1")
    session.press("2")
    session.context.clear_cookies()
    session.context.set_offline(False)

    expect(page.get_by_text("Unsent answers from an earlier visit on this device: 2.")).to_be_visible()
    page.get_by_role("link", name="Return with your code").click()
    return_with(page, "22222-22222-22222")
    expect(page.get_by_text("This study has no such return code.").first).to_be_visible()
    check_page(page)
    return_with(page, code.upper())
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)
    assert set(Judgement.objects.values_list("worker", flat=True)) == {owner.pk}


def test_stopping_offline_says_where_the_answers_are(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session()
    page = session.page
    session.context.set_offline(True)
    session.press("1")
    page.get_by_role("button", name="Stop here").click()
    expect(page.locator("#problem")).to_contain_text("Answers stored on this device: 1. You can close this page.")
    session.context.set_offline(False)
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)


def test_finish_waits_until_the_answers_on_the_device_are_stored(
    start_session: Callable[..., JudgingSession], project: Project
) -> None:
    recruit(project, "")
    session = start_session()
    session.click("left")
    session.wait_until_sent()
    session.context.route("**/judgements/", lambda route: route.abort())
    session.click("left")
    stop_early(worker=Worker.objects.get())  # on another device
    page = session.new_tab()
    page.goto(session.url)
    finish = page.get_by_role("button", name="Finish")
    expect(finish).to_be_disabled()
    session.context.unroute("**/judgements/")
    page.clock.fast_forward(MAX_RETRY)
    expect(finish).to_be_enabled()
    assert Judgement.objects.count() == 2
    finish.click()
    expect(page.get_by_text(CODES["stopped"], exact=True)).to_be_visible()
