"""The paper's figure of component variances: 1 / (s_v s_w), sorted, on UKPConvArgCrowdSample and Sushi-A.

    python -m benchmarks.paper.components [--data DIR] [--repeats N]

DIR holds `ukpconvarg/` and `sushi/`, or one of them; without data, a generated crowd with three tastes is used.
`paper_svi` has one scale for each component, as in the paper; Concord's engine keeps only components that the evidence
supports and reports their mean variance per item.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import publish
from benchmarks.paper.reference import CONVINCINGNESS_SETTINGS, SUSHI_SETTINGS, scaled_kernel
from benchmarks.paper.report import Runs, line, panel, parser, print_table, write_figure
from benchmarks.paper.sushi import DESIGNS, draw
from benchmarks.paper.sushi_files import FILES, read_sushi
from benchmarks.paper.ukpconvarg import read_corpus
from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import PaperSVI
from modelling.crowdgppl import CrowdGPPL, Matern32
from modelling.features.text import TextFeatures

NAME = "paper_components"
SHOWN = 20
CLAIM = "many components have a small variance: only those that the data support are used"
Fit = Callable[[int], dict[str, list[float]]]


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit both engines to each data set and average the sorted variances over repeats."""
    made = parser(__doc__, repeats=5)
    made.add_argument("--data", type=Path, help="folder with ukpconvarg/ and sushi/")
    options = made.parse_args(argv)
    if options.quick:
        options.repeats = 1
    runs, result = Runs(NAME, options), {}
    for name, fit in data_sets(options).items():
        rows = [runs.cell(lambda r=r, f=fit: f(r), data=name, repeat=r) for r in range(options.repeats)]
        rows = [row for row in rows if row is not None]
        result[name] = {method: mean_sorted([row[method] for row in rows]) for method in rows[0]} if rows else {}
    report(result, options)
    return publish(NAME, {"repeats": options.repeats, "paper": CLAIM, **result}, options)


def data_sets(options: argparse.Namespace) -> dict[str, Fit]:
    """The data sets for which there are files, or a generated one."""
    found: dict[str, Fit] = {}
    if options.data is not None and (options.data / "ukpconvarg").exists():
        found["UKPConvArgCrowdSample"] = convincingness(options.data / "ukpconvarg")
    if options.data is not None and all((options.data / "sushi" / file).exists() for file in FILES):
        found["Sushi-A"] = sushi(options.data / "sushi")
    return found or {"three tastes, generated": lambda repeat: generated(repeat, options.quick)}


def convincingness(folder: Path) -> Fit:
    """UKPConvArgCrowdSample with C = 50 and M = 500 as in the paper; each repeat leaves one fold out."""
    corpus = read_corpus(folder)
    X = TextFeatures().fit(corpus.texts).transform(corpus.texts)
    kernel = scaled_kernel(X.shape[1])

    def fit(repeat: int) -> dict[str, list[float]]:
        labels = corpus.labels.take(np.flatnonzero(corpus.label_fold != repeat % 32))
        paper = PaperSVI(**CONVINCINGNESS_SETTINGS, item_kernel=kernel, random_state=repeat)
        ours = CrowdGPPL(n_components=50, item_kernel=kernel, random_state=repeat)
        return variances(paper.fit(labels, X_items=X), ours.fit(labels, X_items=X))

    return fit


def sushi(folder: Path) -> Fit:
    """Sushi-A with C = 20, without user features."""
    data = read_sushi(folder)

    def fit(repeat: int) -> dict[str, list[float]]:
        sample = draw(data, DESIGNS["A"], np.random.default_rng([repeat, 0]))
        paper = PaperSVI(**SUSHI_SETTINGS["A"], random_state=repeat)
        ours = CrowdGPPL(item_kernel=Matern32(), random_state=repeat)
        return variances(*(each.fit(sample.train, X_items=sample.X_items) for each in (paper, ours)))

    return fit


def generated(repeat: int, quick: bool) -> dict[str, list[float]]:
    """25 users with three tastes of variance 1 about 100 items."""
    rng = np.random.default_rng([repeat, 11])
    crowd = draw_crowd(rng, X_items=grid(10), n_users=25, n_labels=600 if quick else 2304, n_components=3)
    paper = PaperSVI(n_iterations=20 if quick else 100, batch_size=1000, n_inducing_items=None, random_state=repeat)
    ours = CrowdGPPL(random_state=repeat)
    return variances(*(each.fit(crowd.labels, X_items=crowd.X_items) for each in (paper, ours)))


def variances(paper: PaperSVI, ours: CrowdGPPL) -> dict[str, list[float]]:
    """Sorted variances of both engines."""
    return {
        "paper SVI": paper.component_variances_.tolist(),
        "crowdGPPL": np.sort(ours.component_variances_)[::-1].tolist(),
    }


def mean_sorted(rows: list[list[float]]) -> list[float]:
    """The mean variance at each rank; a component that was not kept counts as 0."""
    size = max((len(row) for row in rows), default=0)
    return np.mean([row + [0.0] * (size - len(row)) for row in rows], axis=0).tolist() if size else []


def report(result: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the sorted variances and how many exceed 5% of the largest."""
    panels = []
    for name, methods in result.items():
        rows = []
        for method, values in methods.items():
            large = sum(value > 0.05 * values[0] for value in values) if values else 0
            rows.append([method, len(values), large, " ".join(f"{value:.3g}" for value in values[:SHOWN])])
        print_table(f"{name}. Paper: {CLAIM}.", ["method", "components", "> 5 % of the largest", "variances"], rows)
        curves = [line(method, range(1, len(values) + 1), values) for method, values in methods.items()]
        panels.append(panel(name, "component", "variance", curves))
    write_figure(NAME, panels, options)


if __name__ == "__main__":
    main()
