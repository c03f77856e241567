"""What each person prefers: all workers, and one worker's predicted scores beside the consensus."""

from dataclasses import dataclass

import numpy as np
from django.db.models import Count, Q

from annotation.models import Project, Worker
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.snapshots import item_positions, load_fitted

WORKERS_SHOWN = 500
ITEMS_SHOWN = 100  # the uncertainty of one item costs far more than its mean, and nobody reads a thousand rows


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
    items: int = 0


def worker_list(project: Project) -> list[Worker]:
    """The workers with the most standing judgements first."""
    standing = Count("judgements", filter=Q(judgements__retraction=None))
    return list(project.workers.annotate(given=standing).order_by("-given", "pk")[:WORKERS_SHOWN])


def worker_page(snapshot: ModelSnapshot, worker: Worker) -> WorkerPage:
    """The items about which this worker probably differs most from the consensus, the largest differences first."""
    fitted = load_fitted(snapshot)
    scores = list(snapshot.scores.select_related("item").order_by("rank"))
    position = fitted.position_of_worker(worker.pk)
    judgements = worker.judgements.filter(retraction=None).count()
    if position is None:
        return WorkerPage(worker, False, [], judgements)
    items, user = item_positions(fitted, [score.item for score in scores]), np.array([position])
    mean = fitted.model.predict_utilities(users=user, items=items)[:, 0]
    rank = np.argsort(np.argsort(-mean, kind="stable")) + 1
    consensus = np.array([score.mean for score in scores])
    shown = np.argsort(-np.abs(mean - consensus), kind="stable")[:ITEMS_SHOWN]
    sd = fitted.model.predict_utilities(users=user, items=items[shown], return_std=True)[1][:, 0]
    rows = zip(shown, sd, strict=True)
    preferences = [Preference(scores[at], float(mean[at]), float(s), int(rank[at])) for at, s in rows]
    return WorkerPage(worker, True, preferences, judgements, items=len(scores))
