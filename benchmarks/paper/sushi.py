"""The paper's table on sushi preferences: A-small, A and B.

    python -m benchmarks.paper.sushi --data DIR [--only A-small,A,B] [--method NAMES] [--repeats 25] [--tune]

DIR holds Kamishima's files sushi3a.5000.10.order, sushi3b.5000.10.order, sushi3.idata and sushi3.udata of sushi3-2016,
which we may not redistribute. Each repeat draws users and pairs again, and every method gets the same ones. Tau is
pooled over users as in the paper, and also averaged over users. --tune runs the paper's grid search for the scales on
100 withheld users.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.harness import print_progress, publish, timed
from benchmarks.paper.reference import SUSHI, SUSHI_SETTINGS, paper_row
from benchmarks.paper.report import Runs, line, mean_and_half, paired_so_far, panel, parser, print_table, write_figure
from benchmarks.paper.sushi_files import FILES, Sushi, read_sushi, write_generated
from modelling.baselines import PaperSVI
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import Matern32, PairwiseLabels

NAME = "sushi"
METRICS = ("accuracy", "cross_entropy", "tau", "tau_per_user")
METHODS = [name for name in CATALOGUE if name != "linear"] + ["linear"]
BETAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # the paper's grid for the rates


@dataclass(frozen=True)
class Design:
    """How a data set is drawn from the files."""

    orders: str
    users: int | None
    train: int
    test: int


DESIGNS = {"A-small": Design("a", 100, 5, 25), "A": Design("a", 100, 20, 25), "B": Design("b", None, 10, 1)}
QUICK = {"A-small": Design("a", 20, 5, 10), "B": Design("b", 40, 10, 1)}


@dataclass(frozen=True)
class Sample:
    """Training labels, test pairs (the first item is preferred) and the ranking of each user."""

    train: PairwiseLabels
    u: np.ndarray
    winner: np.ndarray
    loser: np.ndarray
    orders: np.ndarray  # (U, 10) items, best first
    X_items: np.ndarray
    X_users: np.ndarray


def draw(data: Sushi, design: Design, rng: np.random.Generator) -> Sample:
    """Draw users, and distinct training and test pairs of each."""
    orders, X_items = (data.orders_a, data.items_a) if design.orders == "a" else (data.orders_b, data.items)
    users = np.arange(len(orders))
    if design.users is not None and design.users < len(users):
        users = np.sort(rng.choice(users, design.users, replace=False))
    orders = orders[users]
    places = np.array(list(itertools.combinations(range(orders.shape[1]), 2)))  # the better place first
    chosen = np.array([rng.permutation(len(places))[: design.train + design.test] for _ in users])
    u = np.repeat(np.arange(len(users)), design.train + design.test)
    better, worse = (orders[u, places[chosen.ravel(), side]] for side in (0, 1))
    training = np.tile(np.arange(design.train + design.test) < design.train, len(users))
    swap = rng.random(training.sum()) < 0.5
    a, b = better[training], worse[training]
    train = PairwiseLabels(u=u[training], a=np.where(swap, b, a), b=np.where(swap, a, b), y=(~swap).astype(float))
    test = ~training
    return Sample(train, u[test], better[test], worse[test], orders, X_items, data.users[users])


def score(model: Any, sample: Sample) -> dict[str, float]:
    """Accuracy, cross entropy, pooled tau and mean tau over users."""
    p = np.clip(model.predict_proba(sample.u, sample.winner, sample.loser), 1e-7, 1 - 1e-7)
    n_users, n_ranked = sample.orders.shape
    F = model.predict_utilities(users=np.arange(n_users))
    own = F[sample.orders, np.arange(n_users)[:, None]]  # (U, 10), best first
    gold = np.tile(-np.arange(n_ranked), (n_users, 1))
    each = [kendalltau(g, f).statistic if np.ptp(f) > 0 else 0.0 for g, f in zip(gold, own, strict=True)]
    return {
        "accuracy": float(np.mean((p > 0.5) + 0.5 * (p == 0.5))),
        "cross_entropy": float(-np.log(p).mean()),
        "tau": float(kendalltau(gold.ravel(), own.ravel()).statistic) if np.ptp(own) > 0 else 0.0,
        "tau_per_user": float(np.mean(each)),
    }


def run(method: str, name: str, sample: Sample, seed: int, quick: bool) -> dict[str, float]:
    """Fit and score one method on one sample."""
    settings = dict(SUSHI_SETTINGS.get(name, {})) if method.startswith("paper_svi") else {}
    if "no_inducing" in method:
        settings = {key: value for key, value in settings.items() if not key.startswith("n_inducing")}
    if quick and settings:
        settings["n_iterations"] = 20
    model, seconds = timed(
        lambda: CATALOGUE[method].fit(
            sample.train, X_items=sample.X_items, X_users=sample.X_users, kernel=Matern32(), seed=seed, **settings
        )
    )
    return {**score(model, sample), "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run every requested data set, method and repeat."""
    options = parse(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data
        if folder is None and options.quick:
            folder = Path(temporary)
            write_generated(folder, n_users=60)
        if folder is None or not all((folder / file).exists() for file in FILES):
            print_progress(f"No data: --data must name a folder with {', '.join(FILES)}. The sushi table is skipped.")
            return publish(NAME, {"skipped": True}, argparse.Namespace(quick=True))
        data = read_sushi(folder)
    designs = QUICK if options.quick else {name: DESIGNS[name] for name in options.only}
    runs = Runs(NAME, options)
    result = {name: dataset(name, design, data, runs, options) for name, design in designs.items()}
    if options.tune:
        result["paper_tuning"] = tune(data, runs, options)
    report(result, designs, data.description, options)
    return publish(NAME, {"repeats": options.repeats, "data": data.description, **result}, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of this experiment."""
    made = parser(__doc__, repeats=25)
    made.add_argument("--data", type=Path, help=f"folder with {', '.join(FILES)}")
    made.add_argument("--only", default="A-small,A,B", help="some of A-small, A, B")
    made.add_argument("--method", default=",".join(METHODS), help=f"some of {', '.join(METHODS)}")
    made.add_argument("--tune", action="store_true", help="also run the paper's grid search for the scales")
    options = made.parse_args(argv)
    options.only, options.method = options.only.split(","), options.method.split(",")
    unknown = (set(options.only) - set(DESIGNS)) | (set(options.method) - set(METHODS))
    if unknown:
        made.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.quick:
        options.repeats = 1
    return options


def dataset(
    name: str, design: Design, data: Sushi, runs: Runs, options: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Means and intervals of every method on one data set, and paired differences from crowdGPPL."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in options.method}
    for repeat in range(options.repeats):
        rng = np.random.default_rng([repeat, sorted(DESIGNS).index(name)])
        sample = draw(data, design, rng)
        for method in options.method:
            cell = runs.cell(
                lambda m=method, r=repeat, s=sample: run(m, name, s, r, options.quick),
                data=data.description, set=name, method=method, repeat=repeat,
            )  # fmt: skip
            if cell is not None:
                found[method].append(cell)
    return {method: summary(each, found.get("crowdgppl", each)) for method, each in found.items()}


def summary(each: list[dict[str, float]], reference: list[dict[str, float]]) -> dict[str, Any]:
    """Means with intervals over repeats, and the advantage of crowdGPPL."""
    out: dict[str, Any] = {key: mean_and_half([row[key] for row in each]) for key in (*METRICS, "seconds")}
    out["crowdgppl_minus_this"] = {
        key: paired_so_far([row[key] for row in reference], [row[key] for row in each]) for key in METRICS
    }
    return out


def tune(data: Sushi, runs: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Repeat the paper's tuning: choose rates from a grid by accuracy on withheld users of A; shapes are 1."""
    betas = BETAS[1::2] if options.quick else BETAS
    design = QUICK["A-small"] if options.quick else DESIGNS["A"]
    sample = draw(data, design, np.random.default_rng([10_000, 1]))
    n_iterations = 10 if options.quick else 100

    def accuracy(**settings: Any) -> float:
        model = PaperSVI(n_iterations=n_iterations, n_inducing_items=25, **settings)
        return score(model.fit(sample.train, X_items=sample.X_items), sample)["accuracy"]

    gppl = {
        beta: runs.cell(lambda b=beta: accuracy(n_components=0, t_prior=(1.0, b)), tune="gppl", beta=beta)
        for beta in betas
    }
    crowd = {
        (t, v, w): runs.cell(
            lambda t=t, v=v, w=w: accuracy(n_components=20, t_prior=(1.0, t), v_prior=(1.0, v), w_prior=(1.0, w)),
            tune="crowdgppl", t=t, v=v, w=w,
        )
        for t, v, w in itertools.product(betas, repeat=3)
    }  # fmt: skip
    best = max(crowd, key=lambda key: crowd[key])
    return {
        "gppl": {"beta_0": max(gppl, key=lambda key: gppl[key]), "paper": 100.0, "accuracy": gppl},
        "crowdgppl": {"beta_t, beta_v, beta_w": best, "paper": (100.0, 10.0, 10.0), "accuracy": crowd[best]},
        "ours": "crowdGPPL learns its scales from the training labels by the evidence; there is no search.",
    }


def report(result: dict[str, Any], designs: dict[str, Design], source: str, options: argparse.Namespace) -> None:
    """Print the table with the paper's values in brackets, and draw a figure of the cross entropies."""
    panels = []
    for name in designs:
        rows = []
        for method, found in result[name].items():
            paper = (*paper_row(SUSHI, method, name), None)
            values = [
                f"{found[key]['mean']:.3f} ({'-' if p is None else f'{p:.2f}'})"
                for key, p in zip(METRICS, paper, strict=True)
            ]
            rows.append([CATALOGUE[method].title, *values, found["seconds"]["mean"]])
        print_table(f"Sushi {name} ({source}); in brackets: the paper", ["method", *METRICS, "CPU s"], rows)
        order = list(result[name])
        figures = [result[name][method]["cross_entropy"] for method in order]
        bars = line(
            name, [CATALOGUE[m].title for m in order], [f["mean"] for f in figures], [f["half"] for f in figures]
        )
        panels.append(panel(f"Sushi {name}", "", "cross entropy", [bars]))
    write_figure(NAME, panels, options)


if __name__ == "__main__":
    main()
