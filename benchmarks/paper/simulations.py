"""The paper's simulations a, b and c: noise in the consensus, noise in tastes, and recovery of components.

    python -m benchmarks.paper.simulations [--only a,b,c] [--repeats 25] [--method NAMES]

Every cell is repeated with new data. The paper shows curves without numbers; CLAIMS states what they show.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.stats import kendalltau

from benchmarks.harness import publish, timed
from benchmarks.paper.reference import SIMULATIONS
from benchmarks.paper.report import Runs, line, mean_and_half, paired_so_far, panel, parser, print_table, write_figure
from benchmarks.simulated_crowds import SimulatedCrowd, draw_crowd, grid
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import Matern32, PairwiseLabels

NAME = "simulations"
LEVELS = (0.1, 0.316, 1.0, 3.16, 10.0)  # inverse scales: a larger one is a weaker signal, more noise
N_USERS, N_COMPONENTS, MODEL_COMPONENTS, N_LABELS = 20, 5, 20, 900
TRUE_COMPONENTS = (1, 3, 10, 20)
LABEL_COUNTS = (36, 144, 576, 1296, 2304)
METHODS = ("crowdgppl", "gppl", "gppl_per_user", "paper_svi")
FACTOR_METHODS = ("crowdgppl", "paper_svi")  # methods with components, for simulation c
CLAIMS = {
    "a": "crowdGPPL recovers the consensus better than GPPL and GPPL per user, even as noise increases",
    "b": "crowdGPPL predicts personal utilities better, above all where the noise is small",
    "c": "more than 700 labels bring little; components are recovered reasonably with more than 500",
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run all three simulations, or the requested ones."""
    made = parser(__doc__, repeats=25)
    made.add_argument("--only", default="a,b,c", help="some of a, b, c")
    made.add_argument("--method", default=",".join(METHODS), help="methods of the catalogue")
    options = made.parse_args(argv)
    options.method = options.method.split(",")
    if options.quick:
        options.repeats = 1
    runs, wanted = Runs(NAME, options), options.only.split(",")
    parts = {"a": consensus_noise, "b": taste_noise, "c": recovery}
    result = {name: parts[name](runs, options) for name in wanted}
    report(result, options)
    name = NAME if len(wanted) == len(parts) else f"{NAME}_{''.join(wanted)}"
    return publish(name, {"repeats": options.repeats, "claims": CLAIMS, **result}, options)


def make(method: str, seed: int) -> Any:
    """Build an estimator with the paper's settings, or with Concord's defaults."""
    settings = dict(SIMULATIONS) if method.startswith("paper_svi") else {}
    if method == "crowdgppl":
        settings = {"n_components": MODEL_COMPONENTS}
    return CATALOGUE[method].build(Matern32(), seed, **settings)


def consensus_noise(runs: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Simulation a: tau of the consensus at withheld items for five levels of s_t."""

    def draw(rng: np.random.Generator, level: float, side: int) -> SimulatedCrowd:
        return _draw(rng, side, s_t=level, s_v=rng.uniform(0.1, 10.0, N_COMPONENTS))

    def score(model: Any, crowd: SimulatedCrowd, X_test: np.ndarray, test: np.ndarray) -> float:
        return _tau(crowd.t[test], model.predict_consensus(X_items=X_test))

    return _by_level("a", runs, options, draw, score)


def taste_noise(runs: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Simulation b: mean tau of the users' utilities at withheld items for five levels of s_v, with s_t = 5."""

    def draw(rng: np.random.Generator, level: float, side: int) -> SimulatedCrowd:
        return _draw(rng, side, s_t=5.0, s_v=level)

    def score(model: Any, crowd: SimulatedCrowd, X_test: np.ndarray, test: np.ndarray) -> float:
        F = model.predict_utilities(X_items=X_test)
        return float(np.mean([_tau(crowd.F[test, user], F[:, user]) for user in range(crowd.n_users)]))

    return _by_level("b", runs, options, draw, score)


def _draw(rng: np.random.Generator, side: int, **scales: Any) -> SimulatedCrowd:
    """Draw a crowd on a grid where only half of the points appear in labels."""
    X = grid(side)
    labelled = np.sort(rng.choice(len(X), len(X) // 2, replace=False))
    return draw_crowd(
        rng, X_items=X, n_users=N_USERS, n_labels=N_LABELS, n_components=N_COMPONENTS, labelled_items=labelled, **scales
    )


def _by_level(
    name: str, runs: Runs, options: argparse.Namespace, draw: Callable[..., SimulatedCrowd],
    score: Callable[..., float],
) -> dict[str, Any]:  # fmt: skip
    """Mean tau of every method at every level, and crowdGPPL's paired advantage."""
    levels, side = (LEVELS[3:4], 6) if options.quick else (LEVELS, 20)

    def cell(method: str, level: float, repeat: int) -> float:
        crowd = draw(np.random.default_rng([repeat, ord(name), int(1000 * level)]), level, side)
        train, test = _halves(crowd)
        X = crowd.X_items
        model = make(method, repeat).fit(_labels(crowd, train), X_items=X[train], n_users=N_USERS)
        return score(model, crowd, X[test], test)

    taus: dict[float, dict[str, list[float]]] = {level: {method: [] for method in options.method} for level in levels}
    for repeat in range(options.repeats):  # repeats outside, so that an unfinished run has whole cells
        for level in levels:
            for method in options.method:
                found = runs.cell(
                    lambda m=method, s=level, r=repeat: cell(m, s, r),
                    part=name, level=level, method=method, repeat=repeat,
                )  # fmt: skip
                if found is not None:
                    taus[level][method].append(found)
    return {f"{level:g}": _level_summary(taus[level]) for level in levels}


def _level_summary(taus: dict[str, list[float]]) -> dict[str, Any]:
    others = [method for method in taus if method != "crowdgppl" and "crowdgppl" in taus]
    gains = {f"crowdgppl - {method}": paired_so_far(taus["crowdgppl"], taus[method]) for method in others}
    return {"tau": {method: mean_and_half(each) for method, each in taus.items()}, **gains}


def _halves(crowd: SimulatedCrowd) -> tuple[np.ndarray, np.ndarray]:
    """Split the items into those with labels and the others."""
    train = np.union1d(crowd.labels.a, crowd.labels.b)
    return train, np.setdiff1d(np.arange(crowd.n_items), train)


def _labels(crowd: SimulatedCrowd, items: np.ndarray) -> PairwiseLabels:
    """Select the labels of these items and renumber the items from 0."""
    a, b = (np.searchsorted(items, side) for side in (crowd.labels.a, crowd.labels.b))
    return PairwiseLabels(u=crowd.labels.u, a=a, b=b, y=crowd.labels.y)


def recovery(runs: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Simulation c: how well the true components are recovered, by their number and the number of labels."""
    counts = LABEL_COUNTS[-1:] if options.quick else LABEL_COUNTS
    true_counts = TRUE_COMPONENTS[:1] if options.quick else TRUE_COMPONENTS
    methods = [method for method in options.method if method in FACTOR_METHODS]
    cells: dict[str, list[dict[str, float]]] = {}
    for repeat in range(options.repeats):
        for n_components in true_counts:
            for n_labels in counts:
                for method in methods:
                    found = runs.cell(
                        lambda m=method, r=repeat, c=n_components, n=n_labels: _recover(m, r, c, n),
                        part="recovery", components=n_components, labels=n_labels, method=method, repeat=repeat,
                    )  # fmt: skip
                    if found is not None:
                        cells.setdefault(f"{method}: {n_components} components, {n_labels} labels", []).append(found)
    return {
        name: {
            **{key: mean_and_half([row[key] for row in rows]) for key in rows[0]},
            "right_number": int(sum(row["components"] == int(name.split(": ")[1].split()[0]) for row in rows)),
        }
        for name, rows in cells.items()
    }


def _recover(method: str, repeat: int, n_components: int, n_labels: int) -> dict[str, float]:
    """Fit one crowd of 25 users and 100 items, and measure how well its components and scores are recovered."""
    rng = np.random.default_rng([repeat, n_components, n_labels])
    crowd = draw_crowd(rng, X_items=grid(10), n_users=25, n_labels=n_labels, n_components=n_components)
    labels = _labels(crowd, np.arange(crowd.n_items))
    model, seconds = timed(lambda: make(method, repeat).fit(labels, X_items=crowd.X_items, n_users=25))
    found = model.item_components_
    truth = crowd.V - crowd.V.mean(axis=1, keepdims=True)
    kept = found[:n_components] - found[:n_components].mean(axis=1, keepdims=True)
    F = model.predict_utilities()
    return {
        "matched_r": matched_correlation(crowd.V, found) if len(found) else 0.0,
        "subspace_cosine": float(np.mean(np.cos(subspace_angles(truth.T, kept.T)))) if len(found) else 0.0,
        "taste_cosine": taste_cosine(crowd, F),
        "tau_consensus": _tau(crowd.t, model.predict_consensus()),
        "tau_personal": float(np.mean([_tau(crowd.F[:, user], F[:, user]) for user in range(25)])),
        "components": float(len(found)),
        "seconds": seconds,
    }


def taste_cosine(crowd: SimulatedCrowd, F: np.ndarray) -> float:
    """Mean cosine of the principal angles between the true components and the leading directions of predicted tastes.

    It needs no inferred components: tastes are utilities relative to the mean user and the mean item.
    """
    tastes = F - F.mean(axis=1, keepdims=True)
    tastes = tastes - tastes.mean(axis=0)
    if np.abs(tastes).max() < 1e-9 * max(1.0, np.abs(F).max()):
        return 0.0
    n = len(crowd.V)
    truth = (crowd.V - crowd.V.mean(axis=1, keepdims=True)).T
    return float(np.mean(np.cos(subspace_angles(truth, np.linalg.svd(tastes)[0][:, :n]))))


def matched_correlation(truth: np.ndarray, found: np.ndarray) -> float:
    """Mean |r| between true and inferred components, matched greedily as in the paper; unmatched ones count as 0."""
    n_true = len(truth)
    r = np.abs(np.nan_to_num(np.corrcoef(truth, found + 1e-12 * np.arange(found.shape[1]))[:n_true, n_true:]))
    matches = []
    for _ in range(min(r.shape)):
        i, j = np.unravel_index(r.argmax(), r.shape)
        matches.append(r[i, j])
        r[i, :] = r[:, j] = -1.0
    return float(np.sum(matches) / n_true)


def _tau(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(kendalltau(truth, predicted).statistic) if np.ptp(predicted) > 0 else 0.0


def report(result: dict[str, Any], options: argparse.Namespace) -> None:
    """Tables and the paper's figure."""
    panels = []
    for part, title in (("a", "consensus"), ("b", "personal preferences")):
        if part not in result:
            continue
        levels, methods = list(result[part]), options.method
        taus = {method: [result[part][level]["tau"][method] for level in levels] for method in methods}
        rows = [[CATALOGUE[m].title, *(f"{t['mean']:.3f} ± {t['half']:.3f}" for t in taus[m])] for m in methods]
        print_table(f"Simulation {part}: tau of the {title} by inverse scale. Paper: {CLAIMS[part]}.",
                    ["method", *levels], rows)  # fmt: skip
        lines = [
            line(CATALOGUE[m].title, [float(x) for x in levels], [t["mean"] for t in taus[m]],
                 [t["half"] for t in taus[m]])
            for m in methods
        ]  # fmt: skip
        panels.append(panel(f"({part}) {title}", "inverse scale (noise)", "tau", lines, log_x=True))
    if result.get("c"):
        panels.append(_report_recovery(result["c"]))
    write_figure(NAME, panels, options)


def _report_recovery(cells: dict[str, Any]) -> dict[str, Any]:
    rows, lines = [], {}
    for name, cell in cells.items():
        method, what = name.split(": ")
        true, labels = (int(word) for word in (what.split()[0], what.split()[2]))
        r = cell["matched_r"]
        means = [cell[key]["mean"] for key in ("subspace_cosine", "taste_cosine", "tau_personal", "components")]
        rows.append([CATALOGUE[method].title, true, labels, r["mean"], r["half"], *means])
        lines.setdefault(f"{CATALOGUE[method].title}, {true} true", []).append((labels, r["mean"], r["half"]))
    columns = ["method", "true", "labels", "matched r", "±", "subspace cosine", "taste cosine", "tau personal", "found"]
    print_table(f"Simulation c: recovery of components. Paper: {CLAIMS['c']}.", columns, rows)
    curves = [line(name, *zip(*points, strict=True)) for name, points in lines.items()]
    return panel("(c) latent factors", "labels", "mean correlation", curves)


if __name__ == "__main__":
    main()
