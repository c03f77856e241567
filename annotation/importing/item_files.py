"""Read items from a file: guess how columns are used, parse the rows and report problems."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from django.db.models import TextChoices
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.importing import cells as cell_checks
from annotation.importing.columns import (
    KEEP,
    SKIP,
    STUDY,
    STUDY_NAMES,
    ColumnMap,
    Guess,
    TableSample,
    read_sample,
    resolve_study,
    rows_of_study,
)
from annotation.importing.file_formats.tables import open_table
from annotation.importing.problems import ImportFileError, ProblemList, quote
from annotation.models.items import MAX_TEXT
from annotation.services.items import MAX_GROUP, MAX_KEY, normalise_key, normalise_newlines

FEATURE_PREFIX = "feature:"
KEY_WORDS, KEY_LENGTH, KEY_HASH = 3, 24, 6  # limits for generated keys: words, characters, hash digits
KEY_NAMES = (
    "key", "item_id", "#id", "id", "item_key", "item_num", "item_number", "item_no", "identifier", "doc_id", "item",
    "code", "number", "nr",
)  # fmt: skip
TEXT_NAMES = (
    "text", "argument", "item_text", "content", "body", "statement", "sentence", "response", "answer", "essay",
    "item_description", "description", "label", "item_name", "title", "name",
)  # fmt: skip
GROUP_NAMES = ("group", "group_name", "debate", "query")
OWN_COLUMNS = ("revision", "active")


class ItemUse(TextChoices):
    """What a column of an item file can be used as; the values name the columns in messages."""

    KEY = "key", gettext_lazy("Key: your ID for the item")
    TEXT = "text", gettext_lazy("Text that workers read")
    GROUP = "group", gettext_lazy("Group")
    FEATURE = "feature", gettext_lazy("Number for the model")
    STUDY = STUDY, gettext_lazy("Study: choose which rows to import")
    KEEP = KEEP, gettext_lazy("Keep as metadata")
    SKIP = SKIP, gettext_lazy("Leave out")


REPEATABLE = {ItemUse.GROUP, ItemUse.FEATURE, ItemUse.KEEP, ItemUse.SKIP}


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """One row of the file; `group` is None if the file has no group column."""

    line: int
    key: str
    text: str
    group: str | None
    metadata: dict[str, str]
    features: dict[str, float]


def guess_item_columns(sample: TableSample) -> ColumnMap:
    """Guess the uses of the columns from common names; topic and stance together are a group."""
    guess = Guess(sample, OWN_COLUMNS)
    guess.assign_prefixed(ItemUse.FEATURE, FEATURE_PREFIX)
    guess.assign(ItemUse.KEY, *KEY_NAMES)
    guess.assign(ItemUse.STUDY, *STUDY_NAMES)
    guess.assign(ItemUse.GROUP, *GROUP_NAMES)
    if not guess.has(ItemUse.GROUP):
        guess.assign(ItemUse.GROUP, "topic")
        guess.assign(ItemUse.GROUP, "stance")
    _assign_prompt(guess)
    if len(guess.names) == 1:
        guess.assign(ItemUse.TEXT, *guess.names)
    guess.assign(ItemUse.TEXT, *TEXT_NAMES)
    _assign_name_as_key(guess)
    return guess.finish()


def _assign_name_as_key(guess: Guess) -> None:
    """Use a name column as the key if no other column is the key and no two rows share a name."""
    for name in ("name", "title", "label", "item_name"):
        index = guess.index_of(name)
        cells = [] if index is None else guess.sample.cells(index)
        if cells and len(set(cells)) == len(guess.sample.rows) and not guess.has(ItemUse.KEY):
            guess.assign(ItemUse.KEY, name)


def _assign_prompt(guess: Guess) -> None:
    """Use a prompt column as the group if items share prompts, or as the text if prompts are longer than labels."""
    prompt = guess.index_of("prompt")
    if prompt is None:
        return
    cells = guess.sample.cells(prompt)
    if len(set(cells)) < len(cells):
        if not guess.has(ItemUse.GROUP):
            guess.assign(ItemUse.GROUP, "prompt")
    elif not any(name in guess.names for name in TEXT_NAMES if name != "label"):
        label = guess.index_of("label")
        labels = [] if label is None else guess.sample.cells(label)
        if sum(map(len, cells)) >= sum(map(len, labels)):
            guess.assign(ItemUse.TEXT, "prompt")
            guess.assign(ItemUse.KEEP, "label")


def read_items(path: Path, columns: ColumnMap | None = None) -> list[ImportedItem]:
    """Read every row of the file, or raise ImportFileError with its problems."""
    sample = read_sample(path)
    if not sample.header:
        raise ImportFileError(_("At least 2 items are needed.") + " " + _("The file is empty."))
    columns = columns or guess_item_columns(sample)
    columns.require([ItemUse.TEXT] if columns.uses == [ItemUse.TEXT] else [ItemUse.KEY, ItemUse.TEXT])
    _check_feature_names(columns)
    columns = resolve_study(path, columns)
    problems = ProblemList()
    with open_table(path) as table:
        rows = [_read_row(line, cells, columns, problems) for line, cells in rows_of_study(table, columns, problems)]
    _check_unique_keys(rows, _key_column(columns), problems)
    problems.raise_if_any()
    if not rows:
        raise ImportFileError(_("At least 2 items are needed.") + " " + _("The file has a header but no rows."))
    return rows


def clean_items(rows: Iterable[ImportedItem]) -> list[ImportedItem]:
    """Normalise and validate rows that did not come from a file."""
    problems, cleaned = ProblemList(), [_normalise(row) for row in rows]
    for row in cleaned:
        _check_row(row, "key", "text", problems)
    _check_unique_keys(cleaned, "key", problems)
    problems.raise_if_any()
    return cleaned


def _check_feature_names(columns: ColumnMap) -> None:
    features = columns.named(ItemUse.FEATURE, FEATURE_PREFIX)
    if "" in features or len(features) < len(columns.find_all(ItemUse.FEATURE)):
        raise ImportFileError(_("Each feature column needs a unique name, such as “feature:readability”."))


def _read_row(line: int, cells: list[str], columns: ColumnMap, problems: ProblemList) -> ImportedItem:
    groups = columns.find_all(ItemUse.GROUP)
    group = ": ".join(filter(None, (cells[index].strip() for index in groups))) if groups else None
    kept = columns.named(ItemUse.KEEP) | (columns.named(ItemUse.GROUP) if len(groups) > 1 else {})
    metadata = {name: cells[index] for name, index in kept.items()}
    features = {}
    for name, index in columns.named(ItemUse.FEATURE, FEATURE_PREFIX).items():
        try:
            features[name] = cell_checks.parse_number(cells[index])
        except ValueError as error:
            problems.add(line, columns.header[index], str(error), quote(cells[index]))
    key, text = columns.find(ItemUse.KEY), cells[columns.uses.index(ItemUse.TEXT)]
    row = _normalise(ImportedItem(line, make_key(text) if key is None else cells[key], text, group, metadata, features))
    _check_row(row, _key_column(columns), columns.name(ItemUse.TEXT), problems)
    return row


def _key_column(columns: ColumnMap) -> str:
    return columns.name(ItemUse.TEXT if columns.find(ItemUse.KEY) is None else ItemUse.KEY)


def make_key(text: str) -> str:
    """Generate a key from a text's first words and a hash, so that importing a file without keys again adds nothing."""
    words = slugify(text, allow_unicode=True).split("-")[:KEY_WORDS]
    digest = sha256(normalise_newlines(text).strip().encode(errors="replace")).hexdigest()[:KEY_HASH]
    return "-".join([*filter(None, ["-".join(words)[:KEY_LENGTH].strip("-")]), digest])


def _normalise(row: ImportedItem) -> ImportedItem:
    metadata = {name: normalise_newlines(value) for name, value in row.metadata.items()}
    return replace(row, key=row.key.strip(), text=normalise_newlines(row.text), metadata=metadata)


def _check_row(row: ImportedItem, key_column: str, text_column: str, problems: ProblemList) -> None:
    found = [
        (key_column, cell_checks.find_name_problem(row.key, MAX_KEY)),
        (text_column, cell_checks.find_text_problem(row.text, MAX_TEXT)),
        ("group", cell_checks.find_length_problem(row.group or "", MAX_GROUP)),
        *((name, cell_checks.find_length_problem(value, MAX_TEXT)) for name, value in row.metadata.items()),
    ]
    for column, message in found:
        if message:
            problems.add(row.line, column, message, quote(row.key))


def _check_unique_keys(rows: list[ImportedItem], column: str, problems: ProblemList) -> None:
    """Report keys that are equal, or that a reader could confuse."""
    seen: dict[str, ImportedItem] = {}
    for row in rows:
        look = normalise_key(row.key)
        first = seen.setdefault(look, row)
        if first is row or not look:
            continue
        values = {"key": quote(row.key), "first": quote(first.key), "line": first.line}
        if first.key == row.key:
            message, value = _("Keys that are already used: %(values)s."), _("%(key)s in line %(line)s")
        else:
            message, value = _("Keys that are too similar: %(values)s."), _("%(key)s and %(first)s in line %(line)s")
        problems.add(row.line, column, message, value % values)
