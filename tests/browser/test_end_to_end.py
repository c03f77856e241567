"""From judging to the exported ranking, in a browser."""

import csv
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from annotation.models import Judgement, Project, User
from modelling.updater.update import update_one
from tests.conftest import PASSWORD, make_items


def log_in(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/accounts/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/projects/")


def test_judgements_update_an_open_ranking_page_and_the_export_agrees(
    served: str, browser: Browser, project: Project, owner: User, tmp_path: Path
) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(6)], "birds")
    researcher = browser.new_page()
    log_in(researcher, served, owner.username)
    researcher.goto(f"{served}/projects/pets/ranking/")
    expect(researcher.get_by_text("No ranking yet")).to_be_visible()
    researcher.evaluate("window.neverReloaded = true")

    worker = browser.new_context().new_page()
    worker.clock.install()
    worker.goto(f"{served}/s/pets/")
    worker.get_by_role("button", name="Start").click()
    for done in range(20):
        expect(worker.locator("#count")).to_have_text(f"{done} / 24")
        expect(worker.locator("[data-choice=left]")).to_be_enabled()
        worker.clock.fast_forward(350)  # the page ignores clicks in the first 300 ms of a pair
        worker.get_by_role("button", name="First" if done % 3 else "Second").click()
    expect(worker.locator("#count")).to_have_text("20 / 24")
    expect(worker.locator("#saved")).to_be_visible()
    assert Judgement.objects.count() == 20

    expect(researcher.get_by_text("20 judgements saved")).to_be_visible()
    assert update_one("test").number == 1
    expect(researcher.get_by_text("Version 1, from 20 judgements")).to_be_visible()
    assert researcher.evaluate("window.neverReloaded"), "the page was reloaded"
    shown = researcher.locator("table").first.locator("tbody td > a").all_inner_texts()

    with researcher.expect_download() as download:
        researcher.get_by_role("link", name="Download as CSV").click()
    target = tmp_path / "ranking.csv"
    download.value.save_as(target)
    with target.open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (int(row["part"] or 99), int(row["rank"])))
    assert len(rows) == 13
    assert [row["key"] for row in rows] == shown  # the page lists the parts of the comparison graph one by one
