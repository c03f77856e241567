"""Undo in a browser: what was chosen is shown, also for the last answer and offline."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from annotation.models import Judgement, Worker
from tests.browser.helpers.page_checks import violations
from tests.browser.judging.judging_session import PHONE, READING_TIME, JudgingSession, stored_answers

DESKTOP = {"viewport": {"width": 1280, "height": 800}}


@pytest.mark.parametrize("context", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_an_undo_shows_what_was_chosen(
    context: dict[str, object], start_session: Callable[..., JudgingSession]
) -> None:
    session = start_session(context=context)
    page, feedback = session.page, session.page.locator("#feedback")
    session.click("right")
    expect(feedback).to_have_text("Your answer: Second")
    expect(feedback).to_be_in_viewport(ratio=1)
    page.clock.fast_forward(2100)
    expect(feedback).to_be_hidden()
    session.wait_until_sent()
    page.reload()  # the server knows the last answer too
    session.wait_until_ready(page)
    session.undo()
    expect(feedback).to_have_text("Undone: Second.")
    page.clock.fast_forward(5000)
    expect(feedback).to_be_visible()
    assert violations(page) == []
    session.press("0")
    expect(feedback).to_have_text("Your answer: Equally good")
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)


def test_the_last_answer_can_be_undone_before_the_thank_you_page(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=2, context=PHONE)
    page = session.page
    session.press("1")
    session.press("1")
    expect(page.locator("#waiting-text")).to_have_text("That was the last pair. You can still undo your last answer.")
    assert violations(page) == []
    assert Worker.objects.get().state == "finished"
    session.undo()
    expect(page.locator("#feedback")).to_have_text("Undone: First.")
    session.press("2")
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    assert stored_answers() == set(session.answers)
    assert Worker.objects.get().state == "finished"


def test_the_thank_you_page_follows_after_a_moment(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=1)
    session.press("1")
    expect(session.page.get_by_role("button", name="Finish now")).to_be_visible()
    session.page.clock.fast_forward(6100)
    expect(session.page.get_by_role("heading", name="Thank you.")).to_be_visible()


def test_offline_an_undo_brings_the_pair_back_at_once(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=20)
    session.context.set_offline(True)
    for key in "12":
        session.press(key)
    session.undo()
    expect(session.page.locator("#feedback")).to_have_text("Undone: Second.")
    session.undo()
    expect(session.page.locator("#feedback")).to_have_text("Undone: First.")
    expect(session.page.locator("#count")).to_have_text("0 / 20")
    session.press("0")
    session.context.set_offline(False)
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)
    assert Judgement.objects.count() == 1


def test_an_undo_of_an_answer_that_may_have_arrived_says_when_the_pair_comes_again(
    start_session: Callable[..., JudgingSession],
) -> None:
    session = start_session()
    page = session.page
    session.press("1")
    session.wait_until_sent()
    session.context.set_offline(True)
    page.clock.fast_forward(READING_TIME)
    undone = session.answers.pop()
    page.keyboard.press("z")
    expect(page.locator("#feedback")).to_have_text("Undone: First. The pair will come up again when you are online.")
    expect(page.locator("#count")).to_have_text("0 / 6")
    session.context.set_offline(False)
    expect(page.locator("#left")).to_have_text(undone.left)
    assert stored_answers() == set()


def test_an_answer_behind_one_that_is_being_sent_is_undone_on_the_device(
    start_session: Callable[..., JudgingSession],
) -> None:
    session = start_session()
    held: list[Route] = []
    session.page.route("**/judgements/", lambda route: held.append(route))
    with session.page.expect_request("**/judgements/"):
        session.press("1")
    session.press("2")
    session.undo()
    session.press("0")
    held[0].continue_()
    session.page.unroute("**/judgements/")
    session.wait_until_sent()
    assert stored_answers() == set(session.answers)
    assert Judgement.objects.count() == 2
