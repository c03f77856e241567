"""The books themselves are checked first; then a short kill -9 drill. `make drill-ledger` is the long form."""

import uuid
from pathlib import Path

import pytest

from tests.drills.database import as_shown
from tests.drills.install import Install
from tests.drills.kills import drill
from tests.drills.ledger import FAIL, OK, UNKNOWN, Entry, Ledger, Row, check, compare, payload_hash, read

A, B, C = (str(uuid.UUID(int=n)) for n in (1, 2, 3))


def row(name: str, payload: str = "left") -> Row:
    return Row(name, f"pair of {name}", payload)


@pytest.mark.parametrize(
    ("entries", "rows", "figure"),
    [
        ({A: Entry("left", OK)}, [], "lost"),
        ({A: Entry("left", OK)}, [row(A), row(A)], "duplicated"),
        ({A: Entry("left", OK), B: Entry("left", OK)}, [row(A), Row(B, f"pair of {A}", "left")], "duplicated"),
        ({}, [row(A)], "invented"),
        ({A: Entry("left", FAIL)}, [row(A)], "invented"),
        ({A: Entry("right", OK)}, [row(A)], "mismatched"),
    ],
    ids=["lost", "one id twice", "one pair twice", "nobody sent it", "it was refused", "another answer"],
)
def test_each_kind_of_damage_is_counted(entries: dict[str, Entry], rows: list[Row], figure: str) -> None:
    figures = compare(entries, rows)
    assert figures.as_dict()[figure] == 1
    assert not figures.clean


def test_an_unknown_may_be_there_or_not() -> None:
    entries = {A: Entry("left", OK), B: Entry("left", UNKNOWN), C: Entry("left", UNKNOWN)}
    figures = compare(entries, [row(A), row(B)])
    assert figures.clean
    assert (figures.unknown_present, figures.unknown_absent, figures.acknowledged) == (1, 1, 1)


def test_the_last_word_counts_and_an_acknowledgement_is_the_last(tmp_path: Path) -> None:
    book = tmp_path / "ledger.csv"
    with Ledger(book) as ledger:
        for name, outcome in [(A, UNKNOWN), (A, OK), (A, UNKNOWN), (B, UNKNOWN), (B, FAIL), (C, UNKNOWN)]:
            ledger.append(name, "left", outcome)
    with book.open("a") as file:
        file.write("half a li")
    assert read(book) == {A: Entry("left", OK), B: Entry("left", FAIL), C: Entry("left", UNKNOWN)}
    assert check(book, [row(A)]).clean


def test_a_payload_is_the_pair_the_choice_and_the_reason() -> None:
    said = payload_hash(A, "left")
    assert said == payload_hash(A.upper(), "left")
    assert len({said, payload_hash(B, "left"), payload_hash(A, "right"), payload_hash(A, "left", "other")}) == 4


@pytest.mark.parametrize(
    ("choice", "lo_was_left", "shown"),
    [("lo", True, "left"), ("lo", False, "right"), ("hi", True, "right"), ("hi", False, "left"), ("tie", True, "tie")],
)
def test_a_row_is_read_as_its_sender_saw_it(choice: str, lo_was_left: bool, shown: str) -> None:
    assert as_shown(choice, lo_was_left=lo_was_left) == shown


@pytest.mark.slow
@pytest.mark.database
def test_nothing_acknowledged_is_lost_when_the_server_is_killed_three_times(install: Install) -> None:
    """P1, D1, D2 in short: 1,000 posts of 32 clients."""
    figures = drill(install, posts=1000, kills=3, clients=32, items=100, seed=1, updater=False)
    assert figures["passed"], figures
    assert (figures["lost"], figures["duplicated"], figures["invented"], figures["mismatched"]) == (0, 0, 0, 0)
    assert figures["acknowledged"] == figures["rows"] == 1000
    assert figures["most_workers_of_a_pair"] <= 3
