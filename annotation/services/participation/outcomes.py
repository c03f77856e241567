"""The end of a participation: one outcome per worker, set once, and the completion it entitles them to."""

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import PlatformIdentity, Project, User, Worker
from annotation.platforms import Completion, Identity, get_platform
from annotation.services.pairs.leasing import expire_leases
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.checks import has_failed, is_check_due
from annotation.services.participation.pilot import pause_after_pilot
from annotation.services.projects import audit
from annotation.storage import event_log, queries
from annotation.storage.write_lock import serialise_writes

Outcome = Worker.Outcome


class NotFinished(RequestError):
    status = 403
    code = "not_finished"
    title = _("You have not finished yet.")
    detail = _("Your answers are saved. There are still pairs for you.")


@serialise_writes
def finish(*, worker: Worker, has_pairs: bool) -> Worker:
    """End the participation with the outcome that the worker's answers allow. A second call changes nothing."""
    return set_outcome(worker, has_pairs=has_pairs)


@serialise_writes
def end_participation(*, worker: Worker, outcome: str) -> Worker:
    """End the participation with this outcome, unless it has ended already."""
    return set_outcome(worker, outcome)


@serialise_writes
def end_by_hand(*, worker: Worker, user: User, outcome: str) -> Worker:
    """End a participation for a worker who cannot end it, for example after an error; the worker then sees the code."""
    ended = set_outcome(worker, outcome)
    audit(worker.project, user, "ended a participation", {"worker": worker.code, "outcome": ended.outcome})
    return ended


def set_outcome(worker: Worker, outcome: str = "", *, has_pairs: bool = False) -> Worker:
    """Set the outcome once and free the worker's pairs. Call in a transaction: it locks the log against new answers."""
    event_log.lock(worker.project_id)
    stored = Worker.objects.select_related("project").get(pk=worker.pk)
    if stored.ended_at or stored.state == Worker.State.WITHDRAWN:
        return stored
    stored.outcome = outcome or _outcome_of(stored, has_pairs)
    stored.state, stored.ended_at = Worker.State.FINISHED, timezone.now()
    stored.save(update_fields=["outcome", "state", "ended_at"])
    pause_after_pilot(stored.project)
    expire_leases(stored)
    return stored


def _outcome_of(worker: Worker, has_pairs: bool) -> str:
    done = queries.count_judgements(worker)
    if done >= worker.judgements_wanted:
        if worker.project.state == Project.State.OPEN and is_check_due(worker, done):
            raise NotFinished
        return Outcome.FAILED_CHECKS if has_failed(worker) else Outcome.FINISHED
    if worker.outcome == Outcome.STOPPED:
        return Outcome.STOPPED
    if has_pairs and worker.project.state == Project.State.OPEN:
        raise NotFinished
    return Outcome.FAILED_CHECKS if has_failed(worker) else Outcome.NO_WORK_LEFT


def store_closing_answers(*, worker: Worker, answers: dict[str, Any]) -> None:
    """Store the closing answers, possibly none; nothing is stored for a worker who was erased in the meantime."""
    current = Worker.objects.filter(pk=worker.pk).exclude(state=Worker.State.WITHDRAWN)
    current.update(answers={**worker.answers, **answers}, closing_at=timezone.now())


def get_completion(project: Project, outcome: str, identity: Identity | None = None) -> Completion:
    """The completion for an outcome; for a project without a platform only a code."""
    recruitment = get_recruitment(project)
    platform = get_platform(recruitment)
    if platform is None or identity is None:
        return Completion(str(recruitment.codes.get(outcome, "")))
    return platform.complete(outcome, identity)


def earned_completion(worker: Worker) -> Completion | None:
    """The completion for a worker whose participation has ended; None before that, however many answers they gave."""
    if worker.ended_at is None:
        return None
    return get_completion(worker.project, worker.outcome, stored_identity(worker))


def stored_identity(worker: Worker) -> Identity | None:
    row = PlatformIdentity.objects.filter(worker=worker).first()
    if row is None:
        return None
    return Identity(row.platform, row.external_id, row.study_id, row.session_id, row.verified)


def promises_completion(worker: Worker) -> bool:
    """Whether the worker should press Finish, because they will get a code or a link."""
    return get_recruitment(worker.project).promises_completion
