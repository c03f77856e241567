"""A paid study on Prolific from an empty server, step by step as docs/studies.md describes it, through the pages."""

import re

import pytest
from django.core.management import call_command
from playwright.sync_api import Browser, Page, expect

from annotation.models import Judgement, Worker
from tests.browser.judging.judging_session import PHONE
from tests.browser.judging.test_platforms import answer, consent, open_platform

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PASSWORD = "a long enough pass phrase"
CODES = {"finished": "CDONE1", "stopped": "CSTOP2", "declined": "CDECL3", "failed_checks": "CFAIL4", "error": "CERR5"}
IDS = {"PROLIFIC_PID": "5f" * 12, "STUDY_ID": "7b" * 12, "SESSION_ID": "8c" * 12}
ITEMS = "key,text\n" + "\n".join(f"a{number},Argument number {number}." for number in range(6))


def save(page: Page, button: str, **values: str) -> None:
    for name, value in values.items():
        page.fill(f"[name={name}]", value)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_text("Saved.", exact=True)).to_be_visible()


def open_tab(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("link", name=name, exact=True).click()


def log_in(page: Page, server: str) -> None:
    page.goto(server)
    page.get_by_role("link", name="Log in").first.click()
    page.fill("[name=username]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.get_by_role("button", name="Log in").click()


def create_study(page: Page) -> None:
    """Section 2 of the guide."""
    open_tab(page, "New study")
    for name, text in {"title": "Arguments", "question": "Which is better?", "consent": "We store answers."}.items():
        page.fill(f"[name={name}]", text)
    page.fill("[name=instructions]", "Read both.")
    page.locator("main form button[type=submit]").last.click()
    open_tab(page, "Items")
    page.get_by_role("link", name="Import items").first.click()
    page.set_input_files("#file", {"name": "items.csv", "mimeType": "text/csv", "buffer": ITEMS.encode()})
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Import items").first.click()
    expect(page.get_by_text("6 added")).to_be_visible()
    open_tab(page, "Settings")
    save(page, "Save settings", judgements_per_worker="2", redundancy="3")


def set_up_prolific(page: Page) -> str:
    """Section 3; returns the link that Prolific opens for the participant with IDS."""
    open_tab(page, "Recruitment")
    page.select_option("[name=platform]", "prolific")
    save(page, "Save recruitment")
    link = page.locator("#study-address").inner_text()
    codes = {f"code_{outcome}": code for outcome, code in CODES.items()}
    save(page, "Save recruitment", study_id=IDS["STUDY_ID"], reward="1.00", estimated_minutes="20", places="4", **codes)
    for name, value in IDS.items():
        link = link.replace(f"{{{{%{name}%}}}}", value)
    return link


def open_pilot(page: Page) -> None:
    """Section 4: the plan and the pilot."""
    open_tab(page, "Passport")
    page.fill("[name=exclusion_rules]", "Workers who fail both checks.")
    page.fill("[name=stop_rule]", "After four workers.")
    page.locator("main form button[type=submit]").first.click()
    open_tab(page, "Settings", "Recruitment")
    save(page, "Save recruitment", pilot_workers="1")
    open_tab(page, "Overview")
    expect(page.get_by_text("per hour is below the minimum of 6")).to_be_visible()
    open_study(page, "Open")


def open_study(page: Page, verb: str) -> None:
    page.get_by_text(f"{verb} the study …").click()
    page.get_by_role("button", name=f"{verb} the study").click()
    expect(page.get_by_text("The study is now open.")).to_be_visible()


def take_part(browser: Browser, link: str) -> None:
    """Section 5: one worker from Prolific's page to the completion code."""
    phone, completed = open_platform(browser.new_context(**PHONE), "app.prolific.com", link)
    phone.get_by_role("link", name="Open the study").click()
    consent(phone)
    answer(phone)
    answer(phone)
    phone.get_by_role("button", name="Finish now").click()
    phone.get_by_role("link", name="Back to the platform").click()
    expect(phone.get_by_role("link", name="Open the study")).to_be_visible()
    assert completed == [{"cc": [CODES["finished"]]}]
    assert (Worker.objects.get().outcome, Judgement.objects.count()) == ("finished", 2)


def test_the_guide_leads_from_an_empty_server_to_the_payment(
    served: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", PASSWORD)
    call_command("create_owner", "ada")
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    log_in(page, served)
    create_study(page)
    link = set_up_prolific(page)
    open_pilot(page)
    take_part(browser, link)

    # The pilot has ended, the plan is frozen, and the list to approve has the submission
    page.reload()
    expect(page.get_by_text("The pilot has ended.")).to_be_visible()
    open_tab(page, "Passport")
    expect(page.get_by_text(re.compile("[0-9a-f]{64}")).first).to_be_visible()
    open_tab(page, "Participants")
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("^Approve")).click()
    assert download.value.path().read_text(encoding="utf-8").split() == [IDS["SESSION_ID"]]
    open_tab(page, "Settings", "Recruitment")
    save(page, "Save recruitment", pilot_workers="0", reward="3.00")
    open_tab(page, "Overview")
    open_study(page, "Resume")
