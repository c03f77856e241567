"""Import past judgements: plan the additions, then append them to the event log. `judgement_files` reads the file."""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.importing.cells import strip_export_apostrophe
from annotation.importing.judgement_files import UNDERSCORE, ImportedJudgement
from annotation.importing.problems import ImportFileError, ProblemList, format_count, quote
from annotation.models import (
    ImportedDetails,
    Item,
    Judgement,
    JudgementImport,
    JudgementNote,
    PlatformIdentity,
    Project,
    User,
    Worker,
)
from annotation.services import add_load, audit, to_canonical
from annotation.services.items import current_items, lock_items, normalise_key
from annotation.storage import event_log

NAMESPACE = uuid.UUID("5c1d9f0a-6f0e-5b39-9a43-0c5b8b0b8a51")
PLATFORM = "import"
BATCH = 500
PART = 100  # judgements or workers added per transaction in the background


class ImportRunning(ImportFileError):
    status = 409
    title = gettext_lazy("Another import of this study is still running.")
    detail = gettext_lazy("Nothing was imported. Try again when the study's page shows that it is complete.")


@dataclass(frozen=True, slots=True)
class PlannedJudgement:
    """A judgement that the project does not have yet, with its items in canonical order."""

    uuid: uuid.UUID
    worker: str
    lo: Item
    hi: Item
    choice: str
    round: int
    row: ImportedJudgement


@dataclass(slots=True)
class JudgementImportPlan:
    """What the import will add; `workers` are the new ones in the order in which they joined.

    `traits` are those that workers do not have yet, or have with another value.
    """

    added: list[PlannedJudgement] = field(default_factory=list)
    unchanged: int = 0
    workers: list[str] = field(default_factory=list)
    traits: dict[str, dict[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    in_background: bool = False  # the judgements are still being added

    @property
    def counts(self) -> dict[str, int]:
        ties = sum(judgement.choice == Judgement.Choice.TIE for judgement in self.added)
        return {
            "added": len(self.added),
            "ties": ties,
            "workers": len(self.workers),
            "unchanged": self.unchanged,
            "traits": len(self.traits),
        }

    @property
    def basis(self) -> str:
        """A hash of the additions, including the revision of each item; if it differs, the preview is out of date."""
        added = [[str(judgement.uuid), judgement.lo.pk, judgement.hi.pk] for judgement in self.added]
        return hashlib.sha256(json.dumps([self.counts, added, self.traits]).encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        return bool(self.added or self.traits)


def plan_judgements(project: Project, rows: list[ImportedJudgement]) -> JudgementImportPlan:
    """Compare the rows with the project's items and earlier imports."""
    items = {item.key: item for item in current_items(project)}
    return compare(project, rows, items, _stored_winners(project), _imported_workers(project))


def compare(
    project: Project,
    rows: list[ImportedJudgement],
    items: dict[str, Item],
    stored: dict[uuid.UUID, str],
    known_workers: dict[str, Worker],
) -> JudgementImportPlan:
    """Compare the rows with these items, and with the winners and workers of earlier imports."""
    rows = [_resolve_keys(row, items) for row in rows]
    _check_items(rows, items)
    plan, problems, new_workers = JudgementImportPlan(), ProblemList(), dict[str, int]()
    for row, judgement in _to_judgements(project, rows, items):
        winner = stored.get(judgement.uuid)
        if winner is None:
            plan.added.append(judgement)
            if row.worker not in known_workers:
                new_workers.setdefault(row.worker, row.worker_number)
        elif winner == _winner(row):
            plan.unchanged += 1
        else:
            message = _("The study already has different answers by these workers for these pairs: %(values)s.")
            problems.add(row.line, "choice", message, quote(row.worker))
    problems.raise_if_any()
    plan.workers = sorted(new_workers, key=lambda name: new_workers[name])  # stable: file order without numbers
    _plan_traits(plan, rows, known_workers)
    return plan


def _plan_traits(plan: JudgementImportPlan, rows: list[ImportedJudgement], known_workers: dict[str, Worker]) -> None:
    """Collect each worker's traits; if a trait has several values, the first counts."""
    found, conflicts = dict[str, dict[str, str]](), Counter[str]()
    for row in rows:
        traits = found.setdefault(row.worker, {})
        for name, value in row.traits.items():
            conflicts[name] += traits.setdefault(name, value) != value
    for name, count in conflicts.items():
        if count:
            message = _("“%(name)s” has several values for the same worker in %(count)s rows; the first one counts.")
            plan.warnings.append(message % {"name": name, "count": format_count(count)})
    stored = {name: worker.traits for name, worker in known_workers.items()}
    importable = {*stored, *plan.workers}
    changed = {
        worker: {name: value for name, value in traits.items() if stored.get(worker, {}).get(name) != value}
        for worker, traits in found.items()
        if worker in importable
    }
    plan.traits = {worker: traits for worker, traits in changed.items() if traits}


@transaction.atomic
def import_judgements(*, project: Project, user: User | None, rows: list[ImportedJudgement]) -> JudgementImportPlan:
    """Append these judgements to the event log; importing the same rows again adds nothing."""
    lock_items(project)
    refuse_if_running(project)
    plan = plan_judgements(project, rows)
    if plan.changes_anything:
        _store(project, user, plan)
    return plan


def refuse_if_running(project: Project) -> None:
    """Raise ImportRunning while judgements are being added in the background."""
    if JudgementImport.objects.filter(project=project, state=JudgementImport.State.RUNNING).exists():
        raise ImportRunning


def _resolve_keys(row: ImportedJudgement, items: dict[str, Item]) -> ImportedJudgement:
    """Replace the file's keys by the project's; split a pair ID if exactly one split gives two known keys."""
    resolved = replace(row, a=strip_export_apostrophe(row.a, items), b=strip_export_apostrophe(row.b, items))
    if not row.pair_in_one_cell or (resolved.a in items and resolved.b in items):
        return resolved
    parts = f"{row.a}{UNDERSCORE}{row.b}".split(UNDERSCORE)
    splits = [(UNDERSCORE.join(parts[:n]), UNDERSCORE.join(parts[n:])) for n in range(1, len(parts))]
    pairs = [(strip_export_apostrophe(a, items), b) for a, b in splits]
    known = [(a, b) for a, b in pairs if a in items and b in items]
    return replace(row, a=known[0][0], b=known[0][1]) if len(known) == 1 else resolved


def _check_items(rows: list[ImportedJudgement], items: dict[str, Item]) -> None:
    """Report all keys that the project does not have, with a suggestion where one looks similar."""
    lookalikes = {normalise_key(key): key for key in items}
    problems, message = ProblemList(), _("The study has no items with these keys: %(values)s.")
    for row in rows:
        for key in (row.a, row.b):
            if key not in items:
                similar = lookalikes.get(normalise_key(key))
                hint = " " + _("(did you mean %(key)s?)") % {"key": quote(similar)} if similar else ""
                problems.add(row.line, "a, b", message, quote(key) + hint)
    problems.raise_if_any()


def _to_judgements(
    project: Project, rows: list[ImportedJudgement], items: dict[str, Item]
) -> Iterator[tuple[ImportedJudgement, PlannedJudgement]]:
    """Pair each row with its judgement; if a worker judged the same pair again, that is the next round."""
    rounds = Counter[tuple[str, ...]]()
    for row in rows:
        keys = sorted((row.a, row.b))
        rounds[row.worker, *keys] += 1
        occurrence = rounds[row.worker, *keys]
        # The UUID depends on item keys, not primary keys: correcting a text must not let the same file in twice.
        name = json.dumps([project.import_salt, row.worker, *keys, occurrence])
        first, second = items[row.a], items[row.b]
        lo, hi = sorted((first, second), key=lambda item: item.pk)
        choice = to_canonical(row.choice, lo_is_left=lo is first)
        yield row, PlannedJudgement(uuid.uuid5(NAMESPACE, name), row.worker, lo, hi, choice, occurrence, row)


def _winner(row: ImportedJudgement) -> str:
    """The key of the preferred item, or "" for a tie."""
    return {"a": row.a, "b": row.b}.get(row.choice, "")


def _stored_winners(project: Project) -> dict[uuid.UUID, str]:
    """The keys of the preferred items in earlier imports, by judgement UUID."""
    imported = Judgement.objects.filter(project=project, source=Judgement.Source.IMPORT)
    rows = imported.values_list("uuid", "choice", "item_lo__key", "item_hi__key")
    return {number: {"lo": lo, "hi": hi}.get(choice, "") for number, choice, lo, hi in rows}


def _imported_workers(project: Project, names: set[str] | None = None) -> dict[str, Worker]:
    """The workers of earlier imports, keyed by their names in the files; only those with these names, if given."""
    identities = PlatformIdentity.objects.filter(project=project, platform=PLATFORM).select_related("worker")
    if names is not None:
        identities = identities.filter(external_id__in=names)
    return {identity.external_id: identity.worker for identity in identities}


def _store(project: Project, user: User | None, plan: JudgementImportPlan) -> None:
    """Append the judgements to the event log; the caller has locked the project's items."""
    workers = {**_imported_workers(project), **_create_workers(project, plan.workers)}
    _append(project, plan.added, [workers[each.worker] for each in plan.added])
    _store_traits(project, {workers[name]: traits for name, traits in plan.traits.items()})
    audit(project, user, "imported judgements", plan.counts)
    transaction.on_commit(lambda: event_log.notify(project.pk))


def _append(project: Project, planned: list[PlannedJudgement], workers: list[Worker]) -> None:
    """Append these judgements with their details, and add them to the items' loads."""
    events = [_judgement(project, each, worker) for each, worker in zip(planned, workers, strict=True)]
    event_log.append(events)
    _store_details(events, planned)
    add_load((each.lo.pk, each.hi.pk) for each in planned)


def _store_details(events: list[Judgement], planned: list[PlannedJudgement]) -> None:
    """Store times, extra columns and reasons outside the hash chain, so that they can be erased with the person."""
    rows = [(event, each.row) for event, each in zip(events, planned, strict=True)]
    details = [
        ImportedDetails(judgement=event, judged_at=row.judged_at, columns=row.extra)
        for event, row in rows
        if row.judged_at or row.extra
    ]
    notes = [JudgementNote(judgement=event, text=row.note) for event, row in rows if row.note]
    ImportedDetails.objects.bulk_create(details, batch_size=BATCH)
    JudgementNote.objects.bulk_create(notes, batch_size=BATCH)


def _store_traits(project: Project, traits: dict[Worker, dict[str, str]]) -> None:
    for worker, values in traits.items():
        worker.traits = {**worker.traits, **values}
    if traits:
        Worker.objects.bulk_update(traits, ["traits"], batch_size=BATCH)
        event_log.raise_inputs_revision(project.pk)


def split_plan(plan: JudgementImportPlan) -> Iterator[dict[str, Any]]:
    """Split the plan into parts that can be stored as JSON: workers in the order they joined, judgements, traits."""
    for start in range(0, len(plan.workers), PART):
        yield {"workers": plan.workers[start : start + PART]}
    for start in range(0, len(plan.added), PART):
        yield {"judgements": [_to_record(planned) for planned in plan.added[start : start + PART]]}
    for start in range(0, len(plan.traits), PART):
        yield {"traits": dict(list(plan.traits.items())[start : start + PART])}


def append_part(project: Project, part: dict[str, Any]) -> int:
    """Create the workers, append the judgements and store the traits of one part; return the number of judgements."""
    _create_workers(project, part.get("workers", []))
    records, traits = part.get("judgements", []), part.get("traits", {})
    workers = _workers_named(project, {*traits, *(record["worker"] for record in records if "worker" in record)})
    erased = _workers_with_codes(project, {record["code"] for record in records if "code" in record})
    authors = [workers[record["worker"]] if "worker" in record else erased[record["code"]] for record in records]
    items = Item.objects.in_bulk({record[end] for record in records for end in ("lo", "hi")})
    _append(project, [_from_record(record, items) for record in records], authors)
    _store_traits(project, {workers[name]: values for name, values in traits.items()})
    return len(records)


def _workers_named(project: Project, names: set[str]) -> dict[str, Worker]:
    """Find or create the imported workers with these names; a name erased at the end of retention is created again."""
    workers = _imported_workers(project, names)
    return workers | _create_workers(project, sorted(names - workers.keys()))


def _workers_with_codes(project: Project, codes: set[str]) -> dict[str, Worker]:
    """The workers with these codes, who were erased while the import was running (`ImportChunk.erase_worker`)."""
    return {worker.code: worker for worker in Worker.objects.filter(project=project, code__in=codes)}


def _to_record(planned: PlannedJudgement) -> dict[str, Any]:
    row = planned.row
    record = {
        "uuid": str(planned.uuid),
        "worker": planned.worker,
        "lo": planned.lo.pk,
        "hi": planned.hi.pk,
        "choice": planned.choice,
        "round": planned.round,
        "judged_at": row.judged_at.isoformat() if row.judged_at else None,
        "response_ms": row.response_ms,
        "note": row.note,
        "extra": row.extra,
    }
    return {name: value for name, value in record.items() if value not in (None, "", {})}


def _from_record(record: dict[str, Any], items: dict[int, Item]) -> PlannedJudgement:
    worker, choice = record.get("worker", ""), record["choice"]
    lo, hi, at = items[record["lo"]], items[record["hi"]], record.get("judged_at")
    row = ImportedJudgement(
        line=0,
        worker=worker,
        a=lo.key,
        b=hi.key,
        choice=choice,
        judged_at=datetime.fromisoformat(at) if at else None,
        response_ms=record.get("response_ms"),
        note=record.get("note", ""),
        extra=record.get("extra", {}),
    )
    return PlannedJudgement(uuid.UUID(record["uuid"]), worker, lo, hi, choice, record["round"], row)


def _create_workers(project: Project, names: list[str]) -> dict[str, Worker]:
    """Create a finished worker with a random code for each name; names are stored in PlatformIdentity only."""
    new_workers = [Worker(project=project, state=Worker.State.FINISHED, outcome=PLATFORM) for _ in names]
    workers = dict(zip(names, Worker.objects.bulk_create(new_workers, batch_size=BATCH), strict=True))
    identities = [
        PlatformIdentity(project=project, worker=worker, platform=PLATFORM, external_id=name)
        for name, worker in workers.items()
    ]
    PlatformIdentity.objects.bulk_create(identities, batch_size=BATCH)
    return workers


def _judgement(project: Project, planned: PlannedJudgement, worker: Worker) -> Judgement:
    return Judgement(
        uuid=planned.uuid,
        project=project,
        worker=worker,
        item_lo=planned.lo,
        item_hi=planned.hi,
        round=planned.round,
        choice=planned.choice,
        source=Judgement.Source.IMPORT,
        response_ms=planned.row.response_ms,
        created_at=timezone.now(),
    )
