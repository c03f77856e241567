"""Hostile strings in every text a worker reads or writes: none runs, all are shown verbatim."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import Arm, Item, JudgementNote, Project, User
from annotation.services.participation.arms import change_arms
from annotation.services.participation.passport import freeze
from annotation.services.participation.preparation import change_gold, change_preparation
from annotation.services.participation.recruitment import change_rules
from annotation.services.participation.worker_invitations import invite_workers
from tests.browser.judging.hostile_texts import TEXTS
from tests.browser.judging.judging_session import JudgingSession
from tests.browser.test_end_to_end import log_in
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


def test_texts_of_arms_and_preparation_run_nowhere(
    watched_session: JudgingSession, served: str, hostile: Project, owner: User
) -> None:
    """Neither on the worker's pages nor on the owner's, which show them in forms, tables and the passport."""
    everything, page = "\n\n".join(TEXTS), watched_session.page
    arms = [Arm(name=name, question=TEXTS[0], instructions=everything) for name in ("one", "two")]
    change_arms(project=hostile, user=owner, arms=arms)
    practice = [{"first": TEXTS[0], "second": everything, "answer": "left", "explanation": everything}]
    questions = [{"question": text, "choices": [text, "yes"], "answer": 1} for text in TEXTS[:3]]
    change_preparation(project=hostile, user=owner, practice=practice, comprehension=questions)
    gold = [{"better": one, "worse": other} for one, other in zip(TEXTS[:20:2], TEXTS[1:20:2], strict=True)]
    change_gold(project=hostile, user=owner, gold=gold, gold_checks=10, gold_limit=2, gold_consequence="flag")
    change_rules(project=hostile, user=owner, changes={"exclusion_rules": everything, "stop_rule": everything})
    invite_workers(project=hostile, user=owner, labels=TEXTS, days=7)
    freeze(hostile)
    page.goto(watched_session.url)
    page.locator("[name=consent]").check()
    page.get_by_role("button", name="Start").click()
    for button in ("Next", "First", "Next"):  # instructions, practice, feedback
        expect(page.get_by_role("button", name=button)).to_be_visible()
        assert is_unharmed(page), button
        page.get_by_role("button", name=button).click()
    expect(page.locator("legend")).to_have_count(3)
    assert page.locator("legend").all_text_contents() == TEXTS[:3]
    assert is_unharmed(page)
    log_in(page, served, owner.username)
    for name in ("arms", "gold", "preparation", "people", "passport", "participants", "preview/pairs"):
        page.goto(f"{served}/projects/pets/{name}/")
        assert is_unharmed(page), name
        assert page.locator("main :is(iframe, object, embed, marquee)").count() == 0, name
    page.goto(f"{served}/projects/pets/people/")
    assert page.locator("tbody th").all_text_contents()[0].strip() == TEXTS[-1]


def test_the_checks_detect_an_injected_script(watched_session: JudgingSession) -> None:
    page = watched_session.page
    page.goto(watched_session.url)
    assert is_unharmed(page)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    page.wait_for_function("() => violations.length > 0")
    assert not is_unharmed(page)
