"""Excel workbooks: cells become text as in a CSV file, and hostile archives are refused."""

import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from annotation.importing.columns import read_sample
from annotation.importing.item_files import read_items
from annotation.importing.judgement_files import read_judgements
from annotation.importing.problems import FileTooLarge, ImportFileError

BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheets>&b;</sheets></workbook>"""


def save(folder: Path, *sheets: list[list[Any]]) -> Path:
    workbook = Workbook()
    workbook.remove(workbook.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = workbook.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    path = folder / "a stored upload has no ending"
    workbook.save(path)
    return path


def replace_part(path: Path, name: str, content: bytes) -> Path:
    source = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        for part in source.namelist():
            written.writestr(part, content if part == name else source.read(part))
    return path


def test_judgements_are_read_from_a_workbook(tmp_path: Path) -> None:
    at = datetime(2026, 3, 1, 14, 30)  # noqa: DTZ001
    rows = [["worker", "left", "right", "winner", "timestamp", "response_ms"], ["ann", 15, 25.0, 25, at, 3732.4]]
    (row,) = read_judgements(save(tmp_path, rows))
    assert (row.worker, row.a, row.b, row.choice) == ("ann", "15", "25", "b")
    assert (row.judged_at, row.response_ms) == (at.replace(tzinfo=UTC), 3732)


def test_blank_rows_and_cells_are_read_as_in_a_csv_file(tmp_path: Path) -> None:
    rows = [[None], ["key", "text", "group", None], ["k1", "A", None], [], ["k2", "B", "g"], [None, None]]
    path = save(tmp_path, rows)
    assert [(item.line, item.key, item.group) for item in read_items(path)] == [(3, "k1", ""), (5, "k2", "g")]


def test_a_cell_beyond_the_header_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ImportFileError, match="Line 2: This line has 4 columns, the header has 2"):
        read_items(save(tmp_path, [["key", "text"], ["k1", "A", None, "stray"], ["k2", "B"]]))


def test_notes_name_the_worksheet_that_was_read(tmp_path: Path) -> None:
    table = [["key", "text"], ["k1", "A"]]
    assert read_sample(save(tmp_path, table)).notes == ["The Excel worksheet “Sheet 1” was read."]
    assert read_sample(save(tmp_path, table, table)).notes == [
        "Only the first of 2 Excel worksheets, “Sheet 1”, was read."
    ]


def test_a_workbook_that_is_large_when_unpacked_is_refused(tmp_path: Path, settings) -> None:
    settings.IMPORT_MAX_BYTES = 100_000
    path = replace_part(save(tmp_path, [["key", "text"]]), "docProps/core.xml", b"<x>" + b" " * 1_000_000 + b"</x>")
    assert path.stat().st_size < 20_000
    with pytest.raises(FileTooLarge, match="unpacked"):
        read_items(path)


def test_entities_of_a_workbook_are_not_expanded(tmp_path: Path) -> None:
    path = replace_part(save(tmp_path, [["key", "text"]]), "xl/workbook.xml", BOMB.encode())
    with pytest.raises(ImportFileError, match="damaged or protected"):
        read_items(path)


def test_a_far_away_cell_does_not_fill_the_memory(tmp_path: Path, settings) -> None:
    settings.IMPORT_MAX_ROWS = 10
    path = save(tmp_path, [["key", "text"], ["k1", "A"]])
    sheet = zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml")
    far = sheet.replace(b'<row r="2"', b'<row r="999999999"')
    with pytest.raises(FileTooLarge, match="rows"):
        read_items(replace_part(path, "xl/worksheets/sheet1.xml", far))
