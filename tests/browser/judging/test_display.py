"""What the judging page shows: large text, small windows, screen readers, forced colours and the group of a pair."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import Item, Project
from tests.browser.helpers.page_checks import violations
from tests.browser.judging.judging_session import PHONE, JudgingSession, make_study, paused_clock, scrolls_horizontally

LONG = "A long argument that takes many lines on a phone. " * 40
GERMAN = "Welches Argument ist überzeugender?"

BROKEN_WORDS = """
(buttons) => buttons.flatMap((button) => {
  const text = button.firstChild;
  return [...text.data.matchAll(/\\S+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
  }).map((word) => word[0]);
})
"""


def bar(page: Page, what: str) -> float:
    return float(page.locator("#choices").evaluate(f"bar => {what}"))


# Large text and small windows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(("width", "height"), [(320, 640), (390, 844), (640, 360), (1280, 800)])
def test_with_large_text_the_buttons_leave_room_for_the_texts(
    width: int, height: int, language: str, served: str, large_text: Browser, project: Project
) -> None:
    make_study(project)
    Item.objects.all().update(text=LONG)
    Project.objects.update(language=language, question=GERMAN, group_shown=True, reason_asked=True)
    context = large_text.new_context(viewport={"width": width, "height": height}, has_touch=True)
    session = JudgingSession(context, served)
    session.page.goto(session.url)
    assert not scrolls_horizontally(session.page)
    page = session.join().page
    assert page.evaluate("getComputedStyle(document.body).fontSize") == "34px"
    assert not scrolls_horizontally(page)
    sticks = page.locator("#choices").evaluate("bar => getComputedStyle(bar).position") == "sticky"
    assert sticks == (bar(page, "bar.offsetHeight / innerHeight") <= 1 / 3)
    for button in page.locator(".choices button").all():
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport(ratio=0.99)
    assert page.locator("[data-choice=left], [data-choice=right]").evaluate_all(BROKEN_WORDS) == []
    session.click("left")
    for opened, closing in (("s", "reasons"), ("?", "help")):
        page.keyboard.press(opened)
        assert not page.locator(f"#{closing}").evaluate("sheet => sheet.scrollWidth > sheet.clientWidth")
        assert violations(page) == []
        page.keyboard.press("Escape")
    session.wait_until_sent()


def test_with_normal_text_the_buttons_stay_in_view(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(context=PHONE)
    Item.objects.all().update(text=LONG)
    page = session.page
    page.reload()
    session.wait_until_ready(page)
    expect(page.locator("[data-choice=left]")).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 390, "height": 300})
    expect(page.locator("#choices")).to_have_css("position", "relative")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("#choices")).to_have_css("position", "sticky")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_label_of_a_long_text_stays_in_view(width: int, start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(context={"viewport": {"width": width, "height": 700}})
    Item.objects.all().update(text=LONG)
    page = session.page
    page.reload()
    session.wait_until_ready(page)
    page.evaluate("scrollTo(0, document.querySelector('#left').offsetTop + 500)")
    expect(page.locator("#first-name")).to_be_in_viewport(ratio=1)


def test_on_a_desktop_the_buttons_are_right_under_the_texts(start_session: Callable[..., JudgingSession]) -> None:
    page = start_session(context={"viewport": {"width": 1280, "height": 1000}}).page
    cards, buttons = page.locator(".pair").bounding_box(), page.locator("#choices").bounding_box()
    assert buttons["y"] - (cards["y"] + cards["height"]) < 40


# Screen readers and forced colours ------------------------------------------------------------------------------------

RECORD_ANNOUNCEMENTS = """
window.announced = [];
const region = document.querySelector("#announce");
new MutationObserver(() => announced.push(region.textContent)).observe(region, {childList: true, characterData: true});
"""


def test_every_pair_and_every_undo_is_announced(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session()
    page = session.page
    page.evaluate(RECORD_ANNOUNCEMENTS)
    session.press("1")
    session.press("2")
    session.wait_until_sent()
    session.undo()
    session.wait_until_ready(page)
    session.undo()
    session.press("1")
    session.wait_until_sent()
    announced = page.evaluate("announced")
    assert announced[:2] == ["Answer 1: the first. Pair 2 of 6", "Answer 2: the second. Pair 3 of 6"]
    assert [text for text in announced if "Pair" in text][2:] == [
        "Undone: Second. Pair 2 of 6",
        "Undone: First. Pair 1 of 6",
        "Answer 1: the first. Pair 2 of 6",
    ]
    assert len([text for text in announced if "Undone" in text]) == 2
    assert all(one != other for one, other in pairwise(announced))
    assert page.locator(":is([role=status], [aria-live])").count() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_when_an_answer_is_saved(width: int, start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(context={"viewport": {"width": width, "height": 700}})
    page = session.page
    places = """() => ["#progress", ".pair", "#choices", "#count"].map(
        name => JSON.stringify(document.querySelector(name).getBoundingClientRect()))"""
    before = page.evaluate(places)
    session.press("1")
    expect(page.locator("#saved")).to_be_visible()
    assert page.evaluate(places) == before


def test_the_progress_bar_is_visible_in_forced_colours(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(context={"forced_colors": "active"})
    session.press("1")
    page = session.page
    assert page.locator("#progress").evaluate("bar => getComputedStyle(bar).borderTopWidth") == "1px"
    one = page.locator("#progress").screenshot()
    for _answer in range(3):
        session.press("1")
    expect(page.locator("#count")).to_have_text("4 / 6")
    assert page.locator("#progress").screenshot() != one


# The group of a pair --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [390, 1280])
def test_the_group_is_shown_once_above_the_pair(width: int, start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(group_shown=True, context={"viewport": {"width": width, "height": 700}})
    page = session.page
    expect(page.get_by_text("birds", exact=True)).to_have_count(1)
    assert page.locator("#group").bounding_box()["y"] < page.locator(".pair").bounding_box()["y"]
    assert violations(page) == []


def test_two_different_groups_are_shown_with_their_texts(
    start_session: Callable[..., JudgingSession], project: Project
) -> None:
    session = start_session(group_shown=True, pairs="any")
    Item.objects.filter(active=True, pk__in=[pk for pk in Item.objects.values_list("pk", flat=True) if pk % 2]).update(
        group="fish"
    )
    page = session.page
    while True:
        page.reload()
        session.wait_until_ready(page)
        shown = page.locator("#left-group").inner_text(), page.locator("#right-group").inner_text()
        if page.locator("#group").is_hidden():
            break
        session.press("1")
        session.wait_until_sent()
    assert set(shown) == {"birds", "fish"}


def test_the_group_is_not_shown_unless_the_researcher_wants_it(start_session: Callable[..., JudgingSession]) -> None:
    expect(start_session().page.locator("#group")).to_be_hidden()


# Time and the first page ----------------------------------------------------------------------------------------------


def answer_after(session: JudgingSession, milliseconds: int) -> None:
    with paused_clock(session.page):
        session.page.reload()
        expect(session.page.locator("[data-choice=left]")).to_be_enabled()
        session.page.clock.run_for(milliseconds)
        session.page.keyboard.press("1")
    session.wait_until_sent()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_minutes_left_follow_the_workers_own_pace(width: int, start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=23, context={"viewport": {"width": width, "height": 700}})
    page = session.page
    expect(page.locator("#remaining")).to_have_text("23 to go")
    for _answer in range(3):
        answer_after(session, 30_000)
    expect(page.locator("#remaining")).to_have_text("about 10 minutes left")
    page.reload()
    expect(page.locator("#remaining")).to_have_text("about 10 minutes left")
    assert violations(page) == []
    assert not scrolls_horizontally(page)


def answer_five_pairs_in_a_hurry(page: Page) -> None:
    """Give one answer after two seconds and four in less than a second; leave the clock paused."""
    expect(page.locator("[data-choice=left]")).to_be_enabled()
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 60"))
    page.clock.run_for(2000)
    page.keyboard.press("1")
    for _answer in range(4):
        expect(page.locator("#feedback")).to_have_text("Your answer: First")
        page.clock.run_for(400)
        page.keyboard.press("1")


@pytest.mark.parametrize("context", [PHONE, {}], ids=["phone", "desktop"])
def test_several_answers_under_a_second_bring_a_kind_note(
    context: dict[str, object], start_session: Callable[..., JudgingSession]
) -> None:
    session = start_session(quota=20, context=context)
    page = session.page
    page.evaluate(RECORD_ANNOUNCEMENTS)
    answer_five_pairs_in_a_hurry(page)
    page.clock.resume()
    expect(page.locator("#feedback")).to_have_text("Take your time: please read both texts.")
    expect(page.locator("#feedback")).to_be_in_viewport(ratio=1)
    assert "please read both texts" in page.evaluate("announced.join()")
    assert violations(page) == []


def test_after_the_last_pair_nobody_is_asked_to_read_both_texts(start_session: Callable[..., JudgingSession]) -> None:
    page = start_session(quota=5).page
    answer_five_pairs_in_a_hurry(page)
    expect(page.locator("#count")).to_have_text("5 / 5")
    expect(page.locator("#feedback")).to_have_text("Your answer: First")


def test_without_a_consent_text_there_is_no_box_to_tick(served: str, browser: Browser, project: Project) -> None:
    make_study(project)
    for consent, boxes in (("", 0), ("We keep your answers.", 1)):
        Project.objects.update(consent=consent)
        page = browser.new_page()
        page.goto(f"{served}/s/pets/")
        expect(page.locator("[name=consent]")).to_have_count(boxes)
        assert violations(page) == []
        for box in page.locator("[name=consent]").all():
            box.check()
        page.get_by_role("button", name="Start").click()
        expect(page.locator("#pair")).to_be_visible()


def test_without_javascript_the_pages_say_so_at_the_top(served: str, browser: Browser, project: Project) -> None:
    make_study(project)
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{served}/s/pets/")
    for _page in ("welcome", "judging"):
        expect(page.locator("main .notice").first).to_contain_text("This page needs JavaScript")
        assert page.locator("main .notice").first.bounding_box()["y"] < page.locator("h1").bounding_box()["y"]
        if page.get_by_role("button", name="Start").count():
            page.get_by_role("button", name="Start").click()
