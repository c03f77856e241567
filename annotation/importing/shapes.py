"""How files of judgements may look: Concord's own columns, and those of the programs and data sets people come with."""

from collections.abc import Callable
from dataclasses import dataclass

from annotation.importing.tables import Table, required

Read = Callable[[str, str, str, str], tuple[str, str, str, str]]

OWN = (("worker", "worker_id"), ("a", "item_a"), ("b", "item_b"), ("choice",))
ARENA_WINNERS = {"model_a": "a", "model_b": "b", "tie (bothbad)": "tie"}
SIDES = {"left": "a", "right": "b"}
UKP_LABELS = {"a1": "a", "a2": "b", "equal": "tie"}
UNDERSCORE = "_"
MOST_DIGITS = 12


@dataclass(frozen=True)
class Shape:
    """Where the four things a judgement needs stand, and how they are written there."""

    places: list[int | None]
    columns: list[str]
    read: Read
    worker: str  # who judged, where the file does not say
    retracted: int | None = None
    number: int | None = None  # of the worker, in the order in which they joined

    @property
    def joined(self) -> bool:
        """Both items stand in one cell."""
        return self.places[1] == self.places[2]

    def answer(self, cells: list[str]) -> tuple[str, str, str, str]:
        """Worker, first item, second item, choice."""
        worker, a, b, choice = ("" if place is None else cells[place].strip() for place in self.places)
        return self.read(worker if self.places[0] is not None else self.worker, a, b, choice)

    def number_of_worker(self, cells: list[str]) -> int:
        """In Concord's own files; 0 where it does not stand there."""
        number = "" if self.number is None else cells[self.number].strip()
        return int(number) if number.isdecimal() and len(number) < MOST_DIGITS else 0

    def leaves_out(self, cells: list[str]) -> bool:
        """In Concord's own files: what was taken back, and what was skipped."""
        if self.retracted is None:
            return False
        choice = self.places[3]
        return cells[self.retracted].casefold() == "true" or (choice is not None and cells[choice] == "skip")


def shape_of(table: Table) -> Shape:
    """By the names of the columns; those of Concord where nothing else fits."""
    for names, worker, read in (
        ((("judge", "evaluation_session_id"), ("model_a",), ("model_b",), ("winner",)), "arena", _arena),
        ((("worker", "performer"), ("left",), ("right",), ("label",)), "crowd-kit", _crowd_kit),
        ((("worker",), ("left",), ("right",), ("winner",)), "evalica", _evalica),
        ((("turkerid",), ("#id", "# #id"), ("#id", "# #id"), ("label",)), "ukpconvarg", _ukp),
    ):
        places = [table.find(*each) for each in names]
        if None not in places[1:]:
            return Shape(places, [each[0] for each in names], read, worker)
    own = [required(table, *each) for each in OWN]
    more = table.find("retracted"), table.find("worker_number")
    return Shape(list(own), [table.header[place] for place in own], _concord, "", *more)


def _concord(worker: str, a: str, b: str, choice: str) -> tuple[str, str, str, str]:
    return worker, a, b, choice.casefold()


def _arena(worker: str, a: str, b: str, winner: str) -> tuple[str, str, str, str]:
    return worker, a, b, ARENA_WINNERS.get(winner, winner)


def _crowd_kit(worker: str, left: str, right: str, label: str) -> tuple[str, str, str, str]:
    return worker, left, right, {left: "a", right: "b"}.get(label, label)


def _evalica(worker: str, left: str, right: str, winner: str) -> tuple[str, str, str, str]:
    return worker, left, right, SIDES.get(winner, winner)


def _ukp(worker: str, pair: str, _same: str, label: str) -> tuple[str, str, str, str]:
    """The two keys of an id stand on either side of its middle underscore, as far as one can see without them."""
    parts = pair.split(UNDERSCORE)
    middle = max(len(parts) // 2, 1)
    return worker, UNDERSCORE.join(parts[:middle]), UNDERSCORE.join(parts[middle:]), UKP_LABELS.get(label, label)
