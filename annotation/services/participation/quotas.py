"""How many judgements each worker is asked for: the study's number, or fewer if there are not enough pairs."""

from annotation.models import Project, Worker
from annotation.models.arms import Design, list_designs
from annotation.services.pairs.counts import count_pairs, possible_judgements


def find_quota(design: Design) -> int | None:
    """The quota for workers with this design; None if the study's number applies or there are no pairs yet."""
    possible = possible_judgements(design.project, count_pairs(design))
    return possible if 0 < possible < design.project.judgements_per_worker else None


def renew_quotas(project: Project) -> None:
    """Recompute quotas after a change of items or limits; workers who had judged everything may continue."""
    for design in list_designs(project):
        quota = find_quota(design)
        workers = Worker.objects.filter(project=project, arm=design.arm)
        finished = workers.filter(state=Worker.State.FINISHED, outcome="", ended_at=None)
        finished.filter(quota__lt=quota or project.judgements_per_worker).update(state=Worker.State.ACTIVE)
        workers.exclude(quota=quota).update(quota=quota)
