"""One zip with everything needed to check a result: events, items, settings, seed, versions, checksums, a README.

It is made from a version that was fitted from scratch, because that can be fitted again from the log alone
(`reproducing.py`). The same version gives the same bytes.
"""

import hashlib
import heapq
import json
import platform
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version as installed
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from annotation.ledger import Event
from annotation.models import Item, Judgement, Project, Retraction, Worker
from modelling import arrays
from modelling.exporting.formats import plain_json, write
from modelling.exporting.outcomes import ranking
from modelling.exporting.points import NoExport, Point
from modelling.exporting.tables import at
from modelling.exporting.zips import read, zipped
from modelling.inputs import data_hash_again, moment_of
from modelling.models import ModelSnapshot
from modelling.snapshots import CODE_VERSION

FORMAT, FORMAT_VERSION = "concord-archive", 1
MANIFEST, SUMS, README = "manifest.json", "SHA256SUMS", "README.md"
ITEMS, WORKERS, EVENTS = "items.jsonl", "workers.jsonl", "events.jsonl"
RANKING, RANKING_TABLE = "ranking.jsonl", "ranking.csv"
NAMES = (README, MANIFEST, ITEMS, WORKERS, EVENTS, RANKING, RANKING_TABLE, SUMS)
CHUNK = 2000
PACKAGES = ("numpy", "scipy", "scikit-learn", "wordllama", "tokenizers", "safetensors")
SIGN = (
    "A higher score means that the item is preferred more often. Scores are differences: only their gaps mean anything."
)
TIES = "A tie is learned as half a preference for each side. Skipped and retracted judgements are not learned from."


def archived(point: Point, licence: str = "") -> Iterator[bytes]:
    """The archive of the point's version, piece by piece; NoExport where it cannot be made from that one."""
    snapshot = point.known
    stored = _arrays_of(snapshot)
    with tempfile.TemporaryDirectory(prefix="concord-archive-") as name:
        folder = Path(name)
        _write_rows(folder, snapshot, stored)
        table = ranking(Point(point.project, snapshot.last_sequence, snapshot))
        for file, format in ((RANKING, "jsonl"), (RANKING_TABLE, "csv")):
            with (folder / file).open("wb") as target:
                write(table, format, target)
        manifest = manifest_of(snapshot, licence)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / README).write_text(_readme(snapshot, licence), encoding="utf-8")
        (folder / SUMS).write_text(sums_in(folder), encoding="utf-8")
        yield from zipped({file: partial(read, folder / file) for file in NAMES})


def _arrays_of(snapshot: ModelSnapshot) -> arrays.Arrays:
    """Which items and workers the version knew; NoExport where the version cannot be fitted again."""
    number = {"number": snapshot.number}
    if snapshot.kind != ModelSnapshot.Kind.REFIT:
        raise NoExport(_("Version %(number)d was not fitted from scratch; ask for a fit from scratch first.") % number)
    try:
        stored = arrays.load(snapshot.project, snapshot.checksum)
    except arrays.Damaged:
        words = _("The arrays of version %(number)d are gone; ask for a fit from scratch first.")
        raise NoExport(words % number) from None
    known = Item.objects.in_bulk(stored["item_ids"].tolist())
    items = [known[pk] for pk in stored["item_ids"].tolist() if pk in known]
    changed = moment_of(snapshot.project).inputs_revision > snapshot.inputs_revision
    loose = any(item.features for item in items) or _learns_from_traits(snapshot)  # what no hash holds
    if (changed and loose) or data_hash_again(snapshot, items) != snapshot.data_hash:
        words = _("The inputs have changed since version %(number)d; ask for a fit from scratch first.")
        raise NoExport(words % number)
    return stored


def _write_rows(folder: Path, snapshot: ModelSnapshot, stored: arrays.Arrays) -> None:
    """Items and workers in the order in which they came, which the fit keeps to, and the events in theirs."""
    items, workers = set(stored["item_ids"].tolist()), set(stored["worker_ids"].tolist())
    with (folder / EVENTS).open("w", encoding="utf-8") as file:
        for event in _events(snapshot):
            file.write(plain_json(_said(event)) + "\n")
            if isinstance(event, Judgement) and not _is_gone(event):
                items |= {event.item_lo_id, event.item_hi_id}
                workers.add(event.worker_id)
    ranked = set(stored["item_ids"][stored["ranked"]].tolist())
    rows = Item.objects.filter(project=snapshot.project).order_by("pk").iterator(CHUNK)
    _write_lines(folder / ITEMS, (_item(row, row.pk in ranked) for row in rows if row.pk in items))
    people = Worker.objects.filter(project=snapshot.project).order_by("pk").iterator(CHUNK)
    told = _learns_from_traits(snapshot)
    rows_of_people = (
        {"code": worker.code, "traits": worker.traits if told else {}} for worker in people if worker.pk in workers
    )
    _write_lines(folder / WORKERS, rows_of_people)


def _learns_from_traits(snapshot: ModelSnapshot) -> bool:
    """Whether what workers told about themselves is part of the fit; otherwise an archive has no business with it."""
    return bool(snapshot.settings.get("traits"))


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{plain_json(row)}\n" for row in rows)


def _events(snapshot: ModelSnapshot) -> Iterator[Event]:
    """All that the version had read, in the order of the log."""
    known = {"project": snapshot.project, "sequence__lte": snapshot.last_sequence}
    judgements = Judgement.objects.filter(**known).select_related("worker", "item_lo", "item_hi", "retraction")
    retractions = Retraction.objects.filter(**known).select_related("judgement__worker", "judgement__retraction")
    streams = (rows.order_by("sequence").iterator(chunk_size=CHUNK) for rows in (judgements, retractions))
    return heapq.merge(*streams, key=attrgetter("sequence"))


def _is_gone(event: Event) -> bool:
    """Whether an erased person took this along: only its place in the chain is left."""
    judgement = event.judgement if isinstance(event, Retraction) else event
    return judgement.worker.outcome == Worker.ERASED and hasattr(judgement, "retraction")


def _said(event: Event) -> dict[str, Any]:
    place = {"sequence": event.sequence, "previous_hash": event.previous_hash, "hash": event.hash}
    if _is_gone(event):
        return {"type": "erased", **place}
    told = {"uuid": str(event.uuid), "created_at": at(event.created_at), **place}
    if isinstance(event, Retraction):
        return {"type": "retraction", "judgement": str(event.judgement.uuid), **told}
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
        **told,
    }


def _item(item: Item, ranked: bool) -> dict[str, Any]:
    return {
        "key": item.key,
        "revision": item.revision,
        "text": item.text,
        "group": item.group,
        "metadata": item.metadata,
        "features": item.features,
        "ranked": ranked,
    }


def manifest_of(snapshot: ModelSnapshot, licence: str) -> dict[str, Any]:
    """Which study, which version, by what it was made, and what its numbers mean."""
    project, facts = snapshot.project, ("number", "kind", "included", "excluded", "settings", "seed", "data_hash")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "project": {name: getattr(project, name) for name in ("slug", "title", "question", "language", "pairs")},
        "licence": licence,
        "version": {
            **{name: getattr(snapshot, name) for name in facts},
            "as_of_seq": snapshot.last_sequence,
            "code_version": snapshot.code_version,
            "checksum": snapshot.checksum,
            "lower_bound": snapshot.lower_bound,
            "refined": snapshot.refined,
            "created_at": at(snapshot.created_at),
        },
        "software": {
            "concord": CODE_VERSION,
            "python": platform.python_version(),
            **{name: installed(name) for name in PACKAGES},
        },
        "sign": SIGN,
        "ties": TIES,
    }


def _readme(snapshot: ModelSnapshot, licence: str) -> str:
    traits = (
        ", with their answers about themselves, from which the model learned" if _learns_from_traits(snapshot) else ""
    )
    return f"""# {snapshot.project.title}: version {snapshot.number}

What a crowd said about pairs of texts, and the ranking that was learned from it.
Version {snapshot.number}, fitted from scratch, as of event {snapshot.last_sequence}.
Licence: {licence or "not stated"}.

| file | what it holds |
|---|---|
| `{RANKING}`, `{RANKING_TABLE}` | the ranking, best first: 95 % intervals of scores, 90 % intervals of ranks |
| `{EVENTS}` | every judgement and every undoing, in the order of the log, chained by SHA-256 |
| `{ITEMS}` | the texts that were judged; `ranked` are those in the ranking |
| `{WORKERS}` | the workers' random codes, in the order in which they joined{traits} |
| `{MANIFEST}` | settings, seed, data hash and versions of all that made the ranking |
| `{SUMS}` | `sha256sum --check {SUMS}` |

**Sign.** {SIGN} In the events `lo` and `hi` are the two items; `choice` names the one that was preferred.

**Ties.** {TIES}

**To check the result:** `python manage.py reproduce ARCHIVE.zip` of Concord {snapshot.code_version} fits the model
again in an empty database and says whether the ranking agrees.

People appear under random codes. Their answers about themselves are in this archive only where the model learned from
them. An event of the type `erased` was taken out with the person who gave it; only its place in the chain is left.
"""


def sums_in(folder: Path) -> str:
    """The checksums of all files but their own, in the form that `sha256sum --check` reads."""
    return "".join(f"{_sha256(folder / name)}  {name}\n" for name in sorted(NAMES) if name != SUMS)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def newest_refit(project: Project, inputs_revision: int = 0) -> ModelSnapshot | None:
    """The newest version fitted from scratch with these inputs or later ones."""
    refits = ModelSnapshot.objects.filter(project=project, kind=ModelSnapshot.Kind.REFIT, pruned_at=None)
    known = refits.filter(inputs_revision__gte=inputs_revision).select_related("project")
    return known.order_by("-number").first()
