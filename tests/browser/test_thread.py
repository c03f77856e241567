"""The whole thread, as people see it: judge, watch the ranking change, take the file home."""

import csv
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from annotation.models import Judgement, Project, User
from modelling.updating import run_one
from tests.conftest import PASSWORD, make_items


def log_in(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/accounts/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/projects/")


def test_twenty_judgements_change_the_open_ranking_page_and_the_export_has_the_same_order(
    served: str, browser: Browser, project: Project, owner: User, tmp_path: Path
) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(6)], "birds")
    researcher = browser.new_page()
    log_in(researcher, served, owner.username)
    researcher.goto(f"{served}/projects/pets/ranking/")
    expect(researcher.get_by_text("There is no ranking yet")).to_be_visible()
    researcher.evaluate("window.neverReloaded = true")

    worker = browser.new_context().new_page()
    worker.clock.install()
    worker.goto(f"{served}/s/pets/")
    worker.get_by_label("I have read this").check()
    worker.get_by_role("button", name="Start").click()
    for done in range(20):
        expect(worker.locator("#count")).to_have_text(f"{done} / 40")
        expect(worker.locator("[data-choice=left]")).to_be_enabled()
        worker.clock.fast_forward(350)  # the page takes no answer in the first 300 ms of a pair
        worker.get_by_role("button", name="First" if done % 3 else "Second").click()
    expect(worker.locator("#count")).to_have_text("20 / 40")
    expect(worker.locator("#saved")).to_be_visible()
    assert Judgement.objects.count() == 20

    expect(researcher.get_by_text("20 judgements saved")).to_be_visible()
    assert run_one("test").number == 1
    expect(researcher.get_by_text("Version 1, from 20 judgements")).to_be_visible(timeout=5000)
    assert researcher.evaluate("window.neverReloaded"), "the page was reloaded"
    shown = researcher.locator("tbody tr td:nth-child(3) a").all_inner_texts()

    with researcher.expect_download() as download:
        researcher.get_by_role("link", name="Download as CSV").click()
    target = tmp_path / "ranking.csv"
    download.value.save_as(target)
    with target.open(encoding="utf-8", newline="") as file:
        exported = [row["key"] for row in csv.DictReader(file)]
    assert len(exported) == 13
    assert exported == shown
