"""A worker's copy of their own data: participation, questionnaire, platform IDs and answers."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from annotation.models import Judgement, PlatformIdentity, Worker, WorkerCheck

ANSWER_COLUMNS = [
    "number", "first", "second", "answer", "skip_reason", "note", "response_ms", "answered_at", "undone_at",
]  # fmt: skip
NOT_COPIED = {"id", "project", "worker"}  # columns that only link rows


def copy_of_data(worker: Worker) -> dict[str, Any]:
    """The worker's state, outcome and times, questionnaire, platform IDs, answers and check answers."""
    project = worker.project
    return {
        "study": {"title": project.title, "question": project.question, "address": project.get_judging_url()},
        "participation_code": worker.code,
        "state": worker.state,
        "outcome": worker.outcome,
        "joined_at": _timestamp(worker.joined_at),
        "consented_at": _timestamp(worker.consented_at),
        "questionnaire": worker.traits | worker.answers,
        "platform_ids": [_platform_id(identity) for identity in PlatformIdentity.objects.filter(worker=worker)],
        "answers": list(copy_of_answers(worker)),
        "answers_to_checks": [_check(check) for check in worker.checks.exclude(answered_at=None)],
    }


def copy_of_answers(worker: Worker) -> Iterator[dict[str, Any]]:
    """Every answer in order, as the worker saw the pair, including those that were undone."""
    judgements = worker.judgements.order_by("sequence").select_related("item_lo", "item_hi", "note", "retraction")
    return (_answer(number, judgement) for number, judgement in enumerate(judgements, start=1))


def _answer(number: int, judgement: Judgement) -> dict[str, Any]:
    lo, hi = judgement.item_lo.text, judgement.item_hi.text
    first, second = (lo, hi) if judgement.lo_was_left else (hi, lo)
    choice = judgement.choice_shown
    retraction, note = getattr(judgement, "retraction", None), getattr(judgement, "note", None)
    answer = {"left": "first", "right": "second"}.get(choice, choice)
    details = [answer, judgement.skip_reason, note.text if note else "", judgement.response_ms]
    times = [_timestamp(judgement.created_at), _timestamp(retraction.created_at) if retraction else None]
    return dict(zip(ANSWER_COLUMNS, [number, first, second, *details, *times], strict=True))


def _check(check: WorkerCheck) -> dict[str, Any]:
    """The answer to an attention check or a gold pair."""
    answer = {"left": "first", "right": "second"}.get(check.choice, check.choice)
    texts = {"first": check.pair.get("left", ""), "second": check.pair.get("right", "")}
    return {"kind": check.kind, **texts, "answer": answer, "answered_at": _timestamp(check.answered_at)}


def _platform_id(identity: PlatformIdentity) -> dict[str, str]:
    fields = [field.name for field in PlatformIdentity._meta.concrete_fields if field.name not in NOT_COPIED]
    return {name: str(getattr(identity, name)) for name in fields}


def _timestamp(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None
