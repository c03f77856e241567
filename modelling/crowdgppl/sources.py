"""Labels as a source of mini-batches: some users at a time with all their labels, from arrays, files or pages.

A source has its labels in order of users. It keeps one number for each user, where their labels begin, and reads the
rest when it is asked; everything it reads is checked again, since files and tables can change under a long fit.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .labels import PairwiseLabels

Column = npt.NDArray[Any]

COLUMNS = {"u": np.int64, "a": np.int32, "b": np.int32, "y": np.float64, "weight": np.float64}
CHUNK_LABELS = 2**18  # labels looked at together while a source is indexed
RUN_USERS = 20  # neighbours who are read together: a batch is some such runs, so a file is read in few places
MOST_USERS = 2**31
NOTHING = np.zeros(0, dtype=np.int64)
CHANGED = "The labels changed while they were read ({}). Nothing was learned; start the fit again."


class LabelSource(Protocol):
    """What a fit in mini-batches asks of labels that it does not hold."""

    @property
    def n_items(self) -> int:
        """One more than the largest item index."""

    @property
    def n_users(self) -> int:
        """One more than the largest user index."""

    @property
    def n_present(self) -> int:
        """How many users have labels."""

    def __len__(self) -> int:
        """How many labels there are."""

    def user_batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """The users with labels, each once, in random batches of about this size; each batch sorted."""

    def of_users(self, users: IntArray) -> PairwiseLabels:
        """All labels of these users (sorted, each once), in order of users."""


@dataclass(frozen=True, eq=False)
class Index:
    """Where the labels of each user begin, and how many items they speak of."""

    start: IntArray  # (U + 1,)
    n_items: int

    @classmethod
    def of(cls, chunks: Iterable[PairwiseLabels]) -> Index:
        """The index of labels that come in order of users."""
        users, counts, last, n_items = [], [], -1, 0
        for labels in chunks:
            if not len(labels):
                continue
            if labels.u[0] < last or (np.diff(labels.u) < 0).any():
                raise ValueError("The labels of a source must be in order of users (u must never fall).")
            found, count = np.unique(labels.u, return_counts=True)
            users.append(found)
            counts.append(count)
            last, n_items = int(found[-1]), max(n_items, labels.n_items)
        if last >= MOST_USERS:
            raise ValueError(f"u holds the index {last}; a source can number at most {MOST_USERS} users.")
        start = np.zeros(last + 2, dtype=np.int64)
        for found, count in zip(users, counts, strict=True):
            start[found + 1] += count  # a user at the end of one chunk may go on in the next
        return cls(np.cumsum(start, out=start), n_items)

    @property
    def n_users(self) -> int:
        return len(self.start) - 1

    @cached_property
    def n_present(self) -> int:
        return int(np.count_nonzero(self.start[1:] > self.start[:-1]))

    @property
    def present(self) -> IntArray:
        """The users with labels."""
        return np.flatnonzero(self.start[1:] > self.start[:-1])

    def counts(self, users: IntArray) -> IntArray:
        """How many labels each of these users has; none where the index does not know them."""
        known = np.minimum(users, self.n_users - 1)
        return np.where(users < self.n_users, self.start[known + 1] - self.start[known], 0)

    def checked(self, labels: PairwiseLabels, users: IntArray) -> PairwiseLabels:
        """These labels, if they are those that the index promised for these users."""
        counts = self.counts(users)
        if len(labels) != counts.sum() or (labels.u != np.repeat(users, counts)).any():
            raise ValueError(CHANGED.format("users have other labels than before"))
        if labels.n_items > self.n_items:
            raise ValueError(CHANGED.format(f"there is an item {labels.n_items - 1} now"))
        return labels


def batches_of_runs(
    users: IntArray, batch_size: int, rng: np.random.Generator, run: int = RUN_USERS
) -> Iterator[IntArray]:
    """Runs of neighbouring users, dealt at random into batches of about this size."""
    run = min(run, batch_size)
    order = rng.permutation(-(-len(users) // run))
    for batch in np.array_split(order, max(1, round(len(users) / batch_size))):
        yield np.concatenate([users[i * run : (i + 1) * run] for i in np.sort(batch)])


class RowsInOrder:
    """A source whose labels are rows in order of users; what is below says how some of the rows are read."""

    index: Index

    @property
    def n_items(self) -> int:
        return self.index.n_items

    @property
    def n_users(self) -> int:
        return self.index.n_users

    @property
    def n_present(self) -> int:
        return self.index.n_present

    def __len__(self) -> int:
        return int(self.index.start[-1])

    def user_batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Random runs of neighbours."""
        yield from batches_of_runs(self.index.present, batch_size, rng)

    def of_users(self, users: IntArray) -> PairwiseLabels:
        """The labels of these users, read in as few pieces as they lie in."""
        users = users[self.index.counts(users) > 0]
        begin, end = self.index.start[users], self.index.start[users + 1]
        first = np.append(True, begin[1:] != end[:-1])[: len(users)]  # of each piece
        last = np.append(first[1:], True)[: len(users)]
        pieces = [self.read(int(i), int(j)) for i, j in zip(begin[first], end[last], strict=True)]
        columns = (np.concatenate([piece[name] for piece in pieces] or [NOTHING]) for name in COLUMNS)
        return self.index.checked(PairwiseLabels(*columns), users)

    def read(self, begin: int, end: int) -> dict[str, Column]:
        """The columns of the rows from `begin` up to, not including, `end`."""
        raise NotImplementedError


class SortedLabels(RowsInOrder):
    """Arrays in order of users, in memory or memory-mapped: only what a batch needs is brought in.

    A mapped file must not change while it is read: its size and its time of change are looked at before each batch.
    """

    def __init__(self, u: Column, a: Column, b: Column, y: Column, weight: Column | None = None) -> None:
        columns = {"u": u, "a": a, "b": b, "y": y, "weight": weight}
        self.columns = {name: column for name, column in columns.items() if column is not None}
        if len({len(column) for column in self.columns.values()}) != 1:
            raise ValueError("u, a, b, y and weight must have the same length.")
        self.marks = self._marks()
        self.index = Index.of(self._chunks())

    @classmethod
    def of(cls, labels: PairwiseLabels) -> SortedLabels:
        """Labels in any order, sorted by user."""
        order = np.argsort(labels.u, kind="stable")
        return cls(*(values[order] for values in (labels.u, labels.a, labels.b, labels.y, labels.weights)))

    @classmethod
    def open(cls, folder: Path) -> SortedLabels:
        """The labels that `write_labels` wrote to a folder, memory-mapped."""
        return cls(**{name: mapped(folder / f"{name}.npy") for name in COLUMNS})

    def _chunks(self) -> Iterator[PairwiseLabels]:
        for begin in range(0, len(self.columns["u"]), CHUNK_LABELS):
            yield PairwiseLabels(**self.read(begin, min(begin + CHUNK_LABELS, len(self.columns["u"]))))
            self.release()

    def of_users(self, users: IntArray) -> PairwiseLabels:
        """The labels of these users, copied; mapped pages are given back."""
        self.look()
        labels = super().of_users(users)
        self.release()
        return labels

    def read(self, begin: int, end: int) -> dict[str, Column]:
        """Slices of the arrays."""
        return {name: self.columns[name][begin:end] for name in self.columns} | (
            {} if "weight" in self.columns else {"weight": np.ones(end - begin)}
        )

    def look(self) -> None:
        """ValueError where a mapped file is no longer what it was: reading beyond its end would end the process."""
        if self._marks() != self.marks:
            raise ValueError(CHANGED.format("a file has been written to"))

    def _marks(self) -> list[tuple[int, int]]:
        stats = [os.stat(column.filename) for column in self._mapped() if column.filename]
        return [(found.st_size, found.st_mtime_ns) for found in stats]

    def _mapped(self) -> list[np.memmap[Any, Any]]:
        return [column for column in self.columns.values() if isinstance(column, np.memmap)]

    def release(self) -> None:
        """Pages that were mapped count as this process's memory until they are given back; the system keeps a copy."""
        for column in self._mapped():
            pages = column.base
            if isinstance(pages, mmap.mmap) and hasattr(pages, "madvise"):
                pages.madvise(mmap.MADV_DONTNEED)


def mapped(path: Path) -> Column:
    """One column of a folder of labels."""
    try:
        return np.asanyarray(np.load(path, mmap_mode="r"))
    except FileNotFoundError:
        raise ValueError(
            f"{path.name} is missing: a folder of labels has {', '.join(COLUMNS)}, each as .npy."
        ) from None
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path.name} ends early or is not an array of numbers. Write the labels again.") from error


def write_labels(folder: Path, chunks: Iterable[PairwiseLabels]) -> None:
    """Labels in order of users, a chunk at a time, as files for `SortedLabels.open`; complete, or not there at all."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: (folder / f"{name}.part").open("wb") for name in COLUMNS}
    try:
        written = 0
        for file, dtype in zip(files.values(), COLUMNS.values(), strict=True):
            write_header(file, dtype, 0)
        for labels in chunks:
            for (name, dtype), file in zip(COLUMNS.items(), files.values(), strict=True):
                file.write(np.ascontiguousarray(getattr(labels, name), dtype=dtype).tobytes())
            written += len(labels)
        for file, dtype in zip(files.values(), COLUMNS.values(), strict=True):
            file.seek(0)
            write_header(file, dtype, written)
    finally:
        for file in files.values():
            file.close()
    for name in COLUMNS:
        (folder / f"{name}.part").replace(folder / f"{name}.npy")


def write_header(file: Any, dtype: Any, count: int) -> None:
    """The header of a .npy file: numpy leaves room in it for a longer count."""
    described = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, described)


class ParquetLabels(RowsInOrder):
    """A Parquet file with columns u, a, b, y and perhaps weight, in order of users; needs pyarrow.

    Row groups are read whole: an epoch goes through them in random order, and two are kept at a time.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa  # optional: only this source needs it
        import pyarrow.parquet as pq

        self.path, self.mark = path, self._mark(path)
        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path.name} ends early or is no Parquet file.") from error
        missing = {"u", "a", "b", "y"} - set(self.file.schema_arrow.names)
        if missing:
            raise ValueError(f"{path.name} has no column {', '.join(sorted(missing))}.")
        self.broken = (pa.ArrowException, OSError)
        sizes = [self.file.metadata.row_group(i).num_rows for i in range(self.file.num_row_groups)]
        self.offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.group = lru_cache(maxsize=2)(self._group)
        self.index = Index.of(PairwiseLabels(**self.group(i)) for i in range(len(sizes)))

    @staticmethod
    def _mark(path: Path) -> tuple[int, int]:
        try:
            found = path.stat()
        except FileNotFoundError:
            raise ValueError(f"{path.name} is not there.") from None
        return found.st_size, found.st_mtime_ns

    def _group(self, number: int) -> dict[str, Column]:
        if self._mark(self.path) != self.mark:
            raise ValueError(CHANGED.format("the file has been written to"))
        names = [name for name in COLUMNS if name in self.file.schema_arrow.names]
        try:
            table = self.file.read_row_group(number, columns=names)
        except self.broken as error:
            raise ValueError(f"{self.path.name} ends early or is damaged.") from error
        for name in names:
            if table.column(name).null_count:
                raise ValueError(f"{name} holds values that are missing.")
        columns = {name: table.column(name).to_numpy() for name in names}
        columns.setdefault("weight", np.ones(table.num_rows))
        return columns

    def user_batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Row group by row group, and random batches of the users who begin in it."""
        present = self.index.present
        home = np.searchsorted(self.offsets, self.index.start[present], side="right") - 1
        for group in rng.permutation(np.unique(home)):
            begin, end = np.searchsorted(home, (group, group + 1))
            yield from batches_of_runs(present[begin:end], batch_size, rng)

    def read(self, begin: int, end: int) -> dict[str, Column]:
        """Rows of the row groups in which they lie."""
        first, last = np.searchsorted(self.offsets, (begin, end - 1), side="right") - 1
        parts = []
        for number in range(int(first), int(last) + 1):
            rows = slice(max(begin - int(self.offsets[number]), 0), end - int(self.offsets[number]))
            parts.append({name: column[rows] for name, column in self.group(number).items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
