"""Small studies with everything an export must handle: ties, skips, retractions, formulas, tabs and line breaks."""

import csv
import io
import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation.models import Item, Judgement, PlatformIdentity, Project, Retraction, TrialAnswer, Worker, WorkerCheck
from annotation.storage import event_log
from modelling.exports.catalogue import TABLES, build_export
from modelling.exports.points import resolve_point
from modelling.exports.tables.base import ExportTable
from modelling.models import ModelSnapshot
from modelling.updater.update import update_one
from tests.modelling.samples.cached_fits import shared_fits
from tests.modelling.samples.histories import answer, make_study

TEXTS = ("=1+1 is two.", "Dogs bark\nat night.", "Fish\tare quiet, “pets”.", "Birds <b>sing</b>.", "Hamsters sleep.")
CHOICES = ("first", "second", "tie", "first")


def odd_study(slug: str = "odd", workers: int = 4) -> Project:
    """Every worker judges every pair; one pair is skipped and one judgement retracted."""
    project = make_study(slug, texts=TEXTS, n_components=1)
    Item.objects.filter(project=project, key="item-0").update(key="=item-0", group="one")
    Item.objects.filter(project=project, key="item-4").update(group="two/other")
    pairs = [(a, b) for b in range(len(TEXTS)) for a in range(b)]
    answer(project, [(who, a, b, CHOICES[(who + a + b) % 4]) for who in range(workers) for a, b in pairs])
    answer(project, [(0, 0, 1, "skip")])
    retract(project, sequence=2)
    for number, worker in enumerate(Worker.objects.filter(project=project).order_by("pk")):
        Worker.objects.filter(pk=worker.pk).update(traits={"age": ("young", "old")[number % 2]})
        PlatformIdentity.objects.filter(worker=worker).delete()
        PlatformIdentity.objects.create(project=project, worker=worker, platform="import", external_id=worker.code)
    add_checks(project)
    left, right = Item.objects.filter(project=project).order_by("pk")[:2]
    TrialAnswer.objects.create(uuid=uuid.uuid4(), project=project, left=left, right=right, choice="left")
    return project


def add_checks(project: Project) -> None:
    """A gold pair answered wrongly, and an attention check without an answer."""
    worker = Worker.objects.filter(project=project).earliest("pk")
    rows = {"project": project, "worker": worker, "expected": "left"}
    texts = {"left": "=Good\nreason.", "right": "Bad\treason."}
    answered = {"choice": "right", "answered_at": timezone.now()}
    WorkerCheck.objects.create(number=1, kind="gold", pair=texts, **answered, **rows)
    WorkerCheck.objects.create(number=2, **rows)


def retract(project: Project, sequence: int) -> None:
    judgement = Judgement.objects.get(project=project, sequence=sequence)
    undo = Retraction(uuid=uuid.uuid4(), project=project, judgement=judgement, created_at=timezone.now())
    with transaction.atomic():
        event_log.append([undo])


def fit(project: Project) -> ModelSnapshot:
    with shared_fits():
        snapshot = update_one("test", project)
    assert snapshot is not None
    return snapshot


def export_bytes(project: Project, what: str, format: str = "", **point: Any) -> bytes:
    return b"".join(build_export(resolve_point(project, **point), what, format).chunks())


def export_table(project: Project, what: str) -> ExportTable:
    return TABLES[what](resolve_point(project))


def csv_rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


FIXED = (  # worker, first item, second item, choice, whether the first item was left, skip reason
    ("w0", 0, 1, "lo", True, ""),
    ("w0", 1, 2, "hi", False, ""),
    ("w1", 0, 1, "tie", None, ""),
    ("w1", 0, 4, "hi", True, ""),
    ("w1", 2, 3, "skip", True, "both_poor"),
    ("w2", 0, 1, "hi", False, ""),
    ("w2", 3, 4, "skip", True, "other"),
    ("w2", 1, 3, "lo", True, ""),
)


def fixed_study() -> Project:
    """Same codes, ids and times on every call, for golden files; the last judgement is retracted."""
    project = make_study("fixed", texts=TEXTS, n_components=1)
    Item.objects.filter(project=project, key="item-0").update(key="=item-0")
    Item.objects.filter(project=project, key="item-4").update(group="two/other")
    items = list(Item.objects.filter(project=project).order_by("pk"))
    people = {code: Worker.objects.create(project=project, code=code) for code in ("w0", "w1", "w2")}
    rows = [
        Judgement(
            uuid=uuid.UUID(int=number),
            project=project,
            worker=people[code],
            item_lo=items[lo],
            item_hi=items[hi],
            choice=choice,
            lo_was_left=shown_left,
            skip_reason=reason,
            source=Judgement.Source.SIMULATED,
            response_ms=1000 * number,
            created_at=datetime(2026, 1, 2, 3, 4, number, 500000, tzinfo=UTC),
        )
        for number, (code, lo, hi, choice, shown_left, reason) in enumerate(FIXED, start=1)
    ]
    with transaction.atomic():
        event_log.append(rows)
    retract(project, sequence=len(FIXED))
    return project
