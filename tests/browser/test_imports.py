"""Importing in the browser: the columns of a file are shown and changed, on a wide screen and on a phone."""

import os
from pathlib import Path

import pytest
from openpyxl import Workbook
from playwright.sync_api import Browser, Page, expect

from annotation.models import Project, User
from annotation.services import create_project
from modelling.updater.update import update_one
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.browser.test_end_to_end import log_in

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

ITEMS = "id,label,year\n1,Car,1886\n2,Bus,1895\n3,Pram,1733\n"
JUDGEMENTS = """study,judge,left,right,winner,time_taken,mood
nuisance,n70,1,2,2,3732,calm
nuisance,n71,2,3,2,2100,tired
violation,v1,1,2,1,900,calm
"""


def upload(page: Page, folder: Path, content: str) -> None:
    path = folder / "file.csv"
    path.write_text(content, encoding="utf-8")
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Upload and preview").click()


def check(page: Page, name: str) -> None:
    assert find_page_problems(page) == []
    assert find_keyboard_problems(page) == []
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/import-{name}.png", full_page=True)


@pytest.mark.parametrize("width", [1280, 390])
def test_columns_are_mapped_and_one_study_is_chosen(
    browser: Browser, served: str, owner: User, tmp_path: Path, width: int
) -> None:
    park = create_project(owner=owner, slug="park", title="Park", pairs=Project.Pairs.ANY)
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        log_in(page, served, owner.username)
        page.goto(f"{served}/projects/park/items/import/")
        check(page, f"upload-{width}")
        upload(page, tmp_path, ITEMS)
        page.get_by_label("year").select_option(label="Number for the model")
        page.get_by_role("button", name="Update the preview").click()
        check(page, f"items-{width}")
        page.get_by_role("button", name="Import items").click()
        expect(page.get_by_text("Items: 3 added")).to_be_visible()
        page.goto(f"{served}/projects/park/judgements/import/")
        upload(page, tmp_path, JUDGEMENTS.replace("left", "links"))
        expect(page.get_by_text("Columns are missing: “a”")).to_be_visible()
        check(page, f"missing-{width}")
        page.get_by_label("links").select_option(label="First item (key)")
        page.get_by_role("button", name="Update the preview").click()
        expect(page.get_by_text("The file has rows of several studies.")).to_be_visible()
        page.get_by_label("Rows to import").select_option("nuisance (2)")
        page.get_by_label("mood").select_option(label="Trait of the worker")
        page.get_by_role("button", name="Update the preview").click()
        check(page, f"judgements-{width}")
        page.get_by_role("button", name="Import judgements").click()
        expect(page.get_by_text("2 judgements added")).to_be_visible()
    assert {worker.traits["mood"] for worker in park.workers.all()} == {"calm", "tired"}
    assert sorted(park.items.values_list("features__year", flat=True)) == [1733.0, 1886.0, 1895.0]


LAYOUTS = {
    "winner-loser.csv": ["winner", "loser"],
    "comparative-judgement.xlsx": ["judge", "candidate_chosen", "candidate_not_chosen"],
    "evalica.csv": ["left", "right", "winner"],
    "windows.csv": ["Rater", "Item A", "Item B", "Choice", "Comment"],
}
OUTCOMES = [("1", "2"), ("2", "3"), ("1", "3"), ("3", "4"), ("1", "4")]  # winner and loser


def write_layout(folder: Path, name: str) -> Path:
    """The same five judgements in this layout: as a workbook, or as CSV in UTF-8 or Windows-1252."""
    header = LAYOUTS[name]
    cells = {
        "winner-loser.csv": [list(pair) for pair in OUTCOMES],
        "comparative-judgement.xlsx": [[f"j{n % 2}", *pair] for n, pair in enumerate(OUTCOMES)],
        "evalica.csv": [[loser, winner, "right"] for winner, loser in OUTCOMES],
        "windows.csv": [["müller", winner, loser, "a", "schöner"] for winner, loser in OUTCOMES],
    }[name]
    path = folder / name
    if path.suffix == ".xlsx":
        book = Workbook()
        for row in [header, *cells]:
            book.active.append(row)
        book.save(path)
    else:
        encoding, separator = ("cp1252", ";") if name == "windows.csv" else ("utf-8", ",")
        path.write_text("".join(f"{separator.join(row)}\r\n" for row in [header, *cells]), encoding=encoding)
    return path


def test_common_layouts_go_from_file_to_ranking_without_a_change(
    browser: Browser, served: str, owner: User, tmp_path: Path
) -> None:
    (tmp_path / "items.csv").write_text(
        "id,label,prompt\n1,Car,Wheels\n2,Bus,Wheels\n3,Pram,Wheels\n4,Raft,Wheels\n", encoding="utf-8"
    )
    page = browser.new_page()
    log_in(page, served, owner.username)
    for number, name in enumerate(LAYOUTS):
        study = f"{served}/projects/layout-{number}"
        create_project(owner=owner, slug=f"layout-{number}", title=name)
        for kind, path in (("items", tmp_path / "items.csv"), ("judgements", write_layout(tmp_path, name))):
            page.goto(f"{study}/{kind}/import/")
            page.locator("#file").set_input_files(path)
            page.get_by_role("button", name="Upload and preview").click()
            page.get_by_role("button", name=f"Import {kind}").click()
        expect(page.get_by_text("5 judgements added")).to_be_visible()
        assert update_one("test")
        page.goto(f"{study}/ranking/")
        shown = page.get_by_role("region", name="Ranking").locator("tbody .excerpt").all_inner_texts()
        assert (shown[0], shown[-1]) == ("Car", "Raft"), name
