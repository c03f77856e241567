"""Assess a version's workers in the background, and read the stored assessments."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import numpy as np
from django.db.models.functions import Length

from annotation.models import Item, Project, Worker
from modelling.findings.workers.assessment import WorkerFacts, assess_workers
from modelling.findings.workers.patterns import AnswerSheet
from modelling.models import ModelSnapshot, WorkerAssessment
from modelling.training.inputs import PREFERENCE
from modelling.training.snapshots import FittedModel
from modelling.training.votes import training_judgements

log = logging.getLogger("concord.assessments")

MAX_JUDGEMENTS = 200_000  # larger studies have no assessments
ROWS_PER_INSERT = 200


def assess_version(snapshot: ModelSnapshot, fitted: FittedModel) -> int:
    """Write the assessments of a version that was fitted from scratch; return their number.

    A step changes little for most workers, so its version uses the assessments of an earlier one. The published
    algorithm has no posterior without one worker, so its versions have none. A failure is logged, writes nothing and
    does not affect the version.
    """
    if snapshot.kind != ModelSnapshot.Kind.REFIT or snapshot.included > MAX_JUDGEMENTS or snapshot.as_published:
        return 0
    try:
        rows = [build_row(snapshot, fitted, facts) for facts in assess_workers(*read_study(snapshot, fitted))]
    except Exception:  # log any error: the version is kept without assessments
        log.exception("no assessments", extra={"project": snapshot.project.slug, "snapshot": snapshot.number})
        return 0
    WorkerAssessment.objects.bulk_create(rows, batch_size=ROWS_PER_INSERT, ignore_conflicts=True)
    return len(rows)


def read_study(snapshot: ModelSnapshot, fitted: FittedModel) -> tuple[Any, AnswerSheet, Any]:
    """The model, its judgements in order of time, and the positions of the ranked items."""
    fields = ("worker", "item_lo", "item_hi", "choice", "lo_was_left", "response_ms")
    worker_at, item_at = fitted.worker_index, fitted.item_index
    lengths = dict(Item.objects.filter(project=snapshot.project_id).values_list("pk", Length("text")))
    rows = []
    for worker, lo, hi, choice, lo_left, ms in training_judgements(snapshot).order_by("sequence").values_list(*fields):
        if worker in worker_at and lo in item_at and hi in item_at:
            y = PREFERENCE[choice]
            left = np.nan if lo_left is None or y == 0.5 else float((y == 1.0) == lo_left)
            characters = lengths.get(lo, 0) + lengths.get(hi, 0)
            time = np.nan if ms is None else ms
            rows.append((worker_at[worker], item_at[lo], item_at[hi], y, left, time, characters))
    columns = list(zip(*rows, strict=True)) or [()] * 7
    u, a, b = (np.array(column, dtype=np.int64) for column in columns[:3])
    facts = [np.array(column, dtype=np.float64) for column in columns[3:]]
    return fitted.model, AnswerSheet(u, a, b, *facts), fitted.ranked


def build_row(snapshot: ModelSnapshot, fitted: FittedModel, facts: WorkerFacts) -> WorkerAssessment:
    evidence: dict[str, Any] = {name: getattr(facts, name) for name in ("predicted", "agreed", "since", "moved")}
    evidence |= asdict(facts.patterns) | {"ranked": len(fitted.ranked), "signs": facts.automation_signs}
    if facts.like is not None:
        evidence["alike"] = [int(fitted.worker_ids[facts.like]), facts.same, facts.shared]
    if facts.largest_move:
        item, before, after = facts.largest_move
        evidence["largest_move"] = [int(fitted.item_ids[item]), before, after]
    return WorkerAssessment(
        snapshot=snapshot,
        worker_id=int(fitted.worker_ids[facts.worker]),
        answers=facts.n,
        careless=round(facts.careless, 4),
        different=round(facts.different, 4),
        ordinary=round(facts.ordinary, 4),
        evidence=evidence,
    )


def get_assessments(project: Project, snapshot: ModelSnapshot) -> dict[int, WorkerAssessment]:
    """The assessments that a version shows, by worker: its own or the last ones before it.

    Workers who have been excluded since then have no newer assessment, so they keep the last one made before that.
    """
    rows = _until(snapshot).filter(worker__in=Worker.objects.visible().filter(project=project))
    newest = rows.order_by("-snapshot__number").values_list("snapshot", flat=True).first()
    if newest is None:
        return {}
    excluded = rows.filter(worker__exclusions__until_revision=None, worker__exclusions__isnull=False)
    found = {row.worker_id: row for row in excluded.order_by("snapshot__number")}
    return found | {row.worker_id: row for row in rows.filter(snapshot=newest)}


def get_assessment(worker: Worker, snapshot: ModelSnapshot) -> WorkerAssessment | None:
    return _until(snapshot).filter(worker=worker).order_by("-snapshot__number").first()


def _until(snapshot: ModelSnapshot) -> Any:
    """The assessments of this and earlier versions; those of another engine do not describe a version."""
    rows = WorkerAssessment.objects.filter(snapshot__project=snapshot.project_id)
    if snapshot.as_published:
        return rows.none()
    return rows.filter(snapshot__number__lte=snapshot.number).select_related("snapshot")
