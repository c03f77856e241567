"""The archive of one version: a zip file with the events, items, workers, ranking, settings, seed and checksums.

Only a version fitted from scratch can be archived, because it can be refitted from the event log alone
(`reproduce.py`). The same version gives the same bytes.
"""

import hashlib
import heapq
import json
import platform
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version as installed_version
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from annotation.models import Item, Judgement, Project, Retraction, Worker
from annotation.models.arms import describe_arms
from annotation.services.participation.passport import export_passport
from annotation.services.verification.checkpoints import sign_checkpoint
from annotation.storage.event_log import Event
from modelling.exports.formats import compact_json, file_chunks, write_table, zip_chunks
from modelling.exports.points import ExportError, ExportPoint
from modelling.exports.tables.base import format_timestamp
from modelling.exports.tables.model import ranking
from modelling.models import ModelSnapshot, StudySimulation
from modelling.planning.designer import StudyPlan
from modelling.training.inputs import get_read_point, recompute_data_hash
from modelling.training.snapshots import CODE_VERSION
from modelling.training.storage import array_store

FORMAT, FORMAT_VERSION = "concord-archive", 1
MANIFEST, CHECKSUMS, README = "manifest.json", "SHA256SUMS", "README.md"
ITEMS, WORKERS, EVENTS = "items.jsonl", "workers.jsonl", "events.jsonl"
RANKING, RANKING_TABLE = "ranking.jsonl", "ranking.csv"
FILES = (README, MANIFEST, ITEMS, WORKERS, EVENTS, RANKING, RANKING_TABLE, CHECKSUMS)
ROWS_PER_QUERY = 2000
PACKAGES = ("numpy", "scipy", "scikit-learn", "wordllama", "tokenizers", "safetensors")
SIGN = (
    "A higher score means that the item is preferred more often. "
    "Scores are relative: only differences between them have a meaning."
)
TIES = (
    "The model counts a tie as half a preference for each side. It ignores skipped and retracted judgements "
    "and those of excluded workers."
)


def archive_chunks(point: ExportPoint, licence: str = "") -> Iterator[bytes]:
    """Yield the archive of the point's version; ExportError if that version cannot be archived."""
    snapshot = point.required_snapshot
    arrays = _load_arrays(snapshot)
    with tempfile.TemporaryDirectory(prefix="concord-archive-") as name:
        folder = Path(name)
        _write_rows(folder, snapshot, arrays)
        table = ranking(ExportPoint(point.project, snapshot.last_sequence, snapshot))
        for file, format in ((RANKING, "jsonl"), (RANKING_TABLE, "csv")):
            with (folder / file).open("wb") as target:
                write_table(table, format, target)
        manifest = build_manifest(snapshot, licence)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / README).write_text(_readme(snapshot, licence), encoding="utf-8")
        (folder / CHECKSUMS).write_text(format_checksums(folder), encoding="utf-8")
        yield from zip_chunks({file: partial(file_chunks, folder / file) for file in FILES})


def _load_arrays(snapshot: ModelSnapshot) -> array_store.Arrays:
    """Load the arrays of a version that can be refitted from the data stored now; else ExportError."""
    number = {"number": snapshot.number}
    if snapshot.kind != ModelSnapshot.Kind.REFIT:
        message = _("Version %(number)d was not fitted from scratch. Request a fit from scratch first.")
        raise ExportError(message % number)
    try:
        arrays = array_store.load(snapshot.project, snapshot.checksum)
    except array_store.DamagedArrays:
        message = _("The model data of version %(number)d is no longer stored. Request a fit from scratch first.")
        raise ExportError(message % number) from None
    item_ids = arrays["item_ids"].tolist()
    stored_items = Item.objects.in_bulk(item_ids)
    items = [stored_items[pk] for pk in item_ids if pk in stored_items]
    changed = get_read_point(snapshot.project).inputs_revision > snapshot.inputs_revision
    # Features and traits are not part of the data hash.
    has_unhashed_inputs = any(item.features for item in items) or _uses_traits(snapshot)
    if (changed and has_unhashed_inputs) or recompute_data_hash(snapshot, items) != snapshot.data_hash:
        message = _("The inputs have changed since version %(number)d. Request a fit from scratch first.")
        raise ExportError(message % number)
    return arrays


def _write_rows(folder: Path, snapshot: ModelSnapshot, arrays: array_store.Arrays) -> None:
    """Write events in the order of the log, items and workers in the order of their ids, which the fit depends on."""
    items, workers = set(arrays["item_ids"].tolist()), set(arrays["worker_ids"].tolist())
    with (folder / EVENTS).open("w", encoding="utf-8") as file:
        for event in _read_events(snapshot):
            file.write(compact_json(_event_row(event)) + "\n")
            if isinstance(event, Judgement) and not _is_erased(event):
                items |= {event.item_lo_id, event.item_hi_id}
                workers.add(event.worker_id)
    ranked = set(arrays["item_ids"][arrays["ranked"]].tolist())
    all_items = Item.objects.filter(project=snapshot.project).order_by("pk").iterator(ROWS_PER_QUERY)
    _write_lines(folder / ITEMS, (_item_row(item, item.pk in ranked) for item in all_items if item.pk in items))
    all_workers = Worker.objects.filter(project=snapshot.project).order_by("pk").iterator(ROWS_PER_QUERY)
    with_traits = _uses_traits(snapshot)
    arms = snapshot.project.workers.arm_names()
    reasons = ExportPoint(snapshot.project, snapshot.last_sequence, snapshot).exclusion_reasons
    worker_rows = (
        {
            "code": worker.code,
            "traits": worker.traits if with_traits else {},
            "excluded": reasons.get(worker.pk),
            "arm": arms.get(worker.pk),
        }
        for worker in all_workers
        if worker.pk in workers
    )
    _write_lines(folder / WORKERS, worker_rows)


def _uses_traits(snapshot: ModelSnapshot) -> bool:
    """Return whether the fit used workers' questionnaire answers; an archive leaves them out otherwise."""
    return bool(snapshot.settings.get("traits"))


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{compact_json(row)}\n" for row in rows)


def _read_events(snapshot: ModelSnapshot) -> Iterator[Event]:
    """Read all events up to the version's last one, in the order of the log."""
    events = {"project": snapshot.project, "sequence__lte": snapshot.last_sequence}
    judgements = Judgement.objects.filter(**events).select_related("worker", "item_lo", "item_hi", "retraction")
    retractions = Retraction.objects.filter(**events).select_related("judgement__worker", "judgement__retraction")
    streams = (rows.order_by("sequence").iterator(chunk_size=ROWS_PER_QUERY) for rows in (judgements, retractions))
    return heapq.merge(*streams, key=attrgetter("sequence"))


def _is_erased(event: Event) -> bool:
    """Return whether the event was erased with its worker; only its place in the hash chain is exported."""
    judgement = event.judgement if isinstance(event, Retraction) else event
    return judgement.worker.outcome == Worker.ERASED and hasattr(judgement, "retraction")


def _event_row(event: Event) -> dict[str, Any]:
    link = {"sequence": event.sequence, "previous_hash": event.previous_hash, "hash": event.hash}
    if _is_erased(event):
        return {"type": "erased", **link}
    shared = {"uuid": str(event.uuid), "created_at": format_timestamp(event.created_at), **link}
    if isinstance(event, Retraction):
        return {"type": "retraction", "judgement": str(event.judgement.uuid), **shared}
    return {
        "type": "judgement",
        "worker": event.worker.code,
        "lo": [event.item_lo.key, event.item_lo.revision],
        "hi": [event.item_hi.key, event.item_hi.revision],
        "choice": event.choice,
        "skip_reason": event.skip_reason,
        "round": event.round,
        "lo_was_left": event.lo_was_left,
        "source": event.source,
        "response_ms": event.response_ms,
        "clock_doubtful": event.clock_doubtful,
        "late": event.late,
        **shared,
    }


def _item_row(item: Item, ranked: bool) -> dict[str, Any]:
    return {
        "key": item.key,
        "revision": item.revision,
        "text": item.text,
        "group": item.group,
        "metadata": item.metadata,
        "features": item.features,
        "ranked": ranked,
    }


def build_manifest(snapshot: ModelSnapshot, licence: str) -> dict[str, Any]:
    """Describe the study, the version, the software that made it and the meaning of its numbers."""
    checkpoint = sign_checkpoint(snapshot.project, snapshot.last_sequence)
    project, fields = snapshot.project, ("number", "kind", "included", "excluded", "settings", "seed", "data_hash")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "project": {name: getattr(project, name) for name in ("slug", "title", "question", "language", "pairs")},
        "arms": describe_arms(project),
        "licence": licence,
        "passport": export_passport(project, snapshot.created_at),
        "simulation": export_simulation(snapshot),
        "checkpoint": checkpoint.as_dict() if checkpoint else None,
        "version": {
            **{name: getattr(snapshot, name) for name in fields},
            "as_of_seq": snapshot.last_sequence,
            "code_version": snapshot.code_version,
            "checksum": snapshot.checksum,
            "lower_bound": snapshot.lower_bound,
            "refined": snapshot.refined,
            "created_at": format_timestamp(snapshot.created_at),
        },
        "software": {
            "concord": CODE_VERSION,
            "python": platform.python_version(),
            **{name: installed_version(name) for name in PACKAGES},
        },
        "sign": SIGN,
        "ties": TIES,
    }


def export_simulation(snapshot: ModelSnapshot) -> dict[str, Any] | None:
    """The last simulation of the planned study that ended before this version; None if there is none."""
    done = StudySimulation.objects.filter(project=snapshot.project, state=StudySimulation.State.DONE)
    last = done.filter(ended_at__lte=snapshot.created_at).order_by("-ended_at").first()
    if last is None or last.ended_at is None:
        return None
    curves = {"judgements": StudyPlan.from_dict(last.plan).grid(), "crowds": last.crowds}
    return {"plan": last.plan, "pay": last.pay, "ended_at": format_timestamp(last.ended_at), **curves}


def _readme(snapshot: ModelSnapshot, licence: str) -> str:
    traits = ", with the questionnaire answers that the model used" if _uses_traits(snapshot) else ""
    return f"""# {snapshot.project.title}: version {snapshot.number}

Pairwise judgements of texts by a crowd, and the ranking learned from them.
Version {snapshot.number}, fitted from scratch, as of event {snapshot.last_sequence}.
Licence: {licence or "not stated"}.

| file | content |
|---|---|
| `{RANKING}`, `{RANKING_TABLE}` | the ranking, best first: with 95 % intervals of scores and ranks |
| `{EVENTS}` | every judgement and retraction, in the order of the event log, chained by SHA-256 |
| `{ITEMS}` | the judged texts; `ranked` marks those in the ranking |
| `{WORKERS}` | the workers' random codes, in the order in which they joined{traits}; `excluded`: why; `arm` |
| `{MANIFEST}` | settings, seed, data hash, software versions, and the passport: the plan before the first answer |
| `{CHECKSUMS}` | `sha256sum --check {CHECKSUMS}` |

**Sign.** {SIGN} In the events `lo` and `hi` are the two items; `choice` names the preferred one.

**Ties.** {TIES}

**To check the result:** `python manage.py reproduce ARCHIVE.zip` of Concord {snapshot.code_version} refits the model
in an empty database and reports whether the ranking agrees.

**Checkpoint.** `{MANIFEST}` contains the hash of the last event, signed by the server. `manage.py verify --checkpoint
{MANIFEST}`, run on that server, shows whether its events up to this one are still the same.

People appear under random codes. Their questionnaire answers are included only if the model used them. An event of
type `erased` was removed with the data of an erased person; only its place in the hash chain is left.
"""


def format_checksums(folder: Path) -> str:
    """Format the checksums of all other files as `sha256sum --check` reads them."""
    return "".join(f"{_sha256(folder / name)}  {name}\n" for name in sorted(FILES) if name != CHECKSUMS)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def newest_refit(project: Project, inputs_revision: int = 0) -> ModelSnapshot | None:
    """Return the newest version fitted from scratch with at least this revision of the inputs."""
    refits = ModelSnapshot.objects.filter(project=project, kind=ModelSnapshot.Kind.REFIT, pruned_at=None)
    matching = refits.filter(inputs_revision__gte=inputs_revision).select_related("project")
    return matching.order_by("-number").first()
