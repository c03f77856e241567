"""Attention checks between pairs: an instruction in both texts, within Prolific's rules.

Checks are never pairs of items, because the answer to a pair is an opinion. One failed check has no consequence.
"""

import uuid as uuids
from random import SystemRandom
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from annotation.exceptions import BUTTONS
from annotation.models import AttentionCheck, Worker

FAILURES = 2  # failed checks from which the outcome is “failed checks”
rng = SystemRandom()


def check_positions(quota: int, checks: int) -> list[int]:
    """After how many judgements each check comes: evenly spread, not at the start or the end."""
    return [max(1, round(quota * number / (checks + 1))) for number in range(1, checks + 1)]


def add_check(task: dict[str, Any], worker: Worker) -> dict[str, Any]:
    """Put a check that is due before the worker's next pair."""
    if worker.project.attention_checks and task["pairs"] and (check := _due_check(worker, task["done"])):
        task["pairs"].insert(0, _check_payload(check))
    return task


def _due_check(worker: Worker, done: int) -> AttentionCheck | None:
    checks = list(worker.attention_checks.all())
    if checks and checks[-1].answered_at is None:
        return checks[-1]
    positions = check_positions(worker.project.judgements_per_worker, worker.project.attention_checks)
    if len(checks) >= len(positions) or done < positions[len(checks)]:
        return None
    try:
        with transaction.atomic():
            return AttentionCheck.objects.create(
                project=worker.project, worker=worker, number=len(checks) + 1, expected=rng.choice(["left", "right"])
            )
    except IntegrityError:  # another tab was faster
        return worker.attention_checks.filter(answered_at=None).first()


def _check_payload(check: AttentionCheck) -> dict[str, Any]:
    button = {"button": BUTTONS[check.expected]}
    text = _("This is an attention check. To show that you read the texts, please choose “%(button)s”.") % button
    side = {"text": text, "group": ""}
    return {"assignment": str(check.public_id), "left": side, "right": side}


def record_check(*, worker: Worker, assignment: uuids.UUID, choice: str) -> bool:
    """Store the answer to a check; False if this is not a check of this worker. The first answer counts."""
    if not worker.project.attention_checks:
        return False
    checks = AttentionCheck.objects.filter(worker=worker, public_id=assignment)
    stored = checks.filter(answered_at=None).update(choice=choice, answered_at=timezone.now())
    return bool(stored) or checks.exists()


def failed_checks(worker: Worker) -> int:
    """How many checks the worker answered against the instruction."""
    answered = worker.attention_checks.exclude(answered_at=None).values_list("choice", "expected")
    return sum(choice != expected for choice, expected in answered)
