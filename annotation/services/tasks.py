"""A worker's task as JSON: the next pairs, the progress, and the judgement that can be undone."""

from random import SystemRandom
from typing import Any
from uuid import UUID

from annotation.models import Assignment, Item, Judgement, Project, Worker
from annotation.services.judging import is_recent
from annotation.services.pairs.leasing import lease_pairs
from annotation.storage import queries

rng = SystemRandom()


def build_task(worker: Worker, done: int | None = None, last: Judgement | None = None) -> dict[str, Any]:
    """Lease the worker's next pairs and build the task that the judging page and API clients get.

    `done` and `last` save two queries if the request has just stored a judgement.
    """
    done = queries.count_judgements(worker) if done is None else done
    last = last or Judgement.objects.not_retracted().filter(worker=worker).order_by("-sequence").first()
    finished = worker.state == Worker.State.FINISHED
    over = worker.ended_at or worker.suspended
    undo = last if last and not over and (not finished or is_recent(last)) else None
    leases = lease_pairs(worker=worker, rng=rng, done=done)
    return {
        "pairs": [_lease_payload(lease, worker.project) for lease in leases],
        "done": done,
        "total": worker.judgements_wanted,
        "undo": str(undo.uuid) if undo else None,
        "undo_choice": undo.choice_shown if undo else None,
        "finished": finished,
    }


def empty_task(project: Project) -> dict[str, Any]:
    """A task without pairs, for someone who has judged nothing."""
    none: dict[str, Any] = {"pairs": [], "done": 0, "total": project.judgements_per_worker}
    return {**none, "undo": None, "undo_choice": None, "finished": False}


def _lease_payload(lease: Assignment, project: Project) -> dict[str, Any]:
    return pair_payload(lease.public_id, lease.left, lease.right, project)


def pair_payload(assignment: UUID | int, left: Item, right: Item, project: Project) -> dict[str, Any]:
    """Build a pair for the judging page, with the ID that its answer must send back."""
    return {
        "assignment": str(assignment),
        "left": item_payload(left, project),
        "right": item_payload(right, project),
    }


def item_payload(item: Item, project: Project) -> dict[str, str]:
    """Build the part of an item that workers may see: no key, no score, nothing about other workers."""
    return {"text": item.text, "group": item.group if project.group_shown else ""}
