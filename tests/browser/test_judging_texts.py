"""Fifty hostile strings in every text a worker sees or writes: nothing runs, and each is shown as written (P46)."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import Item, JudgementNote, Project
from tests.browser.hostile_texts import TEXTS
from tests.browser.sitting import Sitting
from tests.conftest import make_items

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event => violations.push(event.violatedDirective));
"""


@pytest.fixture
def hostile(project: Project) -> Project:
    """A study whose items are the fifty strings, and whose instructions and consent hold all of them."""
    Item.objects.filter(project=project).delete()
    make_items(project, TEXTS, "hostile")
    everything = "\n".join(TEXTS)
    questions = [{"name": f"q{n}", "label": text, "choices": [text, "no"]} for n, text in enumerate(TEXTS[:5])]
    changes = {"instructions": everything, "consent": everything, "questionnaire": questions, "reason_asked": True}
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=100, group_shown=True, **changes)
    return project


@pytest.fixture
def watched(served: str, browser: Browser, hostile: Project) -> Iterator[Sitting]:
    """A worker whose browser notices anything that runs or is stopped from running."""
    context = browser.new_context()
    context.add_init_script(WATCH)
    sitting = Sitting(context, served)
    ran: list[str] = []
    sitting.page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    yield sitting
    assert ran == []
    assert sitting.scripts_failed == []


def unharmed(page: Page) -> bool:
    return page.evaluate("violations.length === 0 && !('pwned' in window)")


def test_the_projects_own_texts_are_shown_as_written(watched: Sitting, hostile: Project) -> None:
    page = watched.page
    for title, question in zip(TEXTS[::2], TEXTS[1::2], strict=True):
        Project.objects.filter(pk=hostile.pk).update(title=title, question=question)
        page.goto(watched.url)
        assert page.locator("h1").text_content() == question
        assert page.locator(".eyebrow").text_content() == title
        assert unharmed(page)
    for number, block in enumerate(page.locator(".prose").all()):
        assert block.locator("p").evaluate("p => p.innerText.split('\\n')") == TEXTS, f"block {number}"
    labels = page.locator("form label").all_text_contents()
    assert [label.removesuffix(":") for label in labels[:5]] == TEXTS[:5]


def test_the_items_and_reasons_are_shown_and_kept_as_written(watched: Sitting, hostile: Project) -> None:
    Project.objects.filter(pk=hostile.pk).update(title=TEXTS[0], question=TEXTS[1])
    page = watched.join().page
    seen: set[str] = set()
    written: list[str] = []
    while seen < set(TEXTS):
        watched.ready(page)
        seen |= set(page.locator(".argument .text").all_text_contents())
        written.append(TEXTS[len(written)])
        page.get_by_label("Why?").fill(written[-1])
        watched.click("left")
        assert unharmed(page)
    assert seen == set(TEXTS)
    page.keyboard.press("?")
    assert page.locator("#help [lang] p").evaluate("p => p.innerText.split('\\n')") == TEXTS
    page.keyboard.press("Escape")
    expect(page.locator("#saved")).to_be_visible()
    assert list(JudgementNote.objects.order_by("pk").values_list("text", flat=True)) == written
    page.reload()
    assert unharmed(page)


def test_the_watch_would_have_noticed(watched: Sitting) -> None:
    page = watched.page
    page.goto(watched.url)
    assert unharmed(page)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    page.wait_for_function("() => violations.length > 0")
    assert not unharmed(page)
