"""The judgements in the formats that other programs read, each derived from the one table of judgements.

What stands at the point is exported: nothing taken back, nothing skipped. What becomes of ties, each format says.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from django.db.models import Q
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from annotation.models import Item, Judgement
from modelling.exporting.events import JUDGEMENT, judgement_pages
from modelling.exporting.formats import CONTENT_TYPES, neutral, pieces, plain_json
from modelling.exporting.points import Point
from modelling.exporting.preferences import Expected
from modelling.exporting.tables import Cells, Page, columns, in_pages, stamped
from modelling.exporting.zips import read, zipped

CROWD_KIT = columns(worker=str, left=str, right=str, label=str)
EVALICA = columns(left=str, right=str, winner=str)
UKP_HEADER = "#id\tturkerid\tlabel\ta1\ta2\n"
BOTH_BAD = "tie (bothbad)"


class Thing(NamedTuple):
    """An item as other programs see it: a text under a name of its own."""

    name: str
    text: str
    group: str


@dataclass(frozen=True)
class Vote:
    """One judgement. `winner` is left, right, tie or bad (both are poor)."""

    uuid: str
    worker: str
    left: Thing
    right: Thing
    winner: str
    at: str

    @property
    def is_decided(self) -> bool:
        return self.winner in ("left", "right")

    @property
    def better(self) -> Thing:
        return self.left if self.winner == "left" else self.right

    @property
    def worse(self) -> Thing:
        return self.right if self.winner == "left" else self.left


def votes(point: Point, *, by_pair: bool = False) -> Iterator[list[Vote]]:
    """The votes that stand, page after page. The left one was shown first where that is known, else it came first."""
    things = things_in(point)
    for page in judgement_pages(point, by_pair=by_pair):
        yield list(filter(None, (_vote(things, row, by_pair) for row in _standing(page))))


def _standing(page: Page) -> Iterator[dict[str, Any]]:
    names = [column.name for column in JUDGEMENT]
    said = (dict(zip(names, row, strict=True)) for row in zip(*page, strict=True))
    return (row for row in said if not row["retracted"])


def _vote(things: dict[tuple[str, int], Thing], row: dict[str, Any], by_pair: bool) -> Vote | None:
    """Skipped pairs say nothing, except that both are poor."""
    choice = "bad" if row["skip_reason"] == Judgement.SkipReason.BOTH_POOR else row["choice"]
    if choice == "skip":
        return None
    a, b = things[row["a"], row["a_revision"]], things[row["b"], row["b_revision"]]
    swapped = row["shown_first"] == "b" and not by_pair
    sides = {"a": "right" if swapped else "left", "b": "left" if swapped else "right"}
    left, right = (b, a) if swapped else (a, b)
    return Vote(row["uuid"], row["worker"], left, right, sides.get(choice, choice), row["created_at"])


def things_in(point: Point) -> dict[tuple[str, int], Thing]:
    """Every item judged by then, by key and revision. Its newest text has the name of the key, older ones a number.

    No two have the same name: where another item has that very key, there is one more sign before the number.
    """
    judged = Judgement.objects.filter(project=point.project, sequence__lte=point.sequence)
    seen = Q(pk__in=judged.values("item_lo")) | Q(pk__in=judged.values("item_hi"))
    rows = list(Item.objects.filter(seen, project=point.project).order_by("pk"))
    newest = Counter[str]()
    for item in rows:
        newest[item.key] = max(newest[item.key], item.revision)
    names = {item.pk: item.key for item in rows if item.revision == newest[item.key]}
    taken = set(names.values())
    for item in rows:
        if item.pk not in names:
            names[item.pk] = _free_name(item, taken)
    return {(item.key, item.revision): Thing(names[item.pk], item.text, item.group) for item in rows}


def _free_name(item: Item, taken: set[str]) -> str:
    """The name of an older text, which nothing else has from now on."""
    sign = "@"
    while f"{item.key}{sign}{item.revision}" in taken:
        sign += "@"
    taken.add(f"{item.key}{sign}{item.revision}")
    return f"{item.key}{sign}{item.revision}"


def crowd_kit(point: Point) -> Iterator[bytes]:
    def rows() -> Iterator[Cells]:
        for vote in chain.from_iterable(votes(point)):
            if vote.is_decided:
                yield (vote.worker, vote.left.name, vote.right.name, vote.better.name)

    return pieces(stamped("crowd-kit", point, CROWD_KIT, lambda: in_pages(rows()), 0), "csv")


def evalica(point: Point) -> Iterator[bytes]:
    def rows() -> Iterator[Cells]:
        for vote in chain.from_iterable(votes(point)):
            if vote.winner != "bad":
                yield (vote.left.name, vote.right.name, vote.winner)

    return pieces(stamped("evalica", point, EVALICA, lambda: in_pages(rows()), 0), "csv")


def choix(point: Point) -> Iterator[bytes]:
    """Items are numbers, in the order in which they came into the project; `items` has their names."""
    names = [thing.name for thing in things_in(point).values()]
    number = {name: place for place, name in enumerate(names)}
    head = {**_stamp(point), "ties": "one win each way", "n_items": len(names), "items": names}
    yield plain_json(head).removesuffix("}").encode() + b',"data":[\n'
    yield from _list(_wins(page, number) for page in votes(point))
    yield b"\n]}\n"


def _wins(page: list[Vote], number: dict[str, int]) -> Iterator[list[int]]:
    for vote in page:
        if vote.winner != "bad":
            yield [number[vote.better.name], number[vote.worse.name]]
        if vote.winner == "tie":
            yield [number[vote.worse.name], number[vote.better.name]]


def _list(pages: Iterator[Iterator[Any]]) -> Iterator[bytes]:
    """The inside of a JSON list, one entry on a line."""
    between = ""
    for page in pages:
        lines = ",\n".join(plain_json(entry) for entry in page)
        if lines:
            yield f"{between}{lines}".encode()
            between = ",\n"


def _stamp(point: Point) -> dict[str, Any]:
    return {"version": point.version, "as_of_seq": point.sequence}


def label_studio(point: Point) -> Iterator[bytes]:
    """A task for each pair, with an annotation for each of its judgements."""
    given_by_pair = (vote for page in votes(point, by_pair=True) for vote in page if vote.winner != "bad")
    pairs = groupby(given_by_pair, key=lambda vote: (vote.left, vote.right))
    yield b"[\n"
    yield from _list(iter([_task(point, left, right, list(given))]) for (left, right), given in pairs)
    yield b"\n]\n"


def _task(point: Point, left: Thing, right: Thing, given: list[Vote]) -> dict[str, Any]:
    data = {"text1": left.text, "text2": right.text, "key1": left.name, "key2": right.name, "group": left.group}
    annotations = [{"result": _result(vote), "meta": {"worker": vote.worker}} for vote in given]
    return {"data": data, "meta": _stamp(point), "annotations": annotations}


def _result(vote: Vote) -> list[dict[str, Any]]:
    value = {"selected": vote.winner}
    named = {"id": vote.uuid, "from_name": "pw", "to_name": "pw", "type": "pairwise"}
    return [{"value": value, **named}] if vote.is_decided else []


def arena(point: Point) -> Iterator[bytes]:
    yield b"[\n"
    yield from _list((_battle(point, vote) for vote in page) for page in votes(point))
    yield b"\n]\n"


def _battle(point: Point, vote: Vote) -> dict[str, Any]:
    winner = {"left": "model_a", "right": "model_b", "tie": "tie", "bad": BOTH_BAD}[vote.winner]
    asked = {"role": "user", "content": prompt(point, vote)}
    spoken = [[asked, {"role": "assistant", "content": thing.text}] for thing in (vote.left, vote.right)]
    return {
        "question_id": vote.uuid,
        "model_a": vote.left.name,
        "model_b": vote.right.name,
        "winner": winner,
        "judge": vote.worker,
        "conversation_a": spoken[0],
        "conversation_b": spoken[1],
        "turn": 1,
        "anony": True,
        "language": point.project.language,
        "tstamp": datetime.fromisoformat(vote.at).timestamp(),
        **_stamp(point),
    }


def prompt(point: Point, vote: Vote) -> str:
    """The question of the study, under the name of the group where both have one."""
    shared = vote.left.group if vote.left.group == vote.right.group else ""
    return f"{shared}\n{point.project.question}" if shared else point.project.question


def trl(point: Point) -> Iterator[bytes]:
    """One preference a line, beside what the crowd as a whole thinks of the two."""
    expected = Expected.of(point, {thing.name: key for key, thing in things_in(point).items()})
    for page in votes(point):
        decided = [vote for vote in page if vote.is_decided]
        said = expected.of_pairs([(vote.better.name, vote.worse.name) for vote in decided])
        lines = (_preference(point, vote, *each) for vote, each in zip(decided, said, strict=True))
        yield "".join(f"{plain_json(line)}\n" for line in lines).encode()


def _preference(point: Point, vote: Vote, margin: float | None, confidence: float | None) -> dict[str, Any]:
    return {
        "prompt": prompt(point, vote),
        "chosen": vote.better.text,
        "rejected": vote.worse.text,
        "margin": margin,
        "confidence": confidence,
        "chosen_key": vote.better.name,
        "rejected_key": vote.worse.name,
        "worker": vote.worker,
        **_stamp(point),
    }


def ukp(point: Point) -> Iterator[bytes]:
    """A zip with a file for each group, and a README that says what the lines mean."""
    with tempfile.TemporaryDirectory(prefix="concord-export-") as folder:
        files = {path.name: partial(read, path) for path in _ukp_files(point, Path(folder))}
        yield from zipped({"README.txt": lambda: [UKP_README.format(**_stamp(point)).encode()], **files})


def _ukp_files(point: Point, folder: Path) -> list[Path]:
    """Each group's lines in a file of its own, in the order of the log; a pair belongs where its first item does."""
    files: dict[str, Path] = {}
    for page in votes(point):
        of_group: dict[str, list[str]] = {}
        for vote in page:
            if vote.winner != "bad":
                of_group.setdefault(vote.left.group, []).append(_ukp_line(vote))
        for group, lines in of_group.items():
            path = files.setdefault(group, folder / f"{len(files) + 1:03d}-{slugify(group)[:60] or 'items'}.tsv")
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(("" if file.tell() else UKP_HEADER) + "".join(lines))
    return list(files.values())


def _ukp_line(vote: Vote) -> str:
    label = {"left": "a1", "right": "a2", "tie": "equal"}[vote.winner]
    cells = [f"{vote.left.name}_{vote.right.name}", vote.worker, label, vote.left.text, vote.right.text]
    return "\t".join(neutral(_one_line(cell)) for cell in cells) + "\n"


def _one_line(cell: str) -> str:
    return "<br/>".join(cell.replace("\t", " ").splitlines())


UKP_README = """One file for each group of items, one line for each judgement, five fields between tabs:
id (first item, underscore, second item), worker, label, text of the first item, text of the second item.
The label is a1 where the first was preferred, a2 where the second was, equal for a tie. <br/> is a line break.
Judgements that were taken back or skipped are left out. Version of the model: {version}; as of event {as_of_seq}.
"""


@dataclass(frozen=True)
class Exchange:
    """A format of others: what reads it, the file it makes, and what becomes of ties."""

    title: Any
    extension: str
    content_type: str
    ties: Any
    pieces: Callable[[Point], Iterator[bytes]]
    needs_version: bool = False


JSON, CSV = CONTENT_TYPES["json"], CONTENT_TYPES["csv"]
TIES_DROPPED = _("Ties are left out: the format has none.")
EXCHANGES = {
    "crowd-kit": Exchange("crowd-kit", "csv", CSV, TIES_DROPPED, crowd_kit),
    "choix": Exchange("choix", "json", JSON, _("A tie counts as one win each way."), choix),
    "evalica": Exchange("evalica", "csv", CSV, _("A tie is the winner “tie”."), evalica),
    "label-studio": Exchange("Label Studio", "json", JSON, _("A tie is an annotation without a result."), label_studio),
    "arena": Exchange(
        "Chatbot Arena",
        "json",
        JSON,
        _("A tie is “tie”; a pair skipped because both are poor is “tie (bothbad)”."),
        arena,
    ),
    "trl": Exchange("TRL / Hugging Face", "jsonl", CONTENT_TYPES["jsonl"], TIES_DROPPED, trl, needs_version=True),
    "ukpconvarg": Exchange("UKPConvArg", "zip", "application/zip", _("A tie is the label “equal”."), ukp),
}
