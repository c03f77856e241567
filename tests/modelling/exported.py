"""A small study with everything an export must cope with: ties, skips, undos, formulas, tabs and line breaks."""

import csv
import io
import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation import ledger
from annotation.models import Item, Judgement, Project, Retraction, Worker
from modelling import exporting
from modelling.models import ModelSnapshot
from modelling.updating import run_one
from tests.modelling.histories import answer, make_study

TEXTS = ("=1+1 is two.", "Dogs bark\nat night.", "Fish\tare quiet, “pets”.", "Birds <b>sing</b>.", "Hamsters sleep.")
SAID = ("first", "second", "tie", "first")


def odd_study(slug: str = "odd", workers: int = 4) -> Project:
    """Every worker on every pair, one of them skipped and one taken back."""
    project = make_study(slug, texts=TEXTS, n_components=1, n_inducing_items=10)
    Item.objects.filter(project=project, key="item-0").update(key="=item-0", group="one")
    Item.objects.filter(project=project, key="item-4").update(group="two/other")
    pairs = [(a, b) for b in range(len(TEXTS)) for a in range(b)]
    answer(project, [(who, a, b, SAID[(who + a + b) % 4]) for who in range(workers) for a, b in pairs])
    answer(project, [(0, 0, 1, "skip")])
    retract(project, sequence=2)
    for number, worker in enumerate(Worker.objects.filter(project=project).order_by("pk")):
        Worker.objects.filter(pk=worker.pk).update(traits={"age": ("young", "old")[number % 2]})
    return project


def retract(project: Project, sequence: int) -> None:
    judgement = Judgement.objects.get(project=project, sequence=sequence)
    undo = Retraction(uuid=uuid.uuid4(), project=project, judgement=judgement, created_at=timezone.now())
    with transaction.atomic():
        ledger.append([undo])


def learned(project: Project) -> ModelSnapshot:
    snapshot = run_one("test", project)
    assert snapshot is not None
    return snapshot


def bytes_of(project: Project, what: str, format: str = "", **point: Any) -> bytes:
    return b"".join(exporting.export_at(exporting.point_of(project, **point), what, format).pieces())


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


FIXED = (  # worker, first item, second item, choice, which was shown first, why skipped
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
    """The same codes, ids and times whenever it is made, for golden files; its last judgement is taken back."""
    project = make_study("fixed", texts=TEXTS, n_components=1, n_inducing_items=10)
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
        ledger.append(rows)
    retract(project, sequence=len(FIXED))
    return project
