"""A small study with everything an export must cope with: ties, skips, undos, formulas, tabs and line breaks."""

import csv
import io
import uuid
from typing import Any

from django.db import transaction
from django.utils import timezone

from annotation import ledger
from annotation.models import Item, Judgement, Project, Retraction
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
