"""What each person prefers: all workers, and one worker's predicted scores beside the consensus."""

from dataclasses import dataclass

import numpy as np
from django.db.models import Count, Q

from annotation.models import Project, Worker
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.snapshots import item_positions, load_fitted

WORKERS_SHOWN = 500


@dataclass(frozen=True)
class Preference:
    """One item as this worker probably sees it, and as the crowd does."""

    score: ConsensusScore
    mean: float
    sd: float
    rank: int

    @property
    def difference(self) -> float:
        return self.mean - self.score.mean

    @property
    def rank_change(self) -> int:
        return self.score.rank - self.rank


@dataclass(frozen=True)
class WorkerPage:
    worker: Worker
    known: bool
    preferences: list[Preference]
    judgements: int


def worker_list(project: Project) -> list[Worker]:
    """The workers with the most standing judgements first."""
    standing = Count("judgements", filter=Q(judgements__retraction=None))
    return list(project.workers.annotate(given=standing).order_by("-given", "pk")[:WORKERS_SHOWN])


def worker_page(snapshot: ModelSnapshot, worker: Worker) -> WorkerPage:
    """Every ranked item with this worker's predicted score, the largest differences from the consensus first."""
    fitted = load_fitted(snapshot)
    scores = list(snapshot.scores.select_related("item").order_by("rank"))
    position = fitted.position_of_worker(worker.pk)
    judgements = worker.judgements.filter(retraction=None).count()
    if position is None:
        return WorkerPage(worker, False, [], judgements)
    items = item_positions(fitted, [score.item for score in scores])
    mean, sd = fitted.model.predict_utilities(users=np.array([position]), items=items, return_std=True)
    rank = np.argsort(np.argsort(-mean[:, 0], kind="stable")) + 1
    rows = zip(scores, mean[:, 0], sd[:, 0], rank, strict=True)
    preferences = [Preference(score, float(m), float(s), int(r)) for score, m, s, r in rows]
    return WorkerPage(worker, True, sorted(preferences, key=lambda p: -abs(p.difference)), judgements)
