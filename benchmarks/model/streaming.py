"""Incremental updates: their cost, and how close they stay to a refit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish, standard_error, timed
from benchmarks.model.speed import SMALL, SUSHI_B, Shape, Study, make_study, score
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.arrays import State

NAME = "streaming"
BATCH = 50
SEEDS = 5


@dataclass(frozen=True)
class Case:
    """A generated study and the state of a model fitted to all its labels."""

    study: Study
    state: State

    @classmethod
    def draw(cls, shape: Shape, seed: int) -> Case:
        """Generate the study with this seed and fit it."""
        study = make_study(shape, seed)
        return cls(study, fitted(study.train, shape).to_state())

    def refit(self) -> CrowdGPPL:
        """Return a fresh copy of the model fitted to all labels."""
        return CrowdGPPL.from_state(self.state)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure updates, new users, new items and retractions at Sushi-B's size, over several generated studies."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many generated studies")
    options = parser.parse_args(argv)
    seeds = 1 if options.quick else options.seeds
    parts = (last_tenth, one_sided_labels, new_users, new_items, retractions)
    rows: dict[str, list[dict[str, Any]]] = {part.__name__: [] for part in parts}
    for seed in range(seeds):
        case = Case.draw(SMALL if options.quick else SUSHI_B, seed)
        for part in parts:
            rows[part.__name__].append(part(case))
            print_progress(f"study {seed}, {part.__name__}: {rows[part.__name__][-1]}")
    return publish(NAME, {"studies": seeds, **{name: over_studies(each) for name, each in rows.items()}}, options)


def over_studies(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each figure's mean and standard error, and the largest value of those called “worst”."""
    out: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if isinstance(values[0], dict):
            out[name] = over_studies(values)
        elif name.startswith("worst"):
            out[name] = max(values)
        else:
            out[name] = {"mean": float(np.mean(values)), "standard_error": standard_error(values)}
    return out


def fitted(labels: PairwiseLabels, shape: Shape) -> CrowdGPPL:
    """Fit a model to these labels."""
    return CrowdGPPL().fit(labels, n_items=shape.items, n_users=shape.users)


def gap(stream: CrowdGPPL, refit: CrowdGPPL, test: PairwiseLabels) -> dict[str, Any]:
    """Return both models' figures and the differences between them."""
    one, two = score(stream, test), score(refit, test)
    return {
        "stream": one,
        "refit": two,
        "accuracy_lost": two["accuracy"] - one["accuracy"],
        "cross_entropy_lost": one["cross_entropy"] - two["cross_entropy"],
    }


def last_tenth(case: Case) -> dict[str, Any]:
    """Compare learning the last tenth of the labels, fifty at a time, with a refit to all labels."""
    train, shape = case.study.train, case.study.shape
    start = len(train) * 9 // 10
    model = fitted(train.take(np.arange(start)), shape)
    seconds = []
    for first in range(start, len(train), BATCH):
        rows = np.arange(first, min(first + BATCH, len(train)))
        seconds.append(timed(lambda rows=rows: model.partial_fit(train.take(rows)))[1])
    times = {"median_ms": 1e3 * float(np.median(seconds)), "worst_ms": 1e3 * float(np.max(seconds))}
    return {**times, **gap(model, case.refit(), case.study.test)}


def one_sided_labels(case: Case) -> dict[str, Any]:
    """Add fifty labels by users who all prefer one item, and measure how far it rises."""
    model, shape = case.refit(), case.study.shape
    before = model.predict_consensus()
    item = int(np.argsort(before)[len(before) // 2])
    others = np.delete(np.arange(shape.items), item)[np.arange(BATCH) % (shape.items - 1)]
    labels = PairwiseLabels(u=np.arange(BATCH) % shape.users, a=np.full(BATCH, item), b=others, y=np.ones(BATCH))
    seconds = timed(lambda: model.partial_fit(labels))[1]
    return {"rise": float(model.predict_consensus()[item] - before[item]), "update_ms": 1e3 * seconds}


def new_users(case: Case) -> dict[str, Any]:
    """Add a tenth of the users late, with all their labels, fifty labels at a time."""
    train, test, shape = case.study.train, case.study.test, case.study.shape
    late = np.arange(shape.users * 9 // 10, shape.users)
    is_late = np.isin(train.u, late)
    model = fitted(train.take(~is_late), Shape(int(late[0]), shape.items, 0))
    arriving = np.flatnonzero(is_late)
    arriving = arriving[np.argsort(train.u[arriving], kind="stable")]
    for first in range(0, len(arriving), BATCH):
        model.partial_fit(train.take(arriving[first : first + BATCH]), n_users=shape.users)
    return gap(model, case.refit(), test.take(np.isin(test.u, late)))


def new_items(case: Case) -> dict[str, Any]:
    """Add a tenth of the items late, and score pairs with them once their labels have been learned."""
    train, test, shape = case.study.train, case.study.test, case.study.shape
    late = shape.items - max(1, shape.items // 10)
    is_late = (train.a >= late) | (train.b >= late)
    model = fitted(train.take(~is_late), Shape(shape.users, late, 0))
    model.partial_fit(train.take(is_late), n_items=shape.items)
    return gap(model, case.refit(), test.take((test.a >= late) | (test.b >= late)))


def retractions(case: Case) -> dict[str, Any]:
    """Forget fifty labels, and compare with a model that never saw them."""
    train, model = case.study.train, case.refit()
    kept, gone = np.arange(BATCH, len(train)), np.arange(BATCH)
    seconds = timed(lambda: model.forget(train.take(gone)))[1]
    return {"forget_ms": 1e3 * seconds, **gap(model, fitted(train.take(kept), case.study.shape), case.study.test)}


if __name__ == "__main__":
    main()
