"""Items from a file: read and checked first, compared with the project next, written in one transaction last."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import transaction
from django.utils.translation import gettext as _

from annotation.curation import MAX_GROUP, MAX_KEY, current_items, hold_items, look_alike, tidy_text
from annotation.importing.columns import bare, to_number, wrong_with_length, wrong_with_name, wrong_with_text
from annotation.importing.item_rows import Draft, Plan, store_items
from annotation.importing.problems import ImportRefused, Problems, quoted
from annotation.importing.tables import Table, open_table, required
from annotation.models import Item, Project, User
from annotation.models.items import MAX_TEXT

FEATURE = "feature:"
FEWEST = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the file keeps what."""

    key: int
    text: int
    group: tuple[int, ...]  # one column, or topic and stance
    metadata: dict[str, int]
    features: dict[str, int]


def read_items(path: Path) -> list[Draft]:
    """Every row of the file, or a refusal that lists what is wrong with it."""
    problems = Problems()
    with open_table(path) as table:
        if not table.header:
            raise ImportRefused(_("At least 2 items are needed.") + " " + _("The file is empty."))
        columns = _columns_of(table)
        drafts = [_draft(line, cells, table.header, columns, problems) for line, cells in table.even_rows(problems)]
    _check_keys(drafts, table.header[columns.key], problems)
    problems.refuse_if_any()
    if not drafts:
        raise ImportRefused(_("At least 2 items are needed.") + " " + _("The file has a header and no rows."))
    return drafts


def plan_items(project: Project, drafts: Iterable[Draft]) -> Plan:
    """What these rows would change in the project as it is now."""
    known = {item.key: item for item in current_items(project)}
    looks = {look_alike(key): key for key in known}
    plan, problems, drafts = Plan(), Problems(), list(drafts)
    free = known.keys() - {draft.key for draft in drafts}
    for draft in (_without_apostrophes(draft, known, free) for draft in drafts):
        taken = looks.get(look_alike(draft.key))
        if taken is not None and taken != draft.key:
            words = {"key": quoted(draft.key), "taken": quoted(taken)}
            problems.add(draft.line, "key", _("%(key)s looks like %(taken)s, which the project has.") % words)
        else:
            _place(plan, draft, known.get(draft.key))
    problems.refuse_if_any()
    if len(known) + len(plan.added) < FEWEST:
        raise ImportRefused(_("At least 2 items are needed."))
    return plan


@transaction.atomic
def import_items(*, project: Project, user: User | None, rows: list[Draft]) -> Plan:
    """The project has these items. The same rows again change nothing."""
    hold_items(project)
    plan = plan_items(project, rows)
    if plan.changes_anything:
        store_items(project, user, plan)
    return plan


def is_same(draft: Draft, item: Item) -> bool:
    """Columns that the file does not have are left as they are."""
    return (
        draft.group in (None, item.group)
        and item.metadata.items() >= draft.metadata.items()
        and item.features.items() >= draft.features.items()
    )


def _without_apostrophes(draft: Draft, known: dict[str, Item], free: Container[str]) -> Draft:
    """The row of a file that an export wrote, as it was before the export made it safe for spreadsheets."""
    key = bare(draft.key, free)
    item = known.get(key)
    if item is None:
        return draft
    group = None if draft.group is None else bare(draft.group, [item.group])
    return replace(draft, key=key, text=bare(draft.text, [item.text]), group=group)


def _place(plan: Plan, draft: Draft, item: Item | None) -> None:
    if item is None:
        plan.added.append(draft)
    elif item.text != draft.text:
        plan.corrected.append((draft, item))
    elif not is_same(draft, item):
        plan.updated.append((draft, item))
    else:
        plan.unchanged.append(draft)


def _columns_of(table: Table) -> Columns:
    """Which column is what: key (or item_id), text, group (or topic and stance), feature:…, and metadata."""
    key, text = required(table, "key", "item_id", "#id"), required(table, "text", "argument")
    group = table.find("group")
    topic_and_stance = (table.find("topic"), table.find("stance"))
    places = (group,) if group is not None else topic_and_stance
    features = _features_of(table.header)
    taken = {key, text, group, *features.values()}
    metadata = {name: place for place, name in enumerate(table.header) if place not in taken}
    return Columns(key, text, tuple(p for p in places if p is not None), metadata, features)


def _features_of(header: list[str]) -> dict[str, int]:
    """The columns that begin with “feature:”, by what follows."""
    places = [place for place, name in enumerate(header) if name.casefold().startswith(FEATURE)]
    features = {header[place][len(FEATURE) :].strip(): place for place in places}
    if "" in features or len(features) < len(places):
        raise ImportRefused(_("Each feature column needs a name of its own, such as “feature:readability”."))
    return features


def _draft(line: int, cells: list[str], header: list[str], columns: Columns, problems: Problems) -> Draft:
    """One row; what is wrong with it is noted."""
    parts = [cells[place].strip() for place in columns.group]
    group = ": ".join(filter(None, parts)) if columns.group else None
    metadata = {name: cells[place] for name, place in columns.metadata.items()}
    features = {}
    for name, place in columns.features.items():
        try:
            features[name] = to_number(cells[place])
        except ValueError as error:
            problems.add(line, header[place], str(error))
    draft = _tidied(Draft(line, cells[columns.key], cells[columns.text], group, metadata, features))
    _check_draft(draft, header[columns.key], header[columns.text], problems)
    return draft


def check_drafts(drafts: Iterable[Draft]) -> list[Draft]:
    """Rows that did not come in a file, tidied; or a refusal that lists what is wrong with them."""
    problems, tidied = Problems(), [_tidied(draft) for draft in drafts]
    for draft in tidied:
        _check_draft(draft, "key", "text", problems)
    _check_keys(tidied, "key", problems)
    problems.refuse_if_any()
    return tidied


def _tidied(draft: Draft) -> Draft:
    metadata = {name: tidy_text(value) for name, value in draft.metadata.items()}
    return replace(draft, key=draft.key.strip(), text=tidy_text(draft.text), metadata=metadata)


def _check_draft(draft: Draft, key: str, text: str, problems: Problems) -> None:
    """Notes what is wrong with the row, by the names of its columns."""
    _note(problems, draft.line, key, wrong_with_name(draft.key, MAX_KEY))
    _note(problems, draft.line, text, wrong_with_text(draft.text, MAX_TEXT))
    _note(problems, draft.line, "group", wrong_with_length(draft.group or "", MAX_GROUP))
    for name, value in draft.metadata.items():
        _note(problems, draft.line, name, wrong_with_length(value, MAX_TEXT))


def _note(problems: Problems, line: int, column: str, message: str) -> None:
    if message:
        problems.add(line, column, message)


def _check_keys(drafts: list[Draft], column: str, problems: Problems) -> None:
    """No two rows have the same key, nor keys that look the same."""
    seen: dict[str, Draft] = {}
    for draft in drafts:
        look = look_alike(draft.key)
        first = seen.setdefault(look, draft)
        if first is draft or not look:
            continue
        words = {"key": quoted(draft.key), "first": quoted(first.key), "line": first.line}
        if first.key == draft.key:
            message = _("%(key)s stands in line %(line)s too.") % words
        else:
            message = _("%(key)s looks like %(first)s in line %(line)s.") % words
        problems.add(draft.line, column, message)
