"""What researchers write for workers: questions and texts, on a wide screen and on a phone."""

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Judgement, Project, TrialAnswer, Worker
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.browser.judging.judging_session import READING_TIME

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_an_owner_builds_questions_by_keyboard_and_a_worker_answers_them(
    page_of_owner: Page, served: str, project: Project
) -> None:
    Project.objects.filter(pk=project.pk).update(consent="", judgements_per_worker=1)
    page = page_of_owner
    page.goto(f"{served}/projects/pets/questions/")
    page.get_by_role("button", name="Add a question").press("Enter")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.type("Which pets?")
    page.get_by_label("Kind of answer").select_option("several")
    page.get_by_label("Choices").fill("cat")
    page.get_by_label("Question", exact=True).press("Enter")
    expect(page.locator(".error")).to_have_text("It needs 2 to 50 choices.")
    assert find_page_problems(page) == []
    page.get_by_label("Choices").fill("cat\ndog")
    page.get_by_role("button", name="Add a question").press("Enter")
    second = page.locator(".question").nth(1)
    expect(second.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.type("How hard was it?")
    second.get_by_label("Kind of answer").select_option("scale")
    expect(second.get_by_label("Choices")).to_be_hidden()
    second.get_by_label("When").select_option("after")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save questions").press("Enter")
    expect(page.locator("main .notice")).to_have_text("Saved.")
    assert find_page_problems(page) == find_keyboard_problems(page) == []

    page.clock.install()
    page.goto(f"{served}/s/pets/")
    assert find_page_problems(page) == []
    page.get_by_label("dog").check()
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-choice=left]")).to_be_enabled()
    page.clock.fast_forward(READING_TIME)
    page.keyboard.press("1")
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_role("heading", name="A few last questions")).to_be_visible()
    assert find_page_problems(page) == []
    page.get_by_label("4", exact=True).check()
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name="Thank you.")).to_be_visible()
    worker = Worker.objects.get()
    assert (worker.traits, worker.answers) == ({"which_pets": ["dog"]}, {"how_hard_was_it": 4})


def test_the_preview_of_a_text_follows_what_is_typed(page_of_owner: Page, served: str, project: Project) -> None:
    page = page_of_owner
    page.goto(f"{served}/projects/pets/settings/")
    box = page.get_by_label("Instructions")
    box.fill("Read **both**.\n\n- [rules](https://example.org)\n\n<b>x</b>")
    box.locator("xpath=..").get_by_role("button", name="Preview").press("Enter")
    sample = box.locator("xpath=..").locator(".sample")
    expect(sample.locator("strong")).to_have_text("both")
    expect(sample.locator("a")).to_have_attribute("rel", "noopener noreferrer")
    expect(sample.locator("a")).to_have_attribute("target", "_blank")
    box.fill("# Task\n\n*New*")
    expect(sample.locator("em")).to_have_text("New")
    assert find_page_problems(page) == find_keyboard_problems(page) == []


def press(page: Page, key: str) -> None:
    expect(page.locator("[data-choice=left]")).to_be_enabled()
    page.clock.fast_forward(READING_TIME)
    page.keyboard.press(key)


def test_a_researcher_walks_the_way_of_a_worker_and_gives_trial_answers(
    page_of_owner: Page, served: str, project: Project
) -> None:
    example = {"example_first": "One.", "example_second": "Two.", "example_explanation": "We choose **two**."}
    Project.objects.filter(pk=project.pk).update(thanks="Ask *us*.", **example)
    page = page_of_owner
    page.clock.install()
    page.goto(f"{served}/projects/pets/preview/")
    expect(page.get_by_text("We choose two.")).to_be_visible()
    assert find_page_problems(page) == []
    for box in page.locator("[name=consent]").all():
        box.check()
    page.get_by_role("button", name="Start").click()
    first = page.locator("#left").inner_text()
    press(page, "1")
    expect(page.locator("#count")).to_have_text("1 / 5")
    press(page, "z")
    expect(page.locator("#left")).to_have_text(first)
    assert find_page_problems(page) == []
    for key in "12012":
        press(page, key)
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_text("Ask us.")).to_be_visible()
    assert find_page_problems(page) == find_keyboard_problems(page) == []
    assert page.evaluate("Object.keys(localStorage)") == []
    page.goto(f"{served}/projects/pets/trial/")
    for key in "12012":
        press(page, key)
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_text("5 trial answers are saved.")).to_be_visible()
    assert find_page_problems(page) == []
    assert TrialAnswer.objects.count() == 5
    assert not Judgement.objects.exists()
