"""Learning while labels come in: what an update costs, and how near it stays to a refit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, publish, tell, timed
from benchmarks.speed import GIVEN_VARIANCE, N_COMPONENTS, SMALL, SUSHI_B, Shape, Study, judge, make_study
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.streaming import settle_users

NAME = "streaming"
BATCH = 50


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Updates, new users, new items and retractions at Sushi-B's size."""
    options = arguments(__doc__).parse_args(argv)
    study = make_study(SMALL if options.quick else SUSHI_B)
    result = {}
    for part in (last_tenth, one_sided_labels, affected_users, new_users, new_items, retractions):
        result[part.__name__] = part(study)
        tell(f"{part.__name__}: {result[part.__name__]}")
    return publish(NAME, result, options)


def make() -> CrowdGPPL:
    """The model at a given scale, so that a refit and an update differ in nothing else."""
    return CrowdGPPL(n_components=N_COMPONENTS, personal_variance=GIVEN_VARIANCE, finish=False)


def fitted(labels: PairwiseLabels, shape: Shape) -> CrowdGPPL:
    """A model of these labels."""
    return make().fit(labels, n_items=shape.items, n_users=shape.users)


def gap(stream: CrowdGPPL, refit: CrowdGPPL, test: PairwiseLabels) -> dict[str, Any]:
    """The figures of both and how much worse the stream is."""
    one, two = judge(stream, test), judge(refit, test)
    return {
        "stream": one,
        "refit": two,
        "accuracy_lost": two["accuracy"] - one["accuracy"],
        "cross_entropy_lost": one["cross_entropy"] - two["cross_entropy"],
    }


def last_tenth(study: Study) -> dict[str, Any]:
    """The last tenth of the labels, fifty at a time, against a refit with all of them."""
    start = len(study.train) * 9 // 10
    model, refit = fitted(study.train.take(np.arange(start)), study.shape), fitted(study.train, study.shape)
    seconds = []
    for first in range(start, len(study.train), BATCH):
        rows = np.arange(first, min(first + BATCH, len(study.train)))
        seconds.append(timed(lambda rows=rows: model.partial_fit(study.train.take(rows)))[1])
    times = {"median_ms": 1e3 * float(np.median(seconds)), "worst_ms": 1e3 * float(np.max(seconds))}
    return {**times, **gap(model, refit, study.test)}


def one_sided_labels(study: Study) -> dict[str, Any]:
    """Fifty labels of fifty users that all prefer one item raise it in the consensus."""
    model = fitted(study.train, study.shape)
    before = model.predict_consensus()
    item = int(np.argsort(before)[len(before) // 2])
    others = np.delete(np.arange(study.shape.items), item)[np.arange(BATCH) % (study.shape.items - 1)]
    labels = PairwiseLabels(
        u=np.arange(BATCH) % study.shape.users, a=np.full(BATCH, item), b=others, y=np.ones(BATCH)
    )  # fmt: skip
    seconds = timed(lambda: model.partial_fit(labels))[1]
    return {"rise": float(model.predict_consensus()[item] - before[item]), "update_ms": 1e3 * seconds}


def affected_users(study: Study) -> dict[str, Any]:
    """Fifty users made exact again, their sites included, while the items stand still."""
    model = fitted(study.train, study.shape)
    users = np.arange(min(BATCH, study.shape.users))
    seconds = [timed(lambda: settle_users(model._post, users, model._rules))[1] for _ in range(5)]
    return {"update_ms": 1e3 * float(np.median(seconds))}


def new_users(study: Study) -> dict[str, Any]:
    """A tenth of the users arrive late, with all their labels, fifty labels at a time."""
    late = np.arange(study.shape.users * 9 // 10, study.shape.users)
    is_late = np.isin(study.train.u, late)
    known = Shape(int(late[0]), study.shape.items, 0)
    model = fitted(study.train.take(~is_late), known)
    arriving = np.flatnonzero(is_late)
    arriving = arriving[np.argsort(study.train.u[arriving], kind="stable")]
    for first in range(0, len(arriving), BATCH):
        model.partial_fit(study.train.take(arriving[first : first + BATCH]), n_users=study.shape.users)
    test = study.test.take(np.isin(study.test.u, late))
    return gap(model, fitted(study.train, study.shape), test)


def new_items(study: Study) -> dict[str, Any]:
    """A tenth of the items arrive late; pairs with one of them are judged after their labels came."""
    late = study.shape.items - max(1, study.shape.items // 10)
    is_late = (study.train.a >= late) | (study.train.b >= late)
    model = fitted(study.train.take(~is_late), Shape(study.shape.users, late, 0))
    test = study.test.take((study.test.a >= late) | (study.test.b >= late))
    model.partial_fit(study.train.take(is_late), n_items=study.shape.items)
    return gap(model, fitted(study.train, study.shape), test)


def retractions(study: Study) -> dict[str, Any]:
    """Fifty labels are forgotten; what is left against a model that never saw them."""
    model = fitted(study.train, study.shape)
    kept, gone = np.arange(BATCH, len(study.train)), np.arange(BATCH)
    seconds = timed(lambda: model.forget(study.train.take(gone)))[1]
    return {"forget_ms": 1e3 * seconds, **gap(model, fitted(study.train.take(kept), study.shape), study.test)}


if __name__ == "__main__":
    main()
