"""The clients' own log of what they sent and what was acknowledged, compared with the rows of the database.

A line is `uuid,payload_hash,outcome`: `unknown` before each send, `ok` or `fail` after the response. Each line is on
the disk before the client continues. The rows are read with plain SQL, not with the code under test.
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
class LoggedSend:
    """The payload sent under one UUID, and its last known outcome."""

    payload: str
    outcome: str


@dataclass(frozen=True)
class StoredJudgement:
    """The fields of a stored judgement that its sender knows."""

    uuid: str
    assignment: str
    payload: str


@dataclass(frozen=True)
class Comparison:
    """Differences between the log and the database.

    The first four counts must be 0; a send with unknown outcome may be stored once or not at all.
    """

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
    """Hash an answer: assignment, choice (left, right, tie, skip) and skip reason."""
    payload = json.dumps([str(UUID(assignment)), choice, skip_reason])
    return hashlib.sha256(payload.encode()).hexdigest()[:32]


class SendLog:
    """An append-only file written by many threads; lines of several threads share one fsync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="ascii")
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._written = self._synced = 0

    def __enter__(self) -> "SendLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def append(self, uuid: str, payload: str, outcome: str) -> None:
        """Write one line and return when it is on the disk."""
        with self._writing:
            self._file.write(f"{uuid},{payload},{outcome}\n")
            self._file.flush()
            self._written += 1
            position = self._written
        with self._syncing:
            if self._synced < position:
                covered = self._written
                os.fsync(self._file.fileno())
                self._synced = covered


def read_log(path: Path) -> dict[str, LoggedSend]:
    """Return the last outcome of each UUID. `ok` is final, and an incomplete last line is ignored."""
    sends: dict[str, LoggedSend] = {}
    for line in path.read_text(encoding="ascii").splitlines(keepends=True):
        parts = line.rstrip("\n").split(",")
        if not line.endswith("\n") or len(parts) != 3:
            continue
        uuid, payload, outcome = parts
        known = sends.get(uuid)
        if known is None or known.outcome != OK:
            sends[uuid] = LoggedSend(payload, outcome)
    return sends


def compare(sends: dict[str, LoggedSend], rows: Iterable[StoredJudgement]) -> Comparison:
    """Count lost, duplicated, invented and mismatched judgements."""
    stored: dict[str, StoredJudgement] = {}
    answered: set[str] = set()
    duplicated = total = 0
    for row in rows:
        total += 1
        duplicated += row.uuid in stored or row.assignment in answered
        stored[row.uuid] = row
        answered.add(row.assignment)
    by_outcome = {name: {u for u, send in sends.items() if send.outcome == name} for name in (OK, FAIL, UNKNOWN)}
    present = stored.keys()
    return Comparison(
        lost=len(by_outcome[OK] - present),
        duplicated=duplicated,
        invented=len(present - sends.keys()) + len(present & by_outcome[FAIL]),
        mismatched=sum(sends[u].payload != row.payload for u, row in stored.items() if u in sends),
        unknown_present=len(by_outcome[UNKNOWN] & present),
        unknown_absent=len(by_outcome[UNKNOWN] - present),
        acknowledged=len(by_outcome[OK]),
        refused=len(by_outcome[FAIL]),
        rows=total,
    )


def compare_file(path: Path, rows: Iterable[StoredJudgement]) -> Comparison:
    """Compare a send log's file with the rows of the database."""
    return compare(read_log(path), rows)
