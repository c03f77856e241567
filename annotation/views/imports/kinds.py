"""What differs between importing items and importing judgements."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from annotation.importing import (
    background,
    item_files,
    items,
    judgement_columns,
    judgement_files,
    judgements,
    split_by_study,
)
from annotation.importing.columns import ColumnMap, TableSample
from annotation.importing.problems import format_count
from annotation.models import Project, User

PREVIEW_ROWS = 10
PREVIEW_CORRECTIONS = 20


@dataclass(frozen=True)
class ImportKind:
    name: str
    title: Promise
    uses: type[TextChoices]
    repeatable: Collection[str]
    guess: Callable[[TableSample], ColumnMap]
    read: Callable[..., list[Any]]
    plan: Callable[[Project, User, list[Any], ColumnMap], Any]
    write: Callable[[Project, User, list[Any], ColumnMap], Any]
    preview_context: Callable[..., dict[str, Any]]
    describe_result: Callable[[dict[str, int]], str]
    redirect_to: str
    can_split: bool = False


def _plan_items(project: Project, user: User, rows: list[Any], columns: ColumnMap) -> items.ItemImportPlan:
    return items.plan_items(project, rows)


def _write_items(project: Project, user: User, rows: list[Any], columns: ColumnMap) -> items.ItemImportPlan:
    return items.import_items(project=project, user=user, rows=rows)


def _item_preview_context(plan: items.ItemImportPlan, rows: list[item_files.ImportedItem]) -> dict[str, Any]:
    outcomes = plan.outcomes()
    first = [(row, outcomes.get(row.key, "unchanged")) for row in rows[:PREVIEW_ROWS]]
    return {"first": first, "corrections": list(islice(plan.corrected, PREVIEW_CORRECTIONS))}


def _describe_imported_items(counts: dict[str, int]) -> str:
    message = _("Items: %(added)s added, %(corrected)s corrected, %(updated)s changed, %(unchanged)s unchanged.")
    return message % {name: format_count(count) for name, count in counts.items()}


def _plan_judgements(project: Project, user: User, rows: list[Any], columns: ColumnMap) -> Any:
    return (
        split_by_study.plan_split(project, user, rows) if columns.split else judgements.plan_judgements(project, rows)
    )


def _write_judgements(project: Project, user: User, rows: list[Any], columns: ColumnMap) -> Any:
    write = split_by_study.import_split if columns.split else background.import_judgements
    return write(project=project, user=user, rows=rows)


def _judgement_preview_context(plan: Any, rows: list[judgement_files.ImportedJudgement]) -> dict[str, Any]:
    first = rows[:PREVIEW_ROWS]
    return {
        "first": first,
        "has_times": any(row.judged_at for row in first),
        "has_response_times": any(row.response_ms is not None for row in first),
        "has_extra": any(row.extra or row.traits or row.note for row in first),
        "split": [(study, plan.slugs[study], each.counts) for study, each in plan.plans.items()]
        if isinstance(plan, split_by_study.SplitPlan)
        else [],
    }


def _describe_imported_judgements(counts: dict[str, int]) -> str:
    message = ngettext(
        "%(added)s judgement added, %(unchanged)s unchanged.",
        "%(added)s judgements added, %(unchanged)s unchanged.",
        counts["added"],
    )
    return message % {name: format_count(count) for name, count in counts.items()}


ITEMS = ImportKind(
    name="items",
    title=gettext_lazy("Import items"),
    uses=item_files.ItemUse,
    repeatable=item_files.REPEATABLE,
    guess=item_files.guess_item_columns,
    read=item_files.read_items,
    plan=_plan_items,
    write=_write_items,
    preview_context=_item_preview_context,
    describe_result=_describe_imported_items,
    redirect_to="annotation:items",
)
JUDGEMENTS = ImportKind(
    name="judgements",
    title=gettext_lazy("Import past judgements"),
    uses=judgement_columns.JudgementUse,
    repeatable=judgement_columns.REPEATABLE,
    guess=judgement_columns.guess_judgement_columns,
    read=judgement_files.read_judgements,
    plan=_plan_judgements,
    write=_write_judgements,
    preview_context=_judgement_preview_context,
    describe_result=_describe_imported_judgements,
    redirect_to="annotation:project",
    can_split=True,
)
