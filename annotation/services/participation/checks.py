"""Checks between pairs: attention checks, and gold pairs whose answer the researcher has written down.

Neither is a judgement, so the model never sees their answers. An attention check is an instruction in both texts,
within Prolific's rules: one failed check has no consequence. The answer to a gold pair is an opinion all the same, so
the rule for gold pairs is fixed before the study opens and never rejects anyone.
"""

import uuid as uuids
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone
from django.utils.translation import gettext as _

from annotation.exceptions import BUTTONS
from annotation.models import Preparation, Project, Worker, WorkerCheck

FAILURES = 2  # failed attention checks that lead to the outcome “failed checks”
ATTENTION, GOLD = WorkerCheck.Kind.ATTENTION, WorkerCheck.Kind.GOLD
rng = SystemRandom()


def check_positions(quota: int, checks: int) -> list[int]:
    """The number of judgements before each check: evenly spread, not at the start or the end."""
    return [max(1, round(quota * number / (checks + 1))) for number in range(1, checks + 1)]


def has_checks(project: Project) -> bool:
    return bool(project.attention_checks or project.gold_checks)


def add_check(task: dict[str, Any], worker: Worker) -> dict[str, Any]:
    """Insert a check before the worker's next pair if one is due.

    The page shows pairs ahead, so a check that is due near the end may come after the last pair.
    """
    if has_checks(worker.project) and _may_continue(task, worker) and (check := _due_check(worker, task["done"])):
        task["pairs"].insert(0, _check_payload(check))
    return task


def _may_continue(task: dict[str, Any], worker: Worker) -> bool:
    """Whether the worker has pairs left, or has judged all of them but not ended the participation."""
    return bool(task["pairs"]) or (task["done"] >= task["total"] and worker.ended_at is None)


def _due_check(worker: Worker, done: int) -> WorkerCheck | None:
    checks = list(worker.checks.all())
    if checks and checks[-1].answered_at is None:
        return checks[-1]
    project = worker.project
    positions = check_positions(worker.judgements_wanted, project.attention_checks + project.gold_checks)
    if len(checks) >= len(positions) or done < positions[len(checks)]:
        return None
    try:
        with transaction.atomic():
            return _create(worker, checks)
    except IntegrityError:  # another tab was faster
        return worker.checks.filter(answered_at=None).first()


def _create(worker: Worker, earlier: list[WorkerCheck]) -> WorkerCheck | None:
    """Store the worker's next check; None if the gold pairs have been removed in the meantime."""
    pair = _next_pair(worker, earlier)
    if pair is None:
        return None
    expected = rng.choice(["left", "right"])
    if pair:  # store the texts as shown, because the owner may change them later
        other = "right" if expected == "left" else "left"
        pair = {expected: pair["better"], other: pair["worse"]}
    values = {"kind": GOLD if pair else ATTENTION, "pair": pair, "expected": expected}
    return WorkerCheck.objects.create(project=worker.project, worker=worker, number=len(earlier) + 1, **values)


def _next_pair(worker: Worker, earlier: list[WorkerCheck]) -> dict[str, str] | None:
    """The gold pair for the worker's next check; empty for an attention check.

    The worker's code decides which gold pairs they get and in which order the checks come.
    """
    order, project = Random(worker.code), worker.project  # noqa: S311
    kinds = [ATTENTION] * project.attention_checks + [GOLD] * project.gold_checks
    order.shuffle(kinds)
    if kinds[len(earlier)] == ATTENTION:
        return {}
    stored = Preparation.objects.filter(project=project).values_list("gold", flat=True).first() or []
    pairs = order.sample(stored, len(stored))
    number = sum(check.kind == GOLD for check in earlier)
    return pairs[number] if number < len(pairs) else None


def _check_payload(check: WorkerCheck) -> dict[str, Any]:
    texts = check.pair
    if not texts:
        button = {"button": BUTTONS[check.expected]}
        text = _("This is an attention check. To show that you read the texts, please choose “%(button)s”.") % button
        texts = {"left": text, "right": text}
    sides = {side: {"text": texts[side], "group": ""} for side in ("left", "right")}
    return {"assignment": str(check.public_id), **sides}


def is_check_due(worker: Worker, done: int) -> bool:
    """Whether a worker who has judged this many pairs still has to answer a check."""
    return has_checks(worker.project) and _due_check(worker, done) is not None


def record_check(*, worker: Worker, assignment: uuids.UUID, choice: str) -> bool:
    """Store the answer to a check; False if this is not a check of this worker. The first answer counts."""
    checks = WorkerCheck.objects.filter(worker=worker, public_id=assignment)
    stored = checks.filter(answered_at=None).update(choice=choice, answered_at=timezone.now())
    return bool(stored) or checks.exists()


@dataclass(frozen=True)
class CheckResult:
    """A worker's check results. `flagged` is the result of the rule for gold pairs."""

    attention: int = 0
    attention_failed: int = 0
    gold: int = 0
    gold_wrong: int = 0
    flagged: bool = False

    @property
    def allows_rejection(self) -> bool:
        """Whether enough attention checks failed for Prolific to allow a rejection."""
        return self.attention_failed >= FAILURES


def list_results(project: Project, **conditions: Any) -> dict[int, CheckResult]:
    """The results of each worker who has answered checks, keyed by primary key."""
    limit = Preparation.objects.filter(project=project).values_list("gold_limit", flat=True).first() or 0
    answered = WorkerCheck.objects.filter(project=project, answered_at__isnull=False, **conditions)
    counts: dict[int, dict[str, int]] = {}
    for worker, kind, is_right in answered.values_list("worker", "kind", _is_right()):
        own = counts.setdefault(worker, dict.fromkeys(("attention", "attention_failed", "gold", "gold_wrong"), 0))
        own[kind] += 1
        own["attention_failed" if kind == ATTENTION else "gold_wrong"] += not is_right
    return {
        worker: CheckResult(**own, flagged=bool(limit) and own["gold_wrong"] >= limit) for worker, own in counts.items()
    }


def _is_right() -> Any:
    """Whether the answer is the expected one; a tie and “can't decide” are not."""
    return Case(When(choice=F("expected"), then=Value(True)), default=Value(False))


def get_result(worker: Worker) -> CheckResult:
    if not has_checks(worker.project):
        return CheckResult()
    return list_results(worker.project, worker=worker).get(worker.pk, CheckResult())


def has_failed(worker: Worker) -> bool:
    """Whether a worker who has answered everything they could ends with the outcome “failed checks”."""
    result = get_result(worker)
    rules = Preparation.objects.filter(project=worker.project).values_list("gold_consequence", flat=True)
    return result.allows_rejection or (result.flagged and rules.first() == Preparation.Consequence.FAILED_CHECKS)
