"""The clients' own book of what they sent and were told, and its comparison with the rows of the database.

A line is `uuid,payload_hash,outcome`. Before each send the outcome is written as `unknown`; after the answer as `ok` or
`fail`. Each line is on the disk before the client goes on. The rows are read by plain SQL, not by the code under test.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from uuid import UUID

OK, FAIL, UNKNOWN = "ok", "fail", "unknown"


@dataclass(frozen=True)
class Entry:
    """What is known about one UUID: the payload that was sent, and how the last word on it was."""

    payload: str
    outcome: str


@dataclass(frozen=True)
class Row:
    """A stored judgement as far as its sender can know it."""

    uuid: str
    assignment: str
    payload: str


@dataclass(frozen=True)
class Figures:
    """How book and database differ. The first four must be 0; an unknown may be present once or absent."""

    lost: int
    duplicated: int
    invented: int
    mismatched: int
    unknown_present: int
    unknown_absent: int
    acknowledged: int
    refused: int
    rows: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.invented or self.mismatched)

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def payload_hash(assignment: str, choice: str, skip_reason: str = "") -> str:
    """The fingerprint of an answer: which pair, what was chosen (left, right, tie, skip), and why it was skipped."""
    said = json.dumps([str(UUID(assignment)), choice, skip_reason])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


class Ledger:
    """An append-only file that many threads write; lines of several threads share one fsync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="ascii")
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._written = self._synced = 0

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def append(self, uuid: str, payload: str, outcome: str) -> None:
        """The line is on the disk."""
        with self._writing:
            self._file.write(f"{uuid},{payload},{outcome}\n")
            self._file.flush()
            self._written += 1
            mine = self._written
        with self._syncing:
            if self._synced < mine:
                covered = self._written
                os.fsync(self._file.fileno())
                self._synced = covered


def read(path: Path) -> dict[str, Entry]:
    """The last word on each UUID. An acknowledgement is never outdone by what came later; half a line is no line."""
    entries: dict[str, Entry] = {}
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        parts = line.rstrip("\n").split(",")
        if not line.endswith("\n") or len(parts) != 3:
            continue
        uuid, payload, outcome = parts
        known = entries.get(uuid)
        if known is None or known.outcome != OK:
            entries[uuid] = Entry(payload, outcome)
    return entries


def compare(entries: dict[str, Entry], rows: Iterable[Row]) -> Figures:
    """Every `ok` stands once with its payload, no `fail` stands, an `unknown` at most once, nothing else."""
    stored: dict[str, Row] = {}
    answered: set[str] = set()
    duplicated = total = 0
    for row in rows:
        total += 1
        duplicated += row.uuid in stored or row.assignment in answered
        stored[row.uuid] = row
        answered.add(row.assignment)
    by_outcome = {name: {u for u, entry in entries.items() if entry.outcome == name} for name in (OK, FAIL, UNKNOWN)}
    present = stored.keys()
    return Figures(
        lost=len(by_outcome[OK] - present),
        duplicated=duplicated,
        invented=len(present - entries.keys()) + len(present & by_outcome[FAIL]),
        mismatched=sum(entries[u].payload != row.payload for u, row in stored.items() if u in entries),
        unknown_present=len(by_outcome[UNKNOWN] & present),
        unknown_absent=len(by_outcome[UNKNOWN] - present),
        acknowledged=len(by_outcome[OK]),
        refused=len(by_outcome[FAIL]),
        rows=total,
    )


def check(ledger_file: Path, rows: Iterable[Row]) -> Figures:
    """The ledger's file against the rows of the database."""
    return compare(read(ledger_file), rows)
