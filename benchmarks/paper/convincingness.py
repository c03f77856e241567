"""The paper's table on UKPConvArgCrowdSample: consensus and personal predictions for unseen topics.

The kernel for a fold is chosen without any label of its topic: topics are divided into four groups, and for the folds
of one group the kernel is chosen on the labels of the other three, by leaving topics out again (four inner parts) and
comparing consensus-only fits. Everything else is learned from the labels of the training folds. The list of kernels
itself was made after leave-topic-out runs over all labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import (
    arguments,
    cholesky_unit,
    in_units,
    paired,
    print_progress,
    publish,
    standard_error,
    timed,
)
from benchmarks.paper.ukpconvarg import FOLDER_VARIABLE, METRICS, PANELS, Corpus, find_folder, read_corpus, score_fold
from modelling.baselines import BradleyTerry, LinearPreference
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.kernels import Kernel
from modelling.training.features.item_kernels import item_kernels
from modelling.training.features.text import TextFeatures

NAME = "convincingness"
METHODS = ("crowdgppl", "gppl", "bradley_terry", "linear")
TOPIC_GROUPS = 4
KERNELS = ("surface", "surface, words, vectors", "near surface, words, vectors")
CAUTION = "The kernel is chosen inside the training folds; the list of kernels was made with all labels in view."
RIDGES = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Settings:
    """The settings selected for the folds of one group of topics, and the cost of the selection."""

    kernel: str
    ridge: float
    tables: dict[str, list[dict[str, Any]]]
    seconds: float


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit and score every requested fold with every requested method."""
    options = parse(argv)
    folder = find_folder(options.data)
    if folder is None:
        print_progress(f"No data: give --data or set {FOLDER_VARIABLE}. The convincingness table is skipped.")
        return publish(NAME, {"skipped": True}, argparse.Namespace(quick=True))
    corpus = read_corpus(folder)
    features, feature_seconds = timed(lambda: TextFeatures().fit(corpus.texts))
    X = features.transform(corpus.texts)
    kernels = {name: item_kernels(features.blocks)[name] for name in (KERNELS[:1] if options.quick else KERNELS)}
    runs = measure(corpus, X, kernels, options)
    return publish(NAME, {"features_units": in_units(feature_seconds), **summary(runs, options.method)}, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of this benchmark."""
    parser = arguments(__doc__)
    parser.add_argument("--data", help=f"folder with the corpus (or the variable {FOLDER_VARIABLE})")
    parser.add_argument("--folds", default="0-31", help="such as 0-31 or 0,4,8")
    parser.add_argument("--method", default=",".join(METHODS), help=f"some of {', '.join(METHODS)}")
    options = parser.parse_args(argv)
    options.folds = [0, 9] if options.quick else fold_numbers(options.folds)
    options.method = options.method.split(",")
    unknown = set(options.method) - set(METHODS)
    if unknown:
        parser.error(f"there is no method {', '.join(sorted(unknown))}")
    return options


def fold_numbers(text: str) -> list[int]:
    """Parse a list of numbers and ranges of folds."""
    ends = [part.split("-") for part in text.split(",")]
    return [fold for end in ends for fold in range(int(end[0]), int(end[-1]) + 1)]


def measure(
    corpus: Corpus, X: np.ndarray, kernels: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return a record for each fold: figures and fit time of each method, and the settings used."""
    group_of_topic = np.arange(corpus.topic.max() + 1) % TOPIC_GROUPS
    settings: dict[int, Settings] = {}
    runs = []
    for fold in options.folds:
        group = int(group_of_topic[corpus.topic[fold]])
        if group not in settings:
            others = group_of_topic[corpus.topic[corpus.label_fold]] != group
            settings[group] = choose(corpus, others, X, kernels, 2 if options.quick else TOPIC_GROUPS)
        train = corpus.labels.take(np.flatnonzero(corpus.label_fold != fold))
        record: dict[str, Any] = {"fold": fold, "group": group, "settings": settings[group]}
        for method in options.method:
            record[method] = run(method, settings[group], corpus, train, X, kernels, fold)
            print_progress(
                f"fold {fold} {method}: " + " ".join(f"{value:.3f}" for value in record[method]["figures"].values())
            )
        runs.append(record)
    return runs


def choose(corpus: Corpus, usable: np.ndarray, X: np.ndarray, kernels: dict[str, Kernel], n_parts: int) -> Settings:
    """The kernel and the ridge of the linear model with the least loss on topics left out."""
    labels = corpus.labels.take(np.flatnonzero(usable))
    part = deal_topics(corpus.topic[corpus.fold], labels, n_parts)

    def work() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        by_kernel = [
            {
                "kernel": name,
                "loss": loss_on_parts(lambda k=kernel: CrowdGPPL(n_components=0, item_kernel=k), labels, part, X),
            }
            for name, kernel in kernels.items()
        ]
        by_ridge = [
            {"ridge": ridge, "loss": loss_on_parts(lambda r=ridge: LinearPreference(r), labels, part, X)}
            for ridge in RIDGES
        ]
        return by_kernel, by_ridge

    (by_kernel, by_ridge), seconds = timed(work)
    best, linear = (min(table, key=lambda row: row["loss"]) for table in (by_kernel, by_ridge))
    print_progress(f"chosen: {best['kernel']}; linear ridge {linear['ridge']:g}; {in_units(seconds):.0f} units")
    return Settings(best["kernel"], linear["ridge"], {"kernel": by_kernel, "linear": by_ridge}, seconds)


def deal_topics(topic: np.ndarray, labels: PairwiseLabels, n_parts: int) -> np.ndarray:
    """The part (N,) of each item: whole topics, the parts with about equally many labels."""
    counts = np.bincount(topic[labels.a], minlength=int(topic.max()) + 1)
    part, size = np.zeros(len(counts), dtype=np.int64), np.zeros(n_parts)
    for one in np.argsort(-counts, kind="stable"):
        part[one] = int(size.argmin())
        size[part[one]] += counts[one]
    return part[topic]


def loss_on_parts(make: Callable[[], Any], labels: PairwiseLabels, part: np.ndarray, X: np.ndarray) -> float:
    """Mean log loss of each part under a fit to the others."""
    losses = []
    for held in range(int(part.max()) + 1):
        model = make().fit(labels.take(part[labels.a] != held), X_items=X, n_users=labels.n_users)
        test = labels.take(part[labels.a] == held)
        p = np.clip(model.predict_proba(test.u, test.a, test.b), 1e-9, 1 - 1e-9)
        losses.append(-(test.y * np.log(p) + (1 - test.y) * np.log(1 - p)))
    return float(np.concatenate(losses).mean())


def run(
    method: str, settings: Settings, corpus: Corpus, train: PairwiseLabels, X: np.ndarray, kernels: dict[str, Kernel],
    fold: int,
) -> dict[str, Any]:  # fmt: skip
    """The figures of one method on one fold, and the CPU seconds of its fit."""
    kernel = kernels[settings.kernel]
    makers: dict[str, Callable[[], Any]] = {
        "crowdgppl": lambda: CrowdGPPL(item_kernel=kernel),
        "gppl": lambda: CrowdGPPL(n_components=0, item_kernel=kernel),
        "bradley_terry": lambda: BradleyTerry(item_kernel=kernel),
        "linear": lambda: LinearPreference(settings.ridge),
    }
    model, seconds = timed(lambda: makers[method]().fit(train, X_items=X, n_users=corpus.labels.n_users))
    return {"figures": score_fold(corpus, fold, model), "seconds": seconds}


def summary(runs: list[dict[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Means with standard errors, paired differences, selected settings and times."""
    keys = [f"{panel}.{metric}" for panel in PANELS for metric in METRICS]
    series = {m: {key: [run[m]["figures"].get(key, np.nan) for run in runs] for key in keys} for m in methods}
    chosen = {run["group"]: run["settings"] for run in runs}
    first = methods[0]
    return {
        "caution": CAUTION,
        "folds": [run["fold"] for run in runs],
        "means": {m: {key: float(np.nanmean(series[m][key])) for key in keys} for m in methods},
        "standard_errors": {key: standard_error(series[first][key]) for key in keys},
        "differences": {
            f"{first} - {m}": {k: paired(series[first][k], series[m][k]) for k in keys} for m in methods[1:]
        },
        "fit_units": {m: in_units(sum(run[m]["seconds"] for run in runs)) for m in methods},
        "selection_units": in_units(sum(settings.seconds for settings in chosen.values())),
        "cholesky_unit_seconds": cholesky_unit(),
        "choices": {
            f"topics of group {group}": {"kernel": settings.kernel, "ridge": settings.ridge, "losses": settings.tables}
            for group, settings in sorted(chosen.items())
        },
        "by_fold": {m: series[m] for m in methods},
    }


if __name__ == "__main__":
    main()
