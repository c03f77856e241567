"""Simulations a, b and c of the paper: noise in the consensus, noise in tastes, and recovery of components."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.stats import kendalltau

from benchmarks.harness import arguments, in_units, paired, print_progress, publish, timed
from benchmarks.simulated_crowds import SimulatedCrowd, draw_crowd, grid
from modelling.baselines import GPPLPerUser
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

NAME = "simulations"
LEVELS = (0.1, 0.316, 1.0, 3.16, 10.0)  # inverse scales: a larger one is a weaker signal, more noise
N_USERS, N_COMPONENTS, MODEL_COMPONENTS, N_LABELS = 20, 5, 20, 900
TRUE_COMPONENTS = (1, 3, 10, 20)
LABEL_COUNTS = (144, 576, 2304)
DECISIVE = ((1, 2304), (3, 2304))  # cells of c with all repeats; the others have a fifth of them
MAKERS: dict[str, Callable[[], Any]] = {
    "crowdgppl": lambda: CrowdGPPL(n_components=MODEL_COMPONENTS),
    "gppl": lambda: CrowdGPPL(n_components=0),
    "gppl_per_user": GPPLPerUser,
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run all three simulations, or the requested ones."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="a,b,c", help="some of a, b, c")
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args(argv)
    if options.quick:
        options.repeats = 1
    wanted = options.only.split(",")
    parts = {"a": consensus_noise, "b": taste_noise, "c": recovery}
    result = {name: parts[name](options) for name in wanted}
    name = NAME if len(wanted) == len(parts) else f"{NAME}_{''.join(wanted)}"
    return publish(name, {"repeats": options.repeats, **result}, options)


def consensus_noise(options: argparse.Namespace) -> dict[str, Any]:
    """a: tau of the consensus at withheld items for five levels of s_t."""

    def draw(rng: np.random.Generator, level: float, side: int) -> SimulatedCrowd:
        return _draw(rng, side, s_t=level, s_v=rng.uniform(0.1, 10.0, N_COMPONENTS))

    def score(model: Any, crowd: SimulatedCrowd, X_test: np.ndarray, test: np.ndarray) -> float:
        return _tau(crowd.t[test], model.predict_consensus(X_items=X_test))

    return _by_level("a", options, draw, score)


def taste_noise(options: argparse.Namespace) -> dict[str, Any]:
    """b: mean tau of the users' utilities at withheld items for five levels of s_v, s_t = 5."""

    def draw(rng: np.random.Generator, level: float, side: int) -> SimulatedCrowd:
        return _draw(rng, side, s_t=5.0, s_v=level)

    def score(model: Any, crowd: SimulatedCrowd, X_test: np.ndarray, test: np.ndarray) -> float:
        F = model.predict_utilities(X_items=X_test)
        return float(np.mean([_tau(crowd.F[test, user], F[:, user]) for user in range(crowd.n_users)]))

    return _by_level("b", options, draw, score)


def _draw(rng: np.random.Generator, side: int, **scales: Any) -> SimulatedCrowd:
    """A crowd on a grid of which half the points are labelled."""
    X = grid(side)
    labelled = np.sort(rng.choice(len(X), len(X) // 2, replace=False))
    return draw_crowd(
        rng, X_items=X, n_users=N_USERS, n_labels=N_LABELS, n_components=N_COMPONENTS, labelled_items=labelled, **scales
    )


def _by_level(
    name: str, options: argparse.Namespace, draw: Callable[..., SimulatedCrowd], score: Callable[..., float]
) -> dict[str, Any]:
    """Mean tau of every method at every level, and crowdGPPL's paired advantage."""
    levels, side = (LEVELS[3:4], 6) if options.quick else (LEVELS, 20)
    out: dict[str, Any] = {}
    for level in levels:
        taus: dict[str, list[float]] = {method: [] for method in MAKERS}
        for repeat in range(options.repeats):
            crowd = draw(np.random.default_rng([repeat, ord(name), int(1000 * level)]), level, side)
            train, test = _halves(crowd)
            X = crowd.X_items
            for method, make in MAKERS.items():
                model = make().fit(_labels(crowd, train), X_items=X[train], n_users=N_USERS)
                taus[method].append(score(model, crowd, X[test], test))
        out[f"{level:g}"] = _level_summary(taus)
        print_progress(f"{name}: level {level:g}: " + ", ".join(f"{m} {np.mean(t):.3f}" for m, t in taus.items()))
    return out


def _level_summary(taus: dict[str, list[float]]) -> dict[str, Any]:
    others = [method for method in taus if method != "crowdgppl"]
    gains = {f"crowdgppl - {method}": paired(taus["crowdgppl"], taus[method]) for method in others}
    return {"tau": {method: float(np.mean(each)) for method, each in taus.items()}, **gains}


def _halves(crowd: SimulatedCrowd) -> tuple[np.ndarray, np.ndarray]:
    """Labelled items and the others."""
    train = np.union1d(crowd.labels.a, crowd.labels.b)
    return train, np.setdiff1d(np.arange(crowd.n_items), train)


def _labels(crowd: SimulatedCrowd, items: np.ndarray) -> PairwiseLabels:
    """Select the labels of these items and renumber the items from 0."""
    a, b = (np.searchsorted(items, side) for side in (crowd.labels.a, crowd.labels.b))
    return PairwiseLabels(u=crowd.labels.u, a=a, b=b, y=crowd.labels.y)


def recovery(options: argparse.Namespace) -> dict[str, Any]:
    """c: how well the true components are recovered, by their number and the number of labels."""
    counts = LABEL_COUNTS[2:] if options.quick else LABEL_COUNTS
    true_counts = TRUE_COMPONENTS[:1] if options.quick else TRUE_COMPONENTS
    out: dict[str, Any] = {}
    for n_components in true_counts:
        for n_labels in counts:
            repeats = options.repeats if (n_components, n_labels) in DECISIVE else max(options.repeats // 5, 1)
            rows = [_recover(repeat, n_components, n_labels) for repeat in range(repeats)]
            cell: dict[str, Any] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            cell["repeats"] = repeats
            cell["right_number"] = int(sum(row["components"] == n_components for row in rows))
            out[f"{n_components} components, {n_labels} labels"] = cell
            print_progress(f"c: {n_components} components, {n_labels} labels: {cell}")
    return out


def _recover(repeat: int, n_components: int, n_labels: int) -> dict[str, float]:
    """Fit one crowd of 25 users and 100 items with the default settings."""
    rng = np.random.default_rng([repeat, n_components, n_labels])
    crowd = draw_crowd(rng, X_items=grid(10), n_users=25, n_labels=n_labels, n_components=n_components)
    model = CrowdGPPL()
    labels = _labels(crowd, np.arange(crowd.n_items))
    model, seconds = timed(lambda: model.fit(labels, X_items=crowd.X_items, n_users=25))
    found = model.item_components_
    truth = crowd.V - crowd.V.mean(axis=1, keepdims=True)
    kept = found[:n_components] - found[:n_components].mean(axis=1, keepdims=True)
    return {
        "matched_r": matched_correlation(crowd.V, found) if len(found) else 0.0,
        "subspace_cosine": float(np.mean(np.cos(subspace_angles(truth.T, kept.T)))) if len(found) else 0.0,
        "tau_consensus": _tau(crowd.t, model.predict_consensus()),
        "components": float(len(found)),
        "fit_units": in_units(seconds),
    }


def matched_correlation(truth: np.ndarray, found: np.ndarray) -> float:
    """Mean |r| of true components with the inferred ones, matched greedily as in the paper."""
    n_true = len(truth)
    r = np.abs(np.nan_to_num(np.corrcoef(truth, found + 1e-12 * np.arange(found.shape[1]))[:n_true, n_true:]))
    matches = []
    for _ in range(min(r.shape)):
        i, j = np.unravel_index(r.argmax(), r.shape)
        matches.append(r[i, j])
        r[i, :] = r[:, j] = -1.0
    return float(np.mean(matches))


def _tau(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(kendalltau(truth, predicted).statistic) if np.ptp(predicted) > 0 else 0.0


if __name__ == "__main__":
    main()
