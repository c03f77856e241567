"""Labels and sites of workers in the database: only those of visited workers are in memory.

A row of `WorkerPosterior` holds all labels of a worker, each with its site, as of the version with that number. A
version without its own row for a worker uses the last one before it. Rows of an update are written under the
number that its version will get, which no reader asks for before the version is published; what a killed update left
is deleted by the next one. Every write checks the lease, so that a process that lost it can no longer change rows.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from modelling.crowdgppl import ArrayStore, UserBatch
from modelling.models import ModelSnapshot, WorkerPosterior
from modelling.training.inputs import InputDelta
from modelling.training.storage.array_store import DamagedArrays

Ids = NDArray[np.int64]
Records = NDArray[np.void]  # of the type RECORD, one per label
Row = tuple[int, bytes]  # primary key of a worker, content

RECORD = np.dtype(
    [("sequence", "<i8"), ("lam", "<f8"), ("eta", "<f8"), ("a", "<i4"), ("b", "<i4"), ("answer", "i1")]
)  # a, b: positions of items in the version's arrays; answer: 2 y
ROWS_PER_QUERY = 500
BYTES_PER_WRITE = 500_000  # keeps the write lock short
CACHED_BYTES = 20_000_000  # of rows read, for each version in memory
LATEST = (
    "SELECT row.worker_id, row.content FROM modelling_workerposterior AS row JOIN (SELECT worker_id, MAX(number) AS"
    " number FROM modelling_workerposterior WHERE number <= %s AND worker_id IN ({}) GROUP BY worker_id) AS latest ON"
    " row.worker_id = latest.worker_id AND row.number = latest.number"
)
UPSERT = (
    "INSERT INTO modelling_workerposterior (project_id, number, worker_id, content) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (worker_id, number) DO UPDATE SET content = excluded.content"
)


# Rows ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UpdateRows:
    """The rows that one update writes. `fence` raises LeaseLost if another process has taken over."""

    project_id: int
    number: int  # of the version to be published
    fence: Callable[[], None] = field(default=lambda: None)

    def discard(self) -> None:
        """Delete what earlier attempts wrote."""
        left = WorkerPosterior.objects.filter(project=self.project_id, number__gte=self.number)
        while some := list(left.values_list("pk", flat=True)[:ROWS_PER_QUERY]):
            with transaction.atomic():
                self.fence()
                WorkerPosterior.objects.filter(pk__in=some).delete()

    def write(self, rows: Iterable[Row]) -> None:
        """Insert or replace rows, a few at a time."""
        waiting: list[Row] = []
        size = 0
        for row in rows:
            waiting.append(row)
            size += len(row[1])
            if size > BYTES_PER_WRITE or len(waiting) >= ROWS_PER_QUERY:
                self._write(waiting)
                waiting, size = [], 0
        if waiting:
            self._write(waiting)

    def _write(self, rows: list[Row]) -> None:
        with transaction.atomic():
            self.fence()
            with connection.cursor() as cursor:
                cursor.executemany(UPSERT, [(self.project_id, self.number, *row) for row in rows])


def read_rows(worker_ids: Sequence[int], number: int) -> dict[int, bytes]:
    """The content of each worker's row in a version, by the worker's primary key."""
    found: dict[int, bytes] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(worker_ids), ROWS_PER_QUERY):
            some = worker_ids[start : start + ROWS_PER_QUERY]
            cursor.execute(LATEST.format(", ".join(["%s"] * len(some))), [number, *some])
            found.update((worker, bytes(content)) for worker, content in cursor.fetchall())
    return found


def delete_unused_rows(project_id: int, pruned: Sequence[int] | None = None) -> int:
    """Delete rows that no version with arrays uses; return how many.

    Given the numbers of `pruned` versions, only workers whom a version near them visited are checked, so that the
    cost does not grow with the study; None checks all workers.
    """
    versions = ModelSnapshot.objects.filter(project=project_id)
    kept = np.array(sorted(versions.filter(pruned_at=None).values_list("number", flat=True)), dtype=np.int64)
    newest = max(versions.values_list("number", flat=True), default=0)
    rows = WorkerPosterior.objects.filter(project=project_id, number__lte=newest)
    if pruned is not None:
        visited: set[int] = set()
        for number in pruned:
            at = int(np.searchsorted(kept, number))
            first, last = int(kept[at - 1]) if at else 0, int(kept[at]) if at < len(kept) else newest
            near = rows.filter(number__gt=first, number__lte=last)
            visited.update(near.values_list("worker", flat=True))
        rows = rows.filter(worker__in=sorted(visited)) if len(visited) <= ROWS_PER_QUERY else rows
    places = np.array(list(rows.order_by("worker", "number").values_list("worker", "number", "pk")), dtype=np.int64)
    worker, written, pk = places.reshape(-1, 3).T
    next_written = np.append(written, 0)[1:]
    next_written[worker != np.append(worker, 0)[1:]] = newest + 1
    refits = sorted(versions.filter(kind=ModelSnapshot.Kind.REFIT).values_list("number", flat=True))
    next_refit = np.array([*refits, newest + 1])[np.searchsorted(refits, written, side="right")]
    next_written = np.minimum(next_written, next_refit)  # workers without labels have no row in a refit
    # A row is used if a kept version lies between it and the worker's next one.
    used = np.searchsorted(kept, written) < np.searchsorted(kept, next_written)
    unused = pk[~used].tolist()
    for start in range(0, len(unused), ROWS_PER_QUERY):
        WorkerPosterior.objects.filter(pk__in=unused[start : start + ROWS_PER_QUERY]).delete()
    return len(unused)


# The store ----------------------------------------------------------------------------------------------------------


class DatabaseStore:
    """The `LabelStore` of a version.

    Users are positions in `worker_ids`. The number of labels of each user and the digest of their row are arrays of
    the version. Changes made by an update stay in memory (`changed`) until they are written under the next version's
    number. If `rows` is given, as in the fit of a large study, sites are written immediately instead.
    """

    def __init__(self, worker_ids: Ids, counts: Ids, digests: Ids, number: int, rows: UpdateRows | None = None) -> None:
        self.worker_ids, self.counts, self.digests = worker_ids, counts, digests
        self.number, self.rows = number, rows
        self.changed: dict[int, bytes] = {}
        self._cache: dict[int, bytes] = {}

    @classmethod
    def empty(cls, worker_ids: Ids, rows: UpdateRows) -> "DatabaseStore":
        """A store without labels, which writes added labels at once."""
        none = np.zeros(len(worker_ids), dtype=np.int64)
        return cls(worker_ids, none, none.copy(), rows.number, rows)

    @classmethod
    def from_arrays(cls, worker_ids: Ids, store: ArrayStore, sequences: Ids) -> "DatabaseStore":
        """A store with the labels of an in-memory fit, all unwritten; `sequences` are in the order of `store`."""
        new = cls(worker_ids, np.diff(store.start), np.zeros(len(worker_ids), dtype=np.int64), 0)
        records = build_records(sequences, store.a, store.b, store.y)
        records["lam"], records["eta"] = store.lam, store.eta
        new.add(store.u, records)
        return new

    def add(self, u: Ids, records: Records) -> None:
        """Set all labels of some users; `u` is sorted."""
        users, start = np.unique(u, return_index=True)
        for user, part in zip(users.tolist(), np.split(records, start[1:]), strict=True):
            self.put(user, part.tobytes())
        self._write_through()

    @property
    def n_users(self) -> int:
        return len(self.counts)

    def active_users(self) -> Ids:
        """Return the users that have labels, sorted."""
        return np.flatnonzero(self.counts)

    def count_labels(self, users: Ids) -> Ids:
        """Return the number of labels of each of these users."""
        return np.asarray(self.counts[users])

    def load(self, users: Ids) -> UserBatch:
        """Read the labels and sites of these users; raise DamagedArrays if a row is missing or was altered."""
        records = self.records(users)
        start = np.concatenate(([0], np.cumsum(self.counts[users])))
        a, b = records["a"].astype(np.int64), records["b"].astype(np.int64)
        y, weight = 0.5 * records["answer"], np.ones(len(records))
        return UserBatch(np.asarray(users), start, a, b, y, weight, records["lam"].copy(), records["eta"].copy())

    def save_sites(self, batch: UserBatch) -> None:
        """Save the sites of these users."""
        records = self.records(batch.users).copy()
        records["lam"], records["eta"] = batch.lam, batch.eta
        for user, start, end in zip(batch.users.tolist(), batch.start[:-1], batch.start[1:], strict=True):
            if end > start:
                self.put(user, records[start:end].tobytes())
        self._write_through()

    def put(self, user: int, content: bytes) -> None:
        """Replace the labels of a user."""
        self.changed[user] = content
        self.counts[user] = len(content) // RECORD.itemsize
        self.digests[user] = digest(content)

    def records(self, users: Ids) -> Records:
        """All labels of these users, user by user."""
        return np.frombuffer(b"".join(self._contents(users)), dtype=RECORD)

    def _contents(self, users: Ids) -> Iterator[bytes]:
        known = self._cache | self.changed
        missing = [user for user in users.tolist() if self.counts[user] and user not in known]
        found = self._read(missing) if missing else {}
        for user in users.tolist():
            if self.counts[user]:
                yield known[user] if user in known else found[user]

    def _read(self, users: list[int]) -> dict[int, bytes]:
        """Read rows and check that they are those of the version."""
        rows = read_rows(self.worker_ids[users].tolist(), self.number)
        found = {user: rows.get(int(self.worker_ids[user]), b"") for user in users}
        for user, content in found.items():
            if digest(content) != self.digests[user]:
                raise DamagedArrays(f"labels of worker {self.worker_ids[user]} in version {self.number}")
        n_bytes = RECORD.itemsize * int(self.counts[[*self._cache, *found]].sum())
        self._cache = self._cache | found if n_bytes <= CACHED_BYTES else {}
        return found

    def apply(self, delta: InputDelta) -> None:
        """Add new workers and labels, and remove retracted labels."""
        n_new = len(delta.worker_ids) - self.n_users
        self.worker_ids = delta.worker_ids
        self.counts = np.append(self.counts, np.zeros(n_new, dtype=np.int64))
        self.digests = np.append(self.digests, np.zeros(n_new, dtype=np.int64))
        added, removed = delta.added, delta.removed
        new = build_records(delta.added_sequences, added.a, added.b, added.y)
        for user in np.union1d(added.u, removed.u).tolist():
            known = self.records(np.array([user]))
            gone = np.isin(known["sequence"], delta.removed_sequences[removed.u == user])
            self.put(user, known[~gone].tobytes() + new[added.u == user].tobytes())

    def unwritten_rows(self) -> Iterator[Row]:
        """The changed rows; a worker whose labels were all retracted has an empty one."""
        for user, content in self.changed.items():
            yield int(self.worker_ids[user]), content

    def written(self, number: int) -> None:
        """Record that all changes have been written to the rows of version `number`."""
        self.number, self.rows = number, None
        self.changed, self._cache = {}, {}

    def _write_through(self) -> None:
        if self.rows is not None:
            self.rows.write(self.unwritten_rows())
            self.changed, self._cache = {}, {}

    def find_damage(self) -> bool:
        """Whether a row is missing or was altered."""
        users = self.active_users()
        try:
            for start in range(0, len(users), ROWS_PER_QUERY):
                self.records(users[start : start + ROWS_PER_QUERY])
        except DamagedArrays:
            return True
        return False


class WithoutSites:
    """Another store's labels without their sites, which are recomputed at every visit."""

    def __init__(self, store: DatabaseStore) -> None:
        self.store, self.n_users = store, store.n_users
        self.active_users, self.count_labels = store.active_users, store.count_labels

    def load(self, users: Ids) -> UserBatch:
        """Read the labels of these users."""
        batch = self.store.load(users)
        batch.lam[:] = np.nan
        return batch

    def save_sites(self, batch: UserBatch) -> None:
        """Do nothing: sites are not stored."""


def build_records(sequences: Ids, a: Ids, b: Ids, y: NDArray[np.float64]) -> Records:
    """Build the records of labels without sites."""
    records = np.zeros(len(sequences), dtype=RECORD)
    records["sequence"], records["a"], records["b"] = sequences, a, b
    records["answer"], records["lam"] = np.rint(2.0 * y), np.nan
    return records


def digest(content: bytes) -> int:
    """A checksum of a row."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
