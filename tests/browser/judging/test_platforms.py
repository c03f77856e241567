"""Paid studies end to end in a browser, with a stand-in for each platform's pages."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from annotation.models import Arm, Judgement, PlatformIdentity, Project, User, Worker, WorkerCheck
from annotation.services.participation.arms import change_arms
from annotation.services.participation.preparation import change_preparation
from annotation.services.participation.worker_invitations import invite_workers
from tests.annotation.platforms.studies import CODES, PID, link, recruit
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.browser.judging.judging_session import PHONE, READING_TIME, make_study

QUOTA = 2


@pytest.fixture
def paid_study(project: Project) -> Project:
    make_study(project, quota=QUOTA)
    Project.objects.filter(pk=project.pk).update(consent="We store your answers.")
    return project


def open_platform(context: BrowserContext, host: str, study_link: str) -> tuple[Page, list[dict[str, list[str]]]]:
    """A page of the platform with a link to the study; the list collects the queries of its completion page."""
    completed: list[dict[str, list[str]]] = []

    def serve(route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.query:
            completed.append(parse_qs(address.query))
        body = f'<title>Platform</title><a href="{study_link}">Open the study</a>'
        route.fulfill(content_type="text/html", body=body)

    context.route(f"https://{host}/**", serve)
    page = context.new_page()
    page.clock.install()
    page.goto(f"https://{host}/")
    return page, completed


def consent(page: Page) -> None:
    page.locator("[name=consent]").check()
    page.locator("form button.button").first.click()


def answer(page: Page) -> None:
    expect(page.locator("[data-choice=left]")).to_be_enabled()
    page.clock.fast_forward(READING_TIME)
    page.locator("[data-choice=left]").click()


def test_a_prolific_study_from_the_link_to_the_completion_code(
    served: str, browser: Browser, paid_study: Project
) -> None:
    recruit(paid_study)
    address = served + link(paid_study)
    phone, completed = open_platform(browser.new_context(**PHONE), "app.prolific.com", address)
    phone.get_by_role("link", name="Open the study").click()
    assert find_page_problems(phone) == []
    consent(phone)
    answer(phone)
    expect(phone.locator("#saved")).to_be_visible()

    laptop = browser.new_context().new_page()
    laptop.clock.install()
    laptop.goto(address)
    expect(laptop.locator("#count")).to_have_text(f"1 / {QUOTA}")
    assert PID not in laptop.url
    answer(laptop)
    laptop.get_by_role("button", name="Finish now").click()
    expect(laptop.get_by_text(CODES["finished"], exact=True)).to_be_visible()

    phone.reload()
    expect(phone.get_by_text(CODES["finished"], exact=True)).to_be_visible()
    assert find_page_problems(phone) + find_keyboard_problems(phone) == []
    phone.get_by_role("link", name="Back to the platform").click()
    expect(phone.get_by_role("link", name="Open the study")).to_be_visible()
    assert completed == [{"cc": [CODES["finished"]]}]
    assert Worker.objects.get().outcome == "finished"
    assert Judgement.objects.count() == QUOTA


def test_an_mturk_hit_from_the_preview_to_the_submitted_form(
    served: str, browser: Browser, paid_study: Project
) -> None:
    """The frame needs no cookies: a context without any submits the HIT."""
    recruit(paid_study, "mturk")
    submitted: list[dict[str, list[str]]] = []
    shown = {"query": "assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=3HIT"}

    def serve(route: Route) -> None:
        if route.request.method == "POST":
            submitted.append(parse_qs(route.request.post_data or ""))
        body = f'<title>HIT</title><iframe src="{served}/s/pets/mturk/?{shown["query"]}" width="380" height="700">'
        route.fulfill(content_type="text/html", body=body)

    context = browser.new_context(**PHONE, permissions=["local-network-access"])  # a public page frames this machine
    context.route("https://workersandbox.mturk.com/**", serve)
    hit = context.new_page()
    hit.clock.install()
    hit.goto("https://workersandbox.mturk.com/hit")
    frame = hit.frame_locator("iframe")
    expect(frame.get_by_role("button", name="Open the study")).to_be_disabled()
    assert not Worker.objects.exists()

    shown["query"] = (
        "assignmentId=3ASSIGNMENT&hitId=3HITHIT&workerId=A1WORKER&turkSubmitTo=https%3A%2F%2Fworkersandbox.mturk.com"
    )
    hit.reload()
    with context.expect_page() as opened:
        frame.get_by_role("link", name="Open the study").click()
    study = opened.value
    study.clock.install()
    study.reload()
    consent(study)
    for _ in range(QUOTA):
        answer(study)
    study.get_by_role("button", name="Finish now").click()
    expect(study.get_by_text(CODES["finished"], exact=True)).to_be_visible()
    expect(study.get_by_text("Go back to the tab with the HIT and submit it there.")).to_be_visible()
    assert find_page_problems(study) == []

    hit.clock.fast_forward(6000)
    with hit.expect_response("**/mturk/externalSubmit"):
        frame.get_by_role("button", name="Submit the HIT").click()
    assert [(each["assignmentId"], each["outcome"]) for each in submitted] == [(["3ASSIGNMENT"], ["finished"])]
    hit.goto(f"{served}/s/pets/mturk/?{shown['query']}")
    assert find_page_problems(hit) == []


def test_a_panel_with_its_own_parameters_in_german(served: str, browser: Browser, paid_study: Project) -> None:
    Project.objects.update(language="de")
    back = "https://lab.sona-systems.com/credit?survey_code={participant}"
    recruit(paid_study, "generic", participant_parameter="id", completion_url=back, codes={})
    page, completed = open_platform(browser.new_context(**PHONE), "lab.sona-systems.com", f"{served}/s/pets/?id=4711")
    page.get_by_role("link", name="Open the study").click()
    page.get_by_role("button", name="Ich möchte nicht teilnehmen").click()
    expect(page.get_by_role("heading", name="Sie nehmen nicht teil.")).to_be_visible()
    assert find_page_problems(page) == []
    assert not Worker.objects.exists()

    page.goto(f"{served}/s/pets/?id=4711")
    consent(page)
    for _ in range(QUOTA):
        answer(page)
    page.get_by_role("button", name="Jetzt abschließen").click()
    page.get_by_role("link", name="Zurück zur Plattform").click()
    expect(page.get_by_role("link", name="Open the study")).to_be_visible()
    assert completed == [{"survey_code": ["4711"]}]
    assert PlatformIdentity.objects.get().external_id == "4711"


def test_practice_a_comprehension_check_and_an_attention_check_before_the_end(
    served: str, browser: Browser, paid_study: Project
) -> None:
    Project.objects.update(attention_checks=1, judgements_per_worker=4)
    pair = {"first": "Cats purr.", "second": "asdf", "answer": "left", "explanation": "The second says nothing."}
    question = {"question": "Whose view do we ask for?", "choices": ["The experts' view", "My own view"], "answer": 1}
    change_preparation(project=paid_study, user=None, practice=[pair], comprehension=[question])
    recruit(paid_study)
    page = browser.new_context(**PHONE).new_page()
    page.clock.install()
    page.goto(served + link(paid_study))
    consent(page)
    assert find_page_problems(page) + find_keyboard_problems(page) == []
    page.get_by_role("button", name="Second").click()
    expect(page.get_by_text("We expected the other answer.")).to_be_visible()
    assert find_page_problems(page) == []
    page.get_by_role("button", name="Next").click()
    page.get_by_label("The experts' view").check()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("you have one more attempt")).to_be_visible()
    assert find_page_problems(page) == []
    page.get_by_label("My own view").check()
    page.get_by_role("button", name="Next").click()
    for _ in range(4 + 1):
        answer(page)
        expect(page.locator("#saved")).to_be_visible()
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_text(CODES["finished"], exact=True)).to_be_visible()
    assert Judgement.objects.count() == 4
    assert WorkerCheck.objects.exclude(answered_at=None).count() == 1


ARABIC = {
    "title": "دراسة الحجج", "question": "أي الحجتين أكثر إقناعا؟", "consent": "نحفظ إجاباتك.", "language": "ar",
    "direction": "rtl", "instructions": "اقرأ النصين.", "judgements_per_worker": QUOTA,
}  # fmt: skip


@pytest.mark.parametrize("screen", [PHONE, {"viewport": {"width": 1280, "height": 900}}], ids=["390", "1280"])
def test_an_invited_worker_in_an_arm_reads_from_right_to_left(
    served: str, browser: Browser, paid_study: Project, owner: User, screen: dict[str, Any]
) -> None:
    """The pages of an arm in Arabic: every text of the researcher runs to the left, and nothing scrolls sideways."""
    Project.objects.update(**ARABIC)
    own = {"question": "أي الحجتين ألطف؟", "instructions": "فكر في **اللطف**."}
    change_arms(project=paid_study, user=owner, arms=[Arm(name="أ", **own), Arm(name="ب", **own)])
    pair = {"first": "الكلاب وفية.", "second": "لا أعرف.", "answer": "left", "explanation": "لأن الأول حجة."}
    change_preparation(project=paid_study, user=owner, practice=[pair], comprehension=[])
    recruit(paid_study, "invited")
    [(_invitation, token)] = invite_workers(project=paid_study, user=owner, labels=["ada"], days=7)
    page = browser.new_context(**screen).new_page()
    page.clock.install()
    problems = []

    def check() -> None:
        texts = page.locator("[lang=ar]").all()
        assert texts
        directions = {text.evaluate("each => getComputedStyle(each).direction") for text in texts}
        assert directions == {"rtl"}, page.url
        problems.extend(find_page_problems(page))

    page.goto(f"{served}/s/pets/?invitation={token}")
    expect(page.get_by_role("heading", name=ARABIC["title"])).to_be_visible()
    assert page.get_by_text(own["question"]).count() == 0
    check()
    consent(page)
    expect(page.get_by_role("heading", name=own["question"])).to_be_visible()
    check()
    problems += find_keyboard_problems(page)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Practice 1 of 1")).to_be_visible()
    first, second = (page.get_by_role("button", name=name).bounding_box() for name in ("First", "Second"))
    assert first["x"] > second["x"], "the first button is on the right, as the first text is"
    check()
    page.get_by_role("button", name="First").click()
    check()
    page.get_by_role("button", name="Next").click()
    check()
    for _ in range(QUOTA):
        answer(page)
    page.get_by_role("button", name="Finish now").click()
    expect(page.get_by_text(CODES["finished"], exact=True)).to_be_visible()
    problems.extend(find_page_problems(page))
    assert problems == []
    assert Worker.objects.get().arm is not None
