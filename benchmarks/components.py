"""How many components are in use: three independent tastes make three, three opinion groups two, and lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

from benchmarks.harness import arguments, publish, tell
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.simulation import SimulatedLabels, draw_crowd, draw_functions, draw_labels

NAME = "components"
N_WORKERS, N_ITEMS, N_LABELS = 60, 50, 6000
TASTES = GROUPS = 3
MODEL_COMPONENTS = 10  # as many as a project starts with
SEEDS, QUICK_SEEDS = 10, 2
IN_USE = 0.05  # of the largest energy, as the page of the components says
APART = 0.5  # silhouette of the true groups in the map of workers


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Both kinds of crowd, over several seeds."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args(argv)
    seeds = range(QUICK_SEEDS if options.quick else options.seeds)
    tastes = [three_tastes(seed) for seed in seeds]
    groups = [three_groups(seed) for seed in seeds]
    result = {
        "seeds": len(seeds),
        "three_tastes": {**over_seeds(tastes), "right": sum(each["in_use"] == TASTES for each in tastes)},
        "three_groups": {
            **over_seeds(groups),
            "right": sum(each["in_use"] == GROUPS - 1 for each in groups),
            "apart": sum(each["silhouette"] > APART for each in groups),
        },
    }
    return publish(NAME, result, options)


def three_tastes(seed: int) -> dict[str, Any]:
    """Every worker has a place of their own on three axes; together these move scores as much as the consensus does."""
    rng = np.random.default_rng(seed)
    crowd = draw_crowd(
        rng, n_users=N_WORKERS, n_labels=N_LABELS, n_components=TASTES, n_items=N_ITEMS, s_v=float(TASTES)
    )
    return told("three tastes", seed, fitted(crowd.labels), lambda _model: {})


def three_groups(seed: int) -> dict[str, Any]:
    """Every worker shares the taste of one of three groups, which moves scores as much as the consensus does."""
    rng = np.random.default_rng(seed)
    consensus = draw_functions(rng, None, N_ITEMS, np.ones(1))[0]
    tastes = draw_functions(rng, None, N_ITEMS, np.ones(GROUPS))
    group = np.arange(N_WORKERS) % GROUPS
    labels = draw_labels(rng, consensus[:, None] + tastes[group].T, N_LABELS)
    return told("three groups", seed, fitted(labels), lambda model: {"silhouette": separation(model, group)})


def fitted(labels: SimulatedLabels) -> CrowdGPPL:
    model = CrowdGPPL(n_components=MODEL_COMPONENTS)
    given = PairwiseLabels(u=labels.u, a=labels.a, b=labels.b, y=labels.y)
    return model.fit(given, n_items=N_ITEMS, n_users=N_WORKERS)


def separation(model: CrowdGPPL, group: np.ndarray) -> float:
    """The silhouette of the true groups on the two strongest components."""
    strongest = np.argsort(-model.component_energy_)[:2]
    return float(silhouette_score(model.user_components_[strongest].T, group))


def told(kind: str, seed: int, model: CrowdGPPL, more: Callable[[CrowdGPPL], dict[str, Any]]) -> dict[str, Any]:
    """How many components are in use, and how strong the first ones are beside the strongest."""
    shares = np.sort(model.component_energy_ / model.component_energy_.max())[::-1]
    row = {"in_use": int((shares > IN_USE).sum()), "shares": shares[:5].tolist(), **more(model)}
    tell(f"{kind}, seed {seed}: {row}")
    return row


def over_seeds(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Every figure of every seed."""
    return {name: [row[name] for row in rows] for name in rows[0]}


if __name__ == "__main__":
    main()
