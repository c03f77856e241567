"""Importing items: file formats, problem messages, idempotence and the command."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation.importing.item_files import read_items
from annotation.importing.items import import_items, plan_items
from annotation.importing.problems import ImportFileError
from annotation.models import AuditEntry, EventHead, Item, Project
from tests.helpers.imports import pending_files, upload, write

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

GOOD = b"key,text,group\nk1,Cats purr.,cats\nk2,Dogs bark.,dogs\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def run_import(project: Project, folder: Path, content: bytes | str) -> dict[str, int]:
    return import_items(project=project, user=None, rows=read_items(write(folder, content))).counts


def failed_import(project: Project, folder: Path, content: bytes | str) -> ImportFileError:
    with pytest.raises(ImportFileError) as caught:
        run_import(project, folder, content)
    assert not project.items.exists()
    return caught.value


# File formats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "key,text\nk1,Ça va\nk2,naïve\n".encode(),
        "key,text\nk1,Ça va\nk2,naïve\n".encode("utf-8-sig"),
        "key,text\nk1,Ça va\nk2,naïve\n".encode("cp1252"),
        "key,text\nk1,Ça va\nk2,naïve\n".encode("utf-16"),
        b"\xfe\xff" + "key,text\nk1,Ça va\nk2,naïve\n".encode("utf-16-be"),
        "key\ttext\nk1\tÇa va\nk2\tnaïve\n".encode("utf-16"),
        "key,text\rk1,Ça va\rk2,naïve\r".encode(),
        "key,text\r\nk1,Ça va\r\n\r\nk2,naïve".encode(),
        "KEY;Text\nk1;Ça va\nk2;naïve\n;\n".encode(),
        '"key","text"\n" k1 ","Ça va"\n"k2","naïve"\n'.encode(),
    ],
    ids=[
        "utf-8",
        "bom",
        "windows-1252",
        "utf-16-le",
        "utf-16-be",
        "excel-unicode",
        "cr-only",
        "crlf",
        "semicolons",
        "quoted",
    ],
)
def test_encodings_and_line_ends_are_detected(empty: Project, tmp_path: Path, content: bytes) -> None:
    assert run_import(empty, tmp_path, content)["added"] == 2
    assert dict(empty.items.values_list("key", "text")) == {"k1": "Ça va", "k2": "naïve"}


def test_feature_columns_become_numbers_and_other_columns_metadata(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, "key,text,group,Author,Feature:length,feature: x\nk1,A,g,Ann,1.5,-2e1\nk2,B,,,+0,.5\n")
    first, second = empty.items.order_by("key")
    assert (first.group, first.metadata, first.features) == ("g", {"Author": "Ann"}, {"length": 1.5, "x": -20.0})
    assert (second.group, second.metadata, second.features) == ("", {"Author": ""}, {"length": 0.0, "x": 0.5})


@pytest.mark.parametrize(
    "text",
    ["<img src=x onerror=alert(1)>", "{{7*7}}", "javascript:alert(1)", "=HYPERLINK(1)", "+1", "\tx", "  spaced "],
)
def test_hostile_text_is_stored_and_shown_verbatim(empty: Project, olga: Client, tmp_path: Path, text: str) -> None:
    run_import(empty, tmp_path, f'key,text\nk1,"{text}"\nk2,B\n')
    item = empty.items.get(key="k1")
    assert item.text == text
    for address in ("/projects/empty/items/", f"/projects/empty/items/{item.pk}/"):
        page = olga.get(address).content.decode()
        assert "<img src=x" not in page
        assert text.strip().replace("<", "&lt;").replace(">", "&gt;") in page


def test_a_study_that_becomes_very_large_is_announced_before_the_import(
    empty: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_group = write(tmp_path, "key,text,group\nk1,Cats purr.,pets\nk2,Dogs bark.,pets\n")
    assert plan_items(empty, read_items(same_group)).warnings == []
    monkeypatch.setattr("annotation.importing.items.MOST_MODEL_ITEMS", 1)
    (warning,) = plan_items(empty, read_items(same_group)).warnings
    assert "The study will have 2 items. The model can fit at most 1; with more" in warning


def test_a_file_with_texts_only_gets_keys_that_stay_the_same(empty: Project, tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("argument\nCats purr at night.\n!?\n猫は静か。\n", encoding="utf-8")
    rows = read_items(path)
    assert [re.sub("[0-9a-f]{6}$", "#", row.key) for row in rows] == ["cats-purr-at-#", "#", "猫は静か-#"]
    import_items(project=empty, user=None, rows=rows)
    assert not plan_items(empty, read_items(path)).changes_anything
    path.write_text("argument\nCats purr.\nCats purr.\n", encoding="utf-8")
    with pytest.raises(ImportFileError, match="already used"):
        read_items(path)


def test_a_text_of_maximum_length_is_accepted(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, f"key,text\nk1,{'x' * 20_000}\nk2,B\n")
    assert len(empty.items.get(key="k1").text) == 20_000


# Problems ----------------------------------------------------------------------------------------------------

INVALID_FILES = {
    "empty": (b"", "At least 2 items are needed.", None),
    "blank": (b"\n\n  \n", "At least 2 items are needed.", None),
    "only a mark": (b"\xef\xbb\xbf", "At least 2 items are needed.", None),
    "header only": (b"key,text,group\n", "At least 2 items are needed.", None),
    "one item": (b"key,text\nk1,A\n", "At least 2 items are needed.", None),
    "damaged utf-8": ("key,text\nk1,Ça va né\nk2,caf".encode() + b"\xe9\n", "UTF-8", (3, "")),
    "damaged utf-8 after CR": ("key,text\rk1,Ça va né\rk2,caf".encode() + b"\xe9\r", "UTF-8", (3, "")),
    "neither utf-8 nor windows-1252": (b"key,text\nk1,A\nk2,\x81\x8d\n", "UTF-8", (3, "")),
    "half of utf-16": ("key,text\nk1,A\nk2,B\n".encode("utf-16")[:-1], "UTF-16", (3, "")),
    "utf-16 without mark": ("key,text\nk1,A\n".encode("utf-16-le"), "NUL", (1, "")),
    "utf-32": ("key,text\nk1,A\n".encode("utf-32"), "UTF-32", None),
    "NUL": (b"key,text\nk1,A\nk2,B\0B\n", "NUL", (3, "")),
    "unclosed quote": (b'key,text\nk1,A\nk2,"B\nk3,C\n', "quotation mark", (3, "")),
    "quote inside": (b'key,text\nk1,"A" B\nk2,C\n', "quotation mark", (2, "")),
    "too many columns": (b"key,text\nk1,A\nk2,B,C\n", "3 columns", (3, "")),
    "too few columns": (b"key,text,group\nk1,A,g\nk2,B\n", "2 columns", (3, "")),
    "200 kB cell": (b"key,text\nk1,A\nk2," + b"x" * 200_000 + b"\n", "20,000", (3, "text")),
    "2 MB cell": (b"key,text\nk1,A\nk2," + b"x" * 2_100_000 + b"\n", "2,000,000", (3, "")),
    "endless quote": (b'key,text\nk1,A\nk2,"' + b"x,y\n" * 300_000, "1,000,000", (3, "")),
    "long group": (b"key,text,group\nk1,A,g\nk2,B," + b"g" * 201 + b"\n", "200", (3, "group")),
    "long key": (b"key,text\nk1,A\n" + b"k" * 201 + b",B\n", "200", (3, "key")),
    "empty text": (b"key,text\nk1,A\nk2,  \n", "empty", (3, "text")),
    "empty key": (b"key,text\nk1,A\n ,B\n", "empty", (3, "key")),
    "invisible key": ("key,text\nk1,A\nk\u202e2,B\n".encode(), "Invisible", (3, "key")),
    "no key": (b"colour,text\n1,A\n2,B\n", "is missing", (1, "key")),
    "neither key nor text": (b"colour,size\n1,A\n2,B\n", "Columns are missing: “key”, “text”", (1, "text")),
    "no text": (b"key,message\n1,A\n2,B\n", "is missing", (1, "text")),
    "two columns of one name": (b"key,text,Text\n1,A,B\n2,B,C\n", "Two columns", (1, "Text")),
    "nameless column": (b"key,text,\n1,A,B\n2,B,C\n", "no name", (1, "3")),
    "nameless feature": (b"key,text,feature:\n1,A,1\n2,B,2\n", "feature", None),
    "1,001 columns": (b"key,text," + b",".join(b"c%d" % n for n in range(1000)) + b"\n", "1,000 columns", None),
    "nan": (b"key,text,feature:x\nk1,A,1\nk2,B,nan\n", "finite", (3, "feature:x")),
    "inf": (b"key,text,feature:x\nk1,A,1\nk2,B,-inf\n", "finite", (3, "feature:x")),
    "overflow": (b"key,text,feature:x\nk1,A,1\nk2,B,1e999\n", "finite", (3, "feature:x")),
    "decimal comma": (b'key,text,feature:x\nk1,A,1\nk2,B,"1,5"\n', "decimal point", (3, "feature:x")),
    "blank feature": (b"key,text,feature:x\nk1,A,1\nk2,B,\n", "empty", (3, "feature:x")),
    "digits of another script": ("key,text,feature:x\nk1,A,1\nk2,B,١\n".encode(), "finite", (3, "feature:x")),
    "duplicate key": (b"key,text\nk1,A\nk2,B\nk1,C\n", "line 2", (4, "key")),
    "key but for case": (b"key,text\nk1,A\nk2,B\nK1,C\n", "too similar", (4, "key")),
    "key but for space": (b"key,text\nk 1,A\nk2,B\nk1,C\n", "too similar", (4, "key")),
    "key but for Unicode form": ("key,text\ncafé,A\nk2,B\ncafe\u0301,C\n".encode(), "too similar", (4, "key")),
    "full-width key": ("key,text\nk1,A\nk2,B\nｋ１,C\n".encode(), "too similar", (4, "key")),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_problems_are_reported_with_line_and_column(empty: Project, olga: Client, tmp_path: Path, name: str) -> None:
    content, message, place = INVALID_FILES[name]
    error = failed_import(empty, tmp_path, content)
    assert message in error.format_text()
    if place is not None:
        assert place in [(problem.line, problem.column) for problem in error.problems]
    response = upload(olga, empty, "items", content)
    assert response.status_code == 422
    page = response.content.decode()
    assert "Nothing was imported" in page
    assert bool(pending_files()) == ('name="ticket"' in page)  # kept while its columns can be changed


def test_each_kind_of_problem_is_listed_once_with_its_count(empty: Project, tmp_path: Path) -> None:
    rows = "".join(f"k{n},{'A' if n % 2 else ''},{'nan' if n % 3 else 'inf'}\n" for n in range(50))
    error = failed_import(empty, tmp_path, "key,text,feature:x\n" + rows)
    assert [(problem.line, problem.column, problem.count) for problem in error.problems] == [
        (2, "feature:x", 50), (2, "text", 25),
    ]  # fmt: skip
    assert error.problems[0].message == "Not finite numbers: “inf”, “nan”."
    assert "75 problems" in error.format_text()


def test_at_most_twenty_kinds_of_problems_are_listed(empty: Project, tmp_path: Path) -> None:
    names = [f"feature:{n}" for n in range(30)]
    error = failed_import(empty, tmp_path, f"key,text,{','.join(names)}\nk1,A{',' * 30}\nk2,B{',' * 30}\n")
    assert (len(error.problems), error.n_hidden) == (20, 10)


def test_line_numbers_include_line_breaks_inside_cells(empty: Project, tmp_path: Path) -> None:
    error = failed_import(empty, tmp_path, 'key,text\nk1,"one\ntwo\nthree"\nk2,\n')
    assert error.problems[0].line == 5


# Atomicity and idempotence --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_items_are_imported_completely_or_not_at_all(empty: Project, tmp_path: Path) -> None:
    rows = [f"k{n},Argument {n},g{n % 7}" for n in range(10_000)]
    bad = rows.copy()
    bad[9_997] = "k9997,,g"
    error = failed_import(empty, tmp_path, "key,text,group\n" + "\n".join(bad))
    assert [(p.line, p.column) for p in error.problems] == [(9_999, "text")]
    good = "key,text,group\n" + "\n".join(rows)
    assert run_import(empty, tmp_path, good)["added"] == 10_000
    assert run_import(empty, tmp_path, good) == {"added": 0, "corrected": 0, "updated": 0, "unchanged": 10_000}
    assert empty.items.count() == 10_000


def test_importing_the_same_file_again_changes_nothing(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, GOOD)
    before = (EventHead.objects.get(project=empty).inputs_revision, AuditEntry.objects.count())
    assert run_import(empty, tmp_path, GOOD)["unchanged"] == 2
    assert (EventHead.objects.get(project=empty).inputs_revision, AuditEntry.objects.count()) == before


def test_a_different_text_for_a_known_key_is_a_correction(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, GOOD)
    counts = run_import(empty, tmp_path, GOOD.replace(b"Cats purr.", b"Cats purr a lot."))
    assert counts == {"added": 0, "corrected": 1, "updated": 0, "unchanged": 1}
    history = empty.items.revisions("k1").values_list("revision", "text", "active")
    assert list(history) == [(2, "Cats purr a lot.", True), (1, "Cats purr.", False)]
    assert EventHead.objects.get(project=empty).inputs_revision == 2


def test_a_correction_keeps_an_inactive_item_inactive(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, GOOD)
    empty.items.filter(key="k1").update(active=False)
    run_import(empty, tmp_path, GOOD.replace(b"purr", b"meow"))
    assert not empty.items.get(key="k1", revision=2).active


def test_changed_details_do_not_create_a_revision(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, "key,text,group,author\nk1,A,g,Ann\nk2,B,g,Bob\n")
    counts = run_import(empty, tmp_path, "key,text,feature:x,source\nk1,A,1.5,web\nk2,B,2,web\n")
    assert counts == {"added": 0, "corrected": 0, "updated": 2, "unchanged": 0}
    item = empty.items.get(key="k1")
    assert (item.revision, item.group, item.features) == (1, "g", {"x": 1.5})
    assert item.metadata == {"author": "Ann", "source": "web"}


def test_a_key_similar_to_an_existing_key_is_rejected(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, GOOD)
    with pytest.raises(ImportFileError, match="too similar: “K1” and the existing key “k1”"):
        run_import(empty, tmp_path, "key,text\nK1,Other\n")
    assert empty.items.count() == 2


def test_a_single_item_can_be_added_to_existing_items(empty: Project, tmp_path: Path) -> None:
    run_import(empty, tmp_path, GOOD)
    assert run_import(empty, tmp_path, "key,text\nk3,C\n")["added"] == 1


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_of_one_file_add_its_items_once(empty: Project, tmp_path: Path) -> None:
    rows = read_items(write(tmp_path, GOOD))

    def import_rows(_: int) -> int:
        try:
            return import_items(project=empty, user=None, rows=rows).counts["added"]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(import_rows, range(4))) == [0, 0, 0, 2]


# Command ------------------------------------------------------------------------------------------------


def test_the_command_reads_a_ukpconvarg_folder(empty: Project, ukpconvarg_folder: Path, capsys) -> None:
    call_command("import_items", "empty", str(ukpconvarg_folder))
    assert "6 added" in capsys.readouterr().out
    item = empty.items.get(key="arg1")
    assert (item.group, item.text) == ("Water: Yes", "Text 1,\nsecond line")
    assert item.metadata == {"fold": "1", "topic": "Water", "stance": "Yes", "source_site": "site"}


def test_command_errors_have_a_message_and_an_exit_code(empty: Project, tmp_path: Path) -> None:
    for slug, place, message, code in [
        ("nowhere", tmp_path, "no project", 2),
        ("empty", tmp_path, "There is no file", 2),
        ("empty", write(tmp_path, "key,text\nk1,A\nk2,\n"), "Line 3, column “text”: This cell is empty.", 1),
    ]:
        with pytest.raises(CommandError, match=message) as caught:
            call_command("import_items", slug, str(place))
        assert caught.value.returncode == code
        assert "Nothing was" in str(caught.value)
        assert not empty.items.exists()


def test_planning_takes_one_query(empty: Project, tmp_path: Path, django_assert_num_queries) -> None:
    rows = read_items(write(tmp_path, GOOD))
    with django_assert_num_queries(1):
        plan_items(empty, rows)
    assert not Item.objects.filter(project=empty).exists()
