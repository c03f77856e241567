"""Enrol workers once per browser or platform ID, and let them stop, continue and return with a code."""

import re
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from annotation.models import PlatformIdentity, Project, Worker
from annotation.models.workers import RETURN_CODE_LENGTH, SIMULATED, spell_code, worker_code
from annotation.services.pairs.leasing import expire_leases
from annotation.services.participation.arms import choose_arm
from annotation.services.participation.pilot import pause_after_pilot
from annotation.services.participation.quotas import find_quota

GROUP_LENGTH = 5  # characters of a return code between two hyphens
Answers = dict[str, Any]  # answers to the questionnaire, keyed by question name


@transaction.atomic
def enrol(
    *,
    project: Project,
    traits: Answers | None = None,
    answers: Answers | None = None,
    platform: str = "",
    external_id: str = "",
) -> Worker:
    """Create a worker who has consented, or return the one with this platform ID."""
    if external_id:
        known = PlatformIdentity.objects.filter(project=project, platform=platform, external_id=external_id)
        if identity := known.select_related("worker").first():
            return identity.worker
    worker = _create_worker(project, worker_code(), traits, answers)
    if external_id:
        PlatformIdentity.objects.create(project=project, worker=worker, platform=platform, external_id=external_id)
    return worker


def enrol_once(*, project: Project, code: str, traits: Answers | None = None, answers: Answers | None = None) -> Worker:
    """Create a worker with this code, or return the existing one.

    An erased worker's code is not reused: that browser gets a new code.
    """
    try:
        with transaction.atomic():
            return _create_worker(project, code, traits, answers)
    except IntegrityError:
        worker = Worker.objects.get(project=project, code=code)
    if worker.state != Worker.State.WITHDRAWN:
        return worker
    new_code = (SIMULATED if worker.simulated else "") + worker_code()
    return _create_worker(project, new_code, traits, answers)


@transaction.atomic
def _create_worker(project: Project, code: str, traits: Answers | None, answers: Answers | None) -> Worker:
    worker = Worker(project=project, code=code, traits=traits or {}, answers=answers or {}, consented_at=timezone.now())
    worker.arm = choose_arm(project, code)
    worker.quota = find_quota(worker.design)
    worker.return_digest = digest_return_code(_derive_return_code(worker))
    worker.save(force_insert=True)
    return worker


def get_return_code(worker: Worker) -> str:
    """The secret code that lets this worker return on another device, hyphenated for readability.

    Derived from the server's secret key, so that pages can show it at any time while the database has only a digest.
    The digest is renewed if the worker joined before there were return codes or the key has changed.
    """
    code = _derive_return_code(worker)
    digest = digest_return_code(code)
    if worker.return_digest != digest:
        Worker.objects.filter(pk=worker.pk).exclude(state=Worker.State.WITHDRAWN).update(return_digest=digest)
    return "-".join(re.findall(f".{{{GROUP_LENGTH}}}", code))


def _derive_return_code(worker: Worker) -> str:
    value = f"{worker.project_id}/{worker.code}"
    return spell_code(salted_hmac("return code", value, algorithm="sha256").digest(), RETURN_CODE_LENGTH)


def digest_return_code(typed: str) -> str:
    """The digest under which a return code is stored; case, spaces and hyphens do not matter."""
    return sha256(re.sub(r"[\W_]", "", typed).lower().encode()).hexdigest()


def find_returning_worker(*, project: Project, digest: str) -> Worker | None:
    """The worker whose return code has this digest; None if there is none or the worker was erased.

    The lookup compares digests of random codes, so its duration says nothing about how close a guess was.
    """
    workers = Worker.objects.exclude(state=Worker.State.WITHDRAWN).select_related("project")
    return workers.filter(project=project, return_digest=digest).first()


@transaction.atomic
def stop_early(*, worker: Worker) -> None:
    """End a worker's task before the quota is reached; others may get the pairs that were reserved."""
    active = Worker.objects.filter(pk=worker.pk, state=Worker.State.ACTIVE)
    if active.update(state=Worker.State.FINISHED, outcome=Worker.Outcome.STOPPED):
        pause_after_pilot(worker.project)
        expire_leases(worker)


def continue_judging(*, worker: Worker) -> None:
    """Let a worker who stopped early judge again."""
    stopped = Worker.objects.filter(pk=worker.pk, outcome=Worker.Outcome.STOPPED, ended_at=None)
    stopped.update(state=Worker.State.ACTIVE, outcome="")
