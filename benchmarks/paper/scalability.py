"""The paper's scalability figure: time and accuracy against inducing points, batch size, items and labels.

    python -m benchmarks.paper.scalability [--data DIR] [--repeats 5]

With --data (UKPConvArgCrowdSample) the training labels of a fold, as in the paper; otherwise a generated crowd of the
same shape. Times are CPU seconds of fit and consensus prediction. `paper_svi` has C = 5 and, where M does not vary,
M = 100, as in the paper; "GPPL" is the same inference with C = 0. crowdGPPL has neither inducing points nor batches of
labels, so it appears where items and labels vary.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.cluster  # noqa: F401, imported here so that the first time does not contain it

from benchmarks.harness import publish, timed
from benchmarks.paper.reference import CONVINCINGNESS_SETTINGS, scaled_kernel
from benchmarks.paper.report import Runs, line, mean_and_half, panel, parser, print_table, write_figure
from benchmarks.paper.ukpconvarg import read_corpus
from benchmarks.simulated_crowds import draw_crowd
from modelling.baselines import PaperSVI
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.features.text import TextFeatures

NAME = "scalability"
INDUCING = (50, 100, 200, 300, 400, 500)
BATCHES = (50, 100, 200, 400, 800, 1600)
ITEMS = (100, 250, 500, 1000)
LABELS = (1000, 2000, 4000, 8000, 16000)
SIZE = {"items": 1052, "users": 1442, "labels": 16398, "features": 30}  # as in the corpus, but with fewer features
EPOCHS = 3  # when the batch size varies, every run sees the labels this often
PAPER = {
    "M": "accuracy levels off while time grows polynomially in M",
    "P_i": "smaller batches do not harm accuracy but need more time in all; times flatten for large batches",
    "N": "time grows little with the number of items",
    "P": "time grows little with the number of labels: a batch costs the same",
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the four panels."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    options = made.parse_args(argv)
    if options.quick:
        options.repeats = 1
    runs = Runs(NAME, options)
    data = Labels(options)
    grids: dict[str, Sequence[int]] = {"M": INDUCING, "P_i": BATCHES, "N": ITEMS, "P": LABELS}
    if options.quick:
        grids = {"M": (10, 40), "P_i": (50, 200), "N": (30, 60), "P": (200, 800)}
    result = {name: vary(name, values, data, runs, options) for name, values in grids.items()}
    report(result, options)
    return publish(NAME, {"repeats": options.repeats, "data": data.description, "paper": PAPER, **result}, options)


class Labels:
    """Draws a repeat's training labels and item features, for given numbers of items and labels."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.size = {"items": 60, "users": 40, "labels": 800, "features": 5} if options.quick else SIZE
        self.corpus = read_corpus(options.data) if options.data else None
        if self.corpus is not None:
            features = TextFeatures().fit(self.corpus.texts)
            self.X = features.transform(self.corpus.texts)
        self.description = "generated" if self.corpus is None else "UKPConvArgCrowdSample"

    def draw(self, repeat: int, n_items: int | None = None, n_labels: int | None = None) -> tuple[Any, np.ndarray]:
        """Draw up to n_labels labels among n_items random items, and these items' features."""
        labels, X = self._all(repeat)
        rng = np.random.default_rng([repeat, 7])
        if n_items is not None and n_items < len(X):
            kept = np.sort(rng.choice(len(X), n_items, replace=False))
            place = np.full(len(X), -1)
            place[kept] = np.arange(n_items)
            labels = labels.take((place[labels.a] >= 0) & (place[labels.b] >= 0))
            labels, X = PairwiseLabels(labels.u, place[labels.a], place[labels.b], labels.y), X[kept]
        if n_labels is not None and n_labels < len(labels):
            labels = labels.take(rng.permutation(len(labels))[:n_labels])
        return labels, X

    def _all(self, repeat: int) -> tuple[PairwiseLabels, np.ndarray]:
        if self.corpus is not None:
            rows = np.flatnonzero(self.corpus.label_fold != repeat % 32)
            return self.corpus.labels.take(rows), self.X
        rng, size = np.random.default_rng(repeat), self.size
        X = rng.standard_normal((size["items"], size["features"]))
        crowd = draw_crowd(rng, n_users=size["users"], n_labels=size["labels"], n_components=3, X_items=X, s_v=2.0)
        return crowd.labels, X


def vary(name: str, values: Sequence[int], data: Labels, runs: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Measure time, time per iteration and training accuracy of each method at each value of one quantity."""
    methods = ("paper SVI", "GPPL", *(("crowdGPPL",) if name in ("N", "P") else ()))
    found: dict[str, dict[int, list[dict[str, float]]]] = {m: {value: [] for value in values} for m in methods}
    for repeat in range(options.repeats):
        for value in values:
            for method in methods:
                cell = runs.cell(
                    lambda m=method, v=value, r=repeat: measure(m, name, v, r, data, options.quick),
                    data=data.description, panel=name, value=value, method=method, repeat=repeat,
                )  # fmt: skip
                if cell is not None:
                    found[method][value].append(cell)
    out: dict[str, Any] = {}
    for method, by_value in found.items():
        out[method] = {
            str(value): {key: mean_and_half([row[key] for row in rows]) for key in rows[0]}
            for value, rows in by_value.items()
            if rows
        }
        out[method]["exponent"] = {
            key: exponent({value: [row[key] for row in rows] for value, rows in by_value.items()})
            for key in ("seconds", "seconds_per_iteration")
        }
    return out


def measure(method: str, name: str, value: int, repeat: int, data: Labels, quick: bool) -> dict[str, float]:
    """Measure one fit with the quantity `name` set to `value`."""
    labels, X = data.draw(repeat, value if name == "N" else None, value if name == "P" else None)
    batch = value if name == "P_i" else 200
    n_iterations = max(1, EPOCHS * len(labels) // batch) if name == "P_i" else (10 if quick else 100)
    makers: dict[str, Callable[[], Any]] = {
        "crowdGPPL": lambda: CrowdGPPL(item_kernel=scaled_kernel(X.shape[1]), batch_labels=40_000),
        **{
            title: lambda c=c: PaperSVI(
                **{
                    **CONVINCINGNESS_SETTINGS, "n_components": c, "n_inducing_items": value if name == "M" else 100,
                    "batch_size": batch, "n_iterations": n_iterations, "item_kernel": scaled_kernel(X.shape[1]),
                }
            )
            for title, c in (("paper SVI", 5), ("GPPL", 0))
        },
    }  # fmt: skip

    def work() -> tuple[Any, float]:
        model, fitting = timed(lambda: makers[method]().fit(labels, X_items=X))
        model.predict_consensus()
        return model, fitting

    (model, fitting), seconds = timed(work)
    decided = labels.take(labels.y != 0.5)
    p = model.predict_consensus_proba(decided.a, decided.b, kind="typical")
    steps = model.n_iter_ if method == "crowdGPPL" else n_iterations
    return {
        "seconds": seconds, "seconds_per_iteration": fitting / max(steps, 1),
        "accuracy": float(np.mean((p > 0.5) == (decided.y == 1.0))), "labels": float(len(labels)),
    }  # fmt: skip


def exponent(times: dict[int, list[float]]) -> float:
    """Slope of log time against log value over the upper half of the values: k in time ~ value^k."""
    values = sorted(value for value, each in times.items() if each)[-max(2, (len(times) + 1) // 2) :]
    if len(values) < 2:
        return float("nan")
    means = [max(float(np.mean(times[value])), 1e-9) for value in values]
    return float(np.polyfit(np.log(values), np.log(means), 1)[0])


def report(result: dict[str, Any], options: argparse.Namespace) -> None:
    """A table and a pair of panels for each quantity."""
    panels = []
    for name, methods in result.items():
        rows = []
        for method, cells in methods.items():
            values = [value for value in cells if value != "exponent"]
            for value in values:
                cell = cells[value]
                keys = ("seconds", "seconds_per_iteration", "accuracy")
                rows.append([method, value, *(cell[key]["mean"] for key in keys)])
            rows.append(
                [method, "time ~ value^k", *(cells["exponent"][k] for k in ("seconds", "seconds_per_iteration")), ""]
            )
        columns = ["method", name, "CPU s", "CPU s per iteration", "training accuracy"]
        print_table(f"Varying {name}. Paper: {PAPER[name]}.", columns, rows)
        for key, title in (("seconds", "CPU s"), ("accuracy", "training accuracy")):
            curves = []
            for method, cells in methods.items():
                values = [value for value in cells if value != "exponent"]
                figures = [cells[value][key] for value in values]
                curves.append(
                    line(method, [int(v) for v in values], [f["mean"] for f in figures], [f["half"] for f in figures])
                )
            panels.append(panel(f"{title} by {name}", name, title, curves))
    write_figure(NAME, panels[::2] + panels[1::2], options)


if __name__ == "__main__":
    main()
