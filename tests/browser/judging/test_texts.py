"""Hostile strings in every text a worker reads or writes: none runs, all are shown verbatim."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import Item, JudgementNote, Project
from tests.browser.judging.hostile_texts import TEXTS
from tests.browser.judging.judging_session import JudgingSession
from tests.conftest import make_items

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event => violations.push(event.violatedDirective));
"""


@pytest.fixture
def hostile(project: Project) -> Project:
    """A study with the strings as items, instructions, consent and questions."""
    Item.objects.filter(project=project).delete()
    make_items(project, TEXTS, "hostile")
    everything = "\n".join(TEXTS)
    questions = [{"name": f"q{n}", "label": text, "choices": [text, "no"]} for n, text in enumerate(TEXTS[:5])]
    changes = {"instructions": everything, "consent": everything, "questionnaire": questions, "reason_asked": True}
    plain = {"plain_texts": ["instructions", "consent"]}
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=100, group_shown=True, **changes, **plain)
    return project


@pytest.fixture
def watched_session(served: str, browser: Browser, hostile: Project) -> Iterator[JudgingSession]:
    """A session that records every dialog and every blocked script."""
    context = browser.new_context()
    context.add_init_script(WATCH)
    session = JudgingSession(context, served)
    ran: list[str] = []
    session.page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    yield session
    assert ran == []
    assert session.script_errors == []


def is_unharmed(page: Page) -> bool:
    return page.evaluate("violations.length === 0 && !('pwned' in window)")


def test_texts_of_the_project_are_shown_verbatim(watched_session: JudgingSession, hostile: Project) -> None:
    page = watched_session.page
    for title, question in zip(TEXTS[::2], TEXTS[1::2], strict=True):
        Project.objects.filter(pk=hostile.pk).update(title=title, question=question)
        page.goto(watched_session.url)
        assert page.locator("h1").text_content() == question
        assert page.locator(".eyebrow").text_content() == title
        assert is_unharmed(page)
    for number, block in enumerate(page.locator(".prose").all()):
        assert block.locator("p").evaluate("p => p.innerText.split('\\n')") == TEXTS, f"block {number}"
    Project.objects.filter(pk=hostile.pk).update(plain_texts=[], instructions="\n\n".join(TEXTS))
    page.goto(watched_session.url)
    assert is_unharmed(page)
    assert page.locator(".prose :is(script, style, img, svg, iframe, form)").count() == 0
    labels = page.locator("form label").all_text_contents()
    assert [label.strip() for label in labels[:5]] == TEXTS[:5]


def test_items_and_reasons_are_shown_and_stored_verbatim(watched_session: JudgingSession, hostile: Project) -> None:
    Project.objects.filter(pk=hostile.pk).update(title=TEXTS[0], question=TEXTS[1])
    page = watched_session.join().page
    seen: set[str] = set()
    written: list[str] = []
    while seen < set(TEXTS):
        watched_session.wait_until_ready(page)
        seen |= set(page.locator(".item-card .text").all_text_contents())
        written.append(TEXTS[len(written)])
        page.get_by_label("Why?").fill(written[-1])
        watched_session.click("left")
        assert is_unharmed(page)
    assert seen == set(TEXTS)
    page.keyboard.press("?")
    assert page.locator("#help [lang] p").evaluate("p => p.innerText.split('\\n')") == TEXTS
    page.keyboard.press("Escape")
    expect(page.locator("#saved")).to_be_visible()
    assert list(JudgementNote.objects.order_by("pk").values_list("text", flat=True)) == written
    page.reload()
    assert is_unharmed(page)


def test_the_checks_detect_an_injected_script(watched_session: JudgingSession) -> None:
    page = watched_session.page
    page.goto(watched_session.url)
    assert is_unharmed(page)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    page.wait_for_function("() => violations.length > 0")
    assert not is_unharmed(page)
