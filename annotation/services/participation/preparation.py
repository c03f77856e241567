"""Before the first pair: practice with feedback, then a comprehension check with two attempts."""

from typing import Any

from django.db import transaction
from django.db.models import F

from annotation.models import Preparation, Project, User, Worker
from annotation.services.participation.outcomes import set_outcome
from annotation.services.projects import audit, change_project
from annotation.storage.write_lock import serialise_writes

MAX_ATTEMPTS = 2  # Prolific requires at least two, and that no one is rejected for failing


def get_preparation(project: Project) -> Preparation:
    """The project's preparation; an empty one if none was saved."""
    return Preparation.objects.filter(project=project).first() or Preparation(project=project)


@transaction.atomic
def change_preparation(*, project: Project, user: User | None, practice: list[Any], comprehension: list[Any]) -> None:
    """Save the practice pairs and the questions; workers who have begun keep their progress."""
    _change(get_preparation(project), user, "changed the preparation", practice=practice, comprehension=comprehension)


@transaction.atomic
def change_gold(*, project: Project, user: User | None, gold_checks: int, **changes: Any) -> None:
    """Save the gold pairs, how many each worker gets, and the rule for wrong answers."""
    change_project(project=project, user=user, changes={"gold_checks": gold_checks})
    _change(get_preparation(project), user, "changed the gold pairs", **changes)


def _change(preparation: Preparation, user: User | None, action: str, **new: Any) -> None:
    old = {name: getattr(preparation, name) for name in new if getattr(preparation, name) != new[name]}
    if old:
        for name in old:
            setattr(preparation, name, new[name])
        preparation.save()
        audit(preparation.project, user, action, {name: [old[name], new[name]] for name in old})


def start_preparation(worker: Worker) -> None:
    """Mark a new worker as preparing if their arm has its own texts or the study has a preparation."""
    if worker.design.has_own_texts or has_steps(get_preparation(worker.project)):
        new = Worker.objects.filter(pk=worker.pk, instructed=False, practised=0, comprehension_attempts=0)
        new.update(preparing=True)


def has_steps(preparation: Preparation) -> bool:
    return bool(preparation.practice or preparation.comprehension)


def complete_instructions(*, worker: Worker) -> None:
    """Move a worker who has read their arm's texts to the next step."""
    more = has_steps(get_preparation(worker.project))
    Worker.objects.filter(pk=worker.pk, preparing=True, instructed=False).update(instructed=True, preparing=more)


def next_practice(worker: Worker, preparation: Preparation) -> dict[str, Any] | None:
    """The worker's next practice pair; None after the last."""
    return next(iter(preparation.practice[worker.practised :]), None)


def complete_practice(*, worker: Worker, number: int, preparation: Preparation) -> None:
    """Move on to the next practice pair. A repeated request does not skip another."""
    Worker.objects.filter(pk=worker.pk, practised=number).update(practised=F("practised") + 1)
    if number + 1 >= len(preparation.practice) and not preparation.comprehension:
        Worker.objects.filter(pk=worker.pk).update(preparing=False)


@serialise_writes
def answer_comprehension(*, worker: Worker, attempt: int, answers: list[int], preparation: Preparation) -> None:
    """Count an attempt; failing the last one ends with the outcome “failed checks”.

    `attempt` is the number of earlier attempts. An attempt that is sent twice, or after the check is over, is ignored.
    """
    passed = answers == [question["answer"] for question in preparation.comprehension]
    current = Worker.objects.filter(pk=worker.pk, preparing=True, ended_at=None, comprehension_attempts=attempt)
    counted = current.update(comprehension_attempts=attempt + 1, preparing=not passed)
    if counted and not passed and attempt + 1 >= MAX_ATTEMPTS:
        set_outcome(worker, Worker.Outcome.FAILED_CHECKS)
