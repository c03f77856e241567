"""Judgements in the formats of other programs, each derived from the judgements table.

Retracted and skipped judgements and those of excluded workers are left out; Chatbot Arena keeps pairs skipped because
both texts are poor. Each format describes what it does with ties.
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

from annotation.http.downloads import escape_formula
from annotation.models import Item, Judgement
from annotation.models.arms import Design
from modelling.exports.formats import (
    CONTENT_TYPES,
    compact_json,
    file_chunks,
    json_list_chunks,
    table_chunks,
    zip_chunks,
)
from modelling.exports.points import ExportPoint
from modelling.exports.tables.base import Cells, Page, build_columns, event_table, rows_to_pages
from modelling.exports.tables.judgements import JUDGEMENT_COLUMNS, judgement_pages
from modelling.exports.tables.model import ConsensusPredictions

CROWD_KIT_COLUMNS = build_columns(worker=str, left=str, right=str, label=str, arm=str)
EVALICA_COLUMNS = build_columns(left=str, right=str, winner=str, arm=str)
UKP_HEADER = "#id\tturkerid\tlabel\ta1\ta2\n"
BOTH_BAD = "tie (bothbad)"


class NamedItem(NamedTuple):
    """An item for other programs: a text with a unique name."""

    name: str
    text: str
    group: str


@dataclass(frozen=True)
class Comparison:
    """One judgement for other programs; `winner` is left, right, tie or bad (both are poor)."""

    uuid: str
    worker: str
    left: NamedItem
    right: NamedItem
    winner: str
    created_at: str
    arm: str | None
    question: str

    @property
    def condition(self) -> dict[str, str]:
        """The arm as a field of a JSON object; none in a study without arms."""
        return {"arm": self.arm} if self.arm else {}

    @property
    def is_decided(self) -> bool:
        return self.winner in ("left", "right")

    @property
    def better(self) -> NamedItem:
        return self.left if self.winner == "left" else self.right

    @property
    def worse(self) -> NamedItem:
        return self.right if self.winner == "left" else self.left


def comparison_pages(point: ExportPoint, *, by_pair: bool = False) -> Iterator[list[Comparison]]:
    """Read judgements page by page. `left` is the item shown first if known and not `by_pair`, else the older one."""
    items = named_items(point)
    questions: dict[str | None, str] = {None: point.project.question}
    questions |= {arm.name: Design(point.project, arm).question for arm in point.project.arms.all()}
    for page in judgement_pages(point, by_pair=by_pair):
        rows = ({**row, "question": questions[row["arm"]]} for row in _counting_rows(page))
        yield list(filter(None, (_comparison(items, row, by_pair) for row in rows)))


def _counting_rows(page: Page) -> Iterator[dict[str, Any]]:
    """The rows that were not retracted, without those of excluded workers."""
    names = [column.name for column in JUDGEMENT_COLUMNS]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*page, strict=True))
    return (row for row in rows if not row["retracted"] and not row["excluded"])


def _comparison(items: dict[tuple[str, int], NamedItem], row: dict[str, Any], by_pair: bool) -> Comparison | None:
    """Convert a row; None for a skipped pair, unless it was skipped because both texts are poor."""
    choice = "bad" if row["skip_reason"] == Judgement.SkipReason.BOTH_POOR else row["choice"]
    if choice == "skip":
        return None
    a, b = items[row["a"], row["a_revision"]], items[row["b"], row["b_revision"]]
    swapped = row["shown_first"] == "b" and not by_pair
    sides = {"a": "right" if swapped else "left", "b": "left" if swapped else "right"}
    left, right = (b, a) if swapped else (a, b)
    facts = [row[name] for name in ("created_at", "arm", "question")]
    return Comparison(row["uuid"], row["worker"], left, right, sides.get(choice, choice), *facts)


def named_items(point: ExportPoint) -> dict[tuple[str, int], NamedItem]:
    """Name every item judged up to the point: the newest revision by its key, older ones as `key@revision`.

    Names are unique: if another item already has that name, one more `@` is inserted.
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
            taken.add(names[item.pk])
    return {(item.key, item.revision): NamedItem(names[item.pk], item.text, item.group) for item in rows}


def _free_name(item: Item, taken: set[str]) -> str:
    separator = "@"
    while f"{item.key}{separator}{item.revision}" in taken:
        separator += "@"
    return f"{item.key}{separator}{item.revision}"


def _point_fields(point: ExportPoint) -> dict[str, Any]:
    return {"version": point.version, "as_of_seq": point.sequence}


def crowd_kit_chunks(point: ExportPoint) -> Iterator[bytes]:
    def rows() -> Iterator[Cells]:
        for each in chain.from_iterable(comparison_pages(point)):
            if each.is_decided:
                yield (each.worker, each.left.name, each.right.name, each.better.name, each.arm)

    return table_chunks(event_table("crowd-kit", point, CROWD_KIT_COLUMNS, lambda: rows_to_pages(rows()), 0), "csv")


def evalica_chunks(point: ExportPoint) -> Iterator[bytes]:
    def rows() -> Iterator[Cells]:
        for each in chain.from_iterable(comparison_pages(point)):
            if each.winner != "bad":
                yield (each.left.name, each.right.name, each.winner, each.arm)

    return table_chunks(event_table("evalica", point, EVALICA_COLUMNS, lambda: rows_to_pages(rows()), 0), "csv")


def choix_chunks(point: ExportPoint) -> Iterator[bytes]:
    """Write wins as pairs of item numbers, in the order in which items were added; `items` lists their names."""
    names = [item.name for item in named_items(point).values()]
    numbers = {name: number for number, name in enumerate(names)}
    head = {**_point_fields(point), "ties": "one win each way", "n_items": len(names), "items": names}
    yield compact_json(head).removesuffix("}").encode() + b',"data":[\n'
    yield from json_list_chunks(map(compact_json, _choix_wins(page, numbers)) for page in comparison_pages(point))
    yield b"\n]}\n"


def _choix_wins(page: list[Comparison], numbers: dict[str, int]) -> Iterator[list[int]]:
    for each in page:
        if each.winner != "bad":
            yield [numbers[each.better.name], numbers[each.worse.name]]
        if each.winner == "tie":
            yield [numbers[each.worse.name], numbers[each.better.name]]


def label_studio_chunks(point: ExportPoint) -> Iterator[bytes]:
    """Write one task per pair with one annotation per judgement."""
    by_pair = (each for page in comparison_pages(point, by_pair=True) for each in page if each.winner != "bad")
    pairs = groupby(by_pair, key=lambda each: (each.left, each.right))
    yield b"[\n"
    yield from json_list_chunks(
        [compact_json(_label_studio_task(point, left, right, list(comparisons)))]
        for (left, right), comparisons in pairs
    )
    yield b"\n]\n"


def _label_studio_task(
    point: ExportPoint, left: NamedItem, right: NamedItem, comparisons: list[Comparison]
) -> dict[str, Any]:
    data = {"text1": left.text, "text2": right.text, "key1": left.name, "key2": right.name, "group": left.group}
    annotations = [_label_studio_annotation(each) for each in comparisons]
    return {"data": data, "meta": _point_fields(point), "annotations": annotations}


def _label_studio_annotation(each: Comparison) -> dict[str, Any]:
    return {"result": _label_studio_result(each), "meta": {"worker": each.worker, **each.condition}}


def _label_studio_result(each: Comparison) -> list[dict[str, Any]]:
    value = {"selected": each.winner}
    tags = {"id": each.uuid, "from_name": "pw", "to_name": "pw", "type": "pairwise"}
    return [{"value": value, **tags}] if each.is_decided else []


def arena_chunks(point: ExportPoint) -> Iterator[bytes]:
    yield b"[\n"
    pages = comparison_pages(point)
    yield from json_list_chunks((compact_json(_arena_battle(point, each)) for each in page) for page in pages)
    yield b"\n]\n"


def _arena_battle(point: ExportPoint, each: Comparison) -> dict[str, Any]:
    winner = {"left": "model_a", "right": "model_b", "tie": "tie", "bad": BOTH_BAD}[each.winner]
    question = {"role": "user", "content": _prompt(each)}
    conversations = [[question, {"role": "assistant", "content": item.text}] for item in (each.left, each.right)]
    return {
        "question_id": each.uuid,
        "model_a": each.left.name,
        "model_b": each.right.name,
        "winner": winner,
        "judge": each.worker,
        **each.condition,
        "conversation_a": conversations[0],
        "conversation_b": conversations[1],
        "turn": 1,
        "anony": True,
        "language": point.project.language,
        "tstamp": datetime.fromisoformat(each.created_at).timestamp(),
        **_point_fields(point),
    }


def _prompt(each: Comparison) -> str:
    """Return the question that the worker answered, below the name of the group if both items share one."""
    shared = each.left.group if each.left.group == each.right.group else ""
    return f"{shared}\n{each.question}" if shared else each.question


def trl_chunks(point: ExportPoint) -> Iterator[bytes]:
    """Write one preference per line with the model's consensus prediction for the pair."""
    predictions = ConsensusPredictions.load(point, {item.name: key for key, item in named_items(point).items()})
    for page in comparison_pages(point):
        decided = [each for each in page if each.is_decided]
        predicted = predictions.predict_pairs([(each.better.name, each.worse.name) for each in decided])
        lines = (_trl_preference(point, each, *numbers) for each, numbers in zip(decided, predicted, strict=True))
        yield "".join(f"{compact_json(line)}\n" for line in lines).encode()


def _trl_preference(
    point: ExportPoint, each: Comparison, margin: float | None, confidence: float | None
) -> dict[str, Any]:
    return {
        "prompt": _prompt(each),
        "chosen": each.better.text,
        "rejected": each.worse.text,
        "margin": margin,
        "confidence": confidence,
        "chosen_key": each.better.name,
        "rejected_key": each.worse.name,
        "worker": each.worker,
        **each.condition,
        **_point_fields(point),
    }


def ukp_chunks(point: ExportPoint) -> Iterator[bytes]:
    """Write a zip with one file per group and a README that explains the fields."""
    with tempfile.TemporaryDirectory(prefix="concord-export-") as folder:
        files = {path.name: partial(file_chunks, path) for path in _write_ukp_files(point, Path(folder))}
        readme = UKP_README.format(**_point_fields(point)).encode()
        yield from zip_chunks({"README.txt": lambda: [readme], **files})


def _write_ukp_files(point: ExportPoint, folder: Path) -> list[Path]:
    """Write each group to its own file in the order of the log; a pair belongs to the group of its left item."""
    files: dict[str, Path] = {}
    for page in comparison_pages(point):
        lines_by_group: dict[str, list[str]] = {}
        for each in page:
            if each.winner != "bad":
                lines_by_group.setdefault(each.left.group, []).append(_ukp_line(each))
        for group, lines in lines_by_group.items():
            path = files.setdefault(group, folder / f"{len(files) + 1:03d}-{slugify(group)[:60] or 'items'}.tsv")
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(("" if file.tell() else UKP_HEADER) + "".join(lines))
    return list(files.values())


def _ukp_line(each: Comparison) -> str:
    label = {"left": "a1", "right": "a2", "tie": "equal"}[each.winner]
    cells = [f"{each.left.name}_{each.right.name}", each.worker, label, each.left.text, each.right.text]
    return "\t".join(escape_formula(_single_line(cell)) for cell in cells) + "\n"


def _single_line(cell: str) -> str:
    return "<br/>".join(cell.replace("\t", " ").splitlines())


UKP_README = """One file per group of items, one line per judgement, five fields separated by tabs:
id (first item, underscore, second item), worker, label, text of the first item, text of the second item.
The label is a1 if the first item was preferred, a2 if the second was, equal for a tie. <br/> is a line break.
Retracted and skipped judgements are left out. Model version: {version}; as of event {as_of_seq}.
"""


@dataclass(frozen=True)
class InterchangeFormat:
    """A format of another program: its title, file type, treatment of ties and writer."""

    title: Any
    extension: str
    content_type: str
    ties: Any
    chunks: Callable[[ExportPoint], Iterator[bytes]]
    needs_version: bool = False


JSON, CSV = CONTENT_TYPES["json"], CONTENT_TYPES["csv"]
TIES_DROPPED = _("Ties are left out: the format does not support them.")
ARENA_TIES = _("A tie is “tie”; a pair skipped because both are poor is “tie (bothbad)”.")
LABEL_STUDIO_TIES = _("A tie is an annotation without a result.")
INTERCHANGE_FORMATS = {
    "crowd-kit": InterchangeFormat("crowd-kit", "csv", CSV, TIES_DROPPED, crowd_kit_chunks),
    "choix": InterchangeFormat("choix", "json", JSON, _("A tie counts as one win each way."), choix_chunks),
    "evalica": InterchangeFormat("evalica", "csv", CSV, _("A tie is the winner “tie”."), evalica_chunks),
    "label-studio": InterchangeFormat("Label Studio", "json", JSON, LABEL_STUDIO_TIES, label_studio_chunks),
    "arena": InterchangeFormat("Chatbot Arena", "json", JSON, ARENA_TIES, arena_chunks),
    "trl": InterchangeFormat(
        "TRL / Hugging Face", "jsonl", CONTENT_TYPES["jsonl"], TIES_DROPPED, trl_chunks, needs_version=True
    ),
    "ukpconvarg": InterchangeFormat(
        "UKPConvArg", "zip", "application/zip", _("A tie is the label “equal”."), ukp_chunks
    ),
}
