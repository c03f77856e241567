"""Compare the clients' send log with the database, and run a short kill drill. `make drill-kills` is the long form."""

import uuid
from pathlib import Path

import pytest

from benchmarks.load.database import as_shown
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import (
    FAIL,
    OK,
    UNKNOWN,
    LoggedSend,
    SendLog,
    StoredJudgement,
    compare,
    compare_file,
    payload_hash,
    read_log,
)
from tests.drills.scenarios.kills import drill

A, B, C = (str(uuid.UUID(int=n)) for n in (1, 2, 3))
LEFT_OK, LEFT_FAIL, LEFT_UNKNOWN = (LoggedSend("left", outcome) for outcome in (OK, FAIL, UNKNOWN))


def row(name: str, payload: str = "left", pair: str = "") -> StoredJudgement:
    return StoredJudgement(name, f"pair of {pair or name}", payload)


@pytest.mark.parametrize(
    ("sends", "rows", "damage"),
    [
        ({A: LEFT_OK}, [], "lost"),
        ({A: LEFT_OK}, [row(A), row(A)], "duplicated"),
        ({A: LEFT_OK, B: LEFT_OK}, [row(A), row(B, pair=A)], "duplicated"),
        ({}, [row(A)], "invented"),
        ({A: LEFT_FAIL}, [row(A)], "invented"),
        ({A: LoggedSend("right", OK)}, [row(A)], "mismatched"),
    ],
    ids=["lost", "one id twice", "one pair twice", "never sent", "refused", "another answer"],
)
def test_each_kind_of_damage_is_counted(sends: dict[str, LoggedSend], rows: list[StoredJudgement], damage: str) -> None:
    comparison = compare(sends, rows)
    assert comparison.as_dict()[damage] == 1
    assert not comparison.clean


def test_a_send_with_unknown_outcome_may_be_stored_or_not() -> None:
    comparison = compare({A: LEFT_OK, B: LEFT_UNKNOWN, C: LEFT_UNKNOWN}, [row(A), row(B)])
    assert comparison.clean
    assert (comparison.unknown_present, comparison.unknown_absent, comparison.acknowledged) == (1, 1, 1)


def test_the_last_outcome_counts_and_an_acknowledgement_is_final(tmp_path: Path) -> None:
    path = tmp_path / "sends.csv"
    with SendLog(path) as send_log:
        for name, outcome in [(A, UNKNOWN), (A, OK), (A, UNKNOWN), (B, UNKNOWN), (B, FAIL), (C, UNKNOWN)]:
            send_log.append(name, "left", outcome)
    with path.open("a") as file:
        file.write("half a li")
    assert read_log(path) == {A: LEFT_OK, B: LEFT_FAIL, C: LEFT_UNKNOWN}
    assert compare_file(path, [row(A)]).clean


def test_a_payload_hash_covers_pair_choice_and_skip_reason() -> None:
    hashed = payload_hash(A, "left")
    assert hashed == payload_hash(A.upper(), "left")
    assert len({hashed, payload_hash(B, "left"), payload_hash(A, "right"), payload_hash(A, "left", "other")}) == 4


@pytest.mark.parametrize(
    ("choice", "lo_was_left", "shown"),
    [("lo", True, "left"), ("lo", False, "right"), ("hi", True, "right"), ("hi", False, "left"), ("tie", True, "tie")],
)
def test_a_stored_choice_is_converted_to_the_side_that_was_shown(choice: str, lo_was_left: bool, shown: str) -> None:
    assert as_shown(choice, lo_was_left=lo_was_left) == shown


@pytest.mark.slow
@pytest.mark.both_databases
def test_no_acknowledged_answer_is_lost_when_the_server_is_killed_three_times(installation: Installation) -> None:
    figures = drill(installation, posts=1000, kills=3, clients=32, items=100, seed=1, updater=False)
    assert figures["passed"], figures
    assert (figures["lost"], figures["duplicated"], figures["invented"], figures["mismatched"]) == (0, 0, 0, 0)
    assert figures["acknowledged"] == figures["rows"] == 1000
    assert figures["most_workers_per_pair"] <= 3
