"""The paper's table on UKPConvArgCrowdSample: consensus and personal predictions for unseen topics.

    python -m benchmarks.paper.convincingness --data DIR [--folds 0-31] [--method NAMES] [--tune]

The kernel for a fold is chosen without any label of its topic: topics are divided into four groups, and for the folds
of one group the kernel is chosen on the labels of the other three, by leaving topics out again (four inner parts) and
comparing consensus-only fits. Everything else is learned from the labels of the training folds. The list of kernels
itself was made after leave-topic-out runs over all labels. `paper_svi` has the paper's settings, its kernel included;
--tune repeats the paper's choice of length-scale and rates, by accuracy on the training set of one fold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.harness import (
    cholesky_unit,
    in_units,
    paired,
    print_progress,
    publish,
    standard_error,
    timed,
)
from benchmarks.paper.reference import CONVINCINGNESS, CONVINCINGNESS_SETTINGS, paper_row, scaled_kernel
from benchmarks.paper.report import Runs, line, panel, parser, print_table, write_figure
from benchmarks.paper.ukpconvarg import FOLDER_VARIABLE, METRICS, PANELS, Corpus, find_folder, read_corpus, score_fold
from modelling.baselines import LinearPreference, PaperSVI
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.kernels import Kernel
from modelling.features.item_kernels import item_kernels
from modelling.features.text import TextFeatures

NAME = "convincingness"
# Those without user features, which the corpus does not have.
METHODS = (
    "crowdgppl", "crowdgppl_no_consensus", "gppl", "gppl_per_user", "paper_svi", "paper_svi_no_consensus",
    "crowd_bt_gp", "collab_gp", "gpvu", "bradley_terry", "linear", "crowd_bt", "thurstone_mosteller",
)  # fmt: skip
SMALL_PAPER = {"n_components": 5, "n_inducing_items": 100}  # the paper's settings of its scalability figure
LENGTH_SCALES, BETAS, WEIGHT_BETAS = (1.0, 10.0, 20.0, 100.0), (2.0, 200.0, 20000.0), (1.0, 10.0, 100.0)
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
    store = Runs(NAME, options)
    runs = measure(corpus, X, kernels, store, options)
    result = {"features_units": in_units(feature_seconds), **summary(runs, options.method)}
    if options.kernel:
        result["caution"] = f"One kernel for all folds, not chosen inside the training folds: {options.kernel}."
    if options.tune:
        result["paper_tuning"] = tune(corpus, X, store, options)
    report(result, options)
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of this benchmark."""
    made = parser(__doc__)
    made.add_argument("--data", help=f"folder with the corpus (or the variable {FOLDER_VARIABLE})")
    made.add_argument("--folds", default="0-31", help="such as 0-31 or 0,4,8")
    made.add_argument("--method", default=",".join(METHODS), help=f"some of {', '.join(METHODS)}")
    made.add_argument("--small-paper", action="store_true", help="paper_svi with C = 5, M = 100: 20 times faster")
    made.add_argument("--kernel", choices=KERNELS, help="this kernel for all folds instead of the choice; ridge 10")
    made.add_argument("--tune", action="store_true", help="also repeat the paper's choice of its hyperparameters")
    options = made.parse_args(argv)
    options.folds = [0, 9] if options.quick else fold_numbers(options.folds)
    options.method = options.method.split(",")
    unknown = set(options.method) - set(METHODS)
    if unknown:
        made.error(f"there is no method {', '.join(sorted(unknown))}")
    return options


def fold_numbers(text: str) -> list[int]:
    """Parse a comma-separated list of fold numbers and ranges."""
    ends = [part.split("-") for part in text.split(",")]
    return [fold for end in ends for fold in range(int(end[0]), int(end[-1]) + 1)]


def measure(
    corpus: Corpus, X: np.ndarray, kernels: dict[str, Any], store: Runs, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return a record for each fold: figures and fit time of each method, and the settings used."""
    group_of_topic = np.arange(corpus.topic.max() + 1) % TOPIC_GROUPS
    n_parts = 2 if options.quick else TOPIC_GROUPS
    runs = []
    for fold in options.folds:
        group = int(group_of_topic[corpus.topic[fold]])
        others = group_of_topic[corpus.topic[corpus.label_fold]] != group
        if options.kernel:
            settings = Settings(options.kernel, RIDGES[2], {}, 0.0)
        else:
            settings = Settings(
                **store.cell(
                    lambda o=others: choose(corpus, o, X, kernels, n_parts), group=group, kernels=list(kernels)
                )
            )
        train = corpus.labels.take(np.flatnonzero(corpus.label_fold != fold))
        record: dict[str, Any] = {"fold": fold, "group": group, "settings": settings}
        for method in options.method:
            arguments = method_settings(method, settings, X, kernels, options)
            shown = {key: str(value) for key, value in arguments.items() if key != "kernel"}
            found = store.cell(
                lambda m=method, a=arguments, t=train, f=fold: run(m, a, corpus, t, X, f),
                fold=fold, method=method, kernel=settings.kernel, settings=shown,
            )  # fmt: skip
            record[method] = found or {}
        if any(record[method] for method in options.method):
            runs.append(record)
    return runs


def method_settings(
    method: str, settings: Settings, X: np.ndarray, kernels: dict[str, Kernel], options: argparse.Namespace
) -> dict[str, Any]:
    """The selected kernel or ridge, or the paper's settings for its own inference."""
    if method == "linear":
        return {"ridge": settings.ridge}
    if not method.startswith("paper_svi"):
        return {"kernel": kernels[settings.kernel]}
    own = {**CONVINCINGNESS_SETTINGS, **(SMALL_PAPER if options.small_paper or options.quick else {})}
    if options.quick:
        own["n_iterations"] = 20
    return {"kernel": scaled_kernel(X.shape[1]), **own}


def choose(
    corpus: Corpus, usable: np.ndarray, X: np.ndarray, kernels: dict[str, Kernel], n_parts: int
) -> dict[str, Any]:
    """Select the kernel, and the linear model's ridge, with the lowest loss on held-out topics."""
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
    tables = {"kernel": by_kernel, "linear": by_ridge}
    return {"kernel": best["kernel"], "ridge": linear["ridge"], "tables": tables, "seconds": seconds}


def deal_topics(topic: np.ndarray, labels: PairwiseLabels, n_parts: int) -> np.ndarray:
    """Assign each item to a part (N,), so that topics stay whole and parts have about equally many labels."""
    counts = np.bincount(topic[labels.a], minlength=int(topic.max()) + 1)
    part, size = np.zeros(len(counts), dtype=np.int64), np.zeros(n_parts)
    for one in np.argsort(-counts, kind="stable"):
        part[one] = int(size.argmin())
        size[part[one]] += counts[one]
    return part[topic]


def loss_on_parts(make: Callable[[], Any], labels: PairwiseLabels, part: np.ndarray, X: np.ndarray) -> float:
    """The mean log loss over all parts, each predicted by a fit to the others."""
    losses = []
    for held in range(int(part.max()) + 1):
        model = make().fit(labels.take(part[labels.a] != held), X_items=X, n_users=labels.n_users)
        test = labels.take(part[labels.a] == held)
        p = np.clip(model.predict_proba(test.u, test.a, test.b), 1e-9, 1 - 1e-9)
        losses.append(-(test.y * np.log(p) + (1 - test.y) * np.log(1 - p)))
    return float(np.concatenate(losses).mean())


def run(
    method: str, settings: dict[str, Any], corpus: Corpus, train: PairwiseLabels, X: np.ndarray, fold: int
) -> dict[str, Any]:
    """Fit one method; return its figures on one fold and the fit's CPU seconds."""
    model, seconds = timed(lambda: CATALOGUE[method].fit(train, X_items=X, n_users=corpus.labels.n_users, **settings))
    return {**score_fold(corpus, fold, model), "seconds": seconds}


def tune(corpus: Corpus, X: np.ndarray, store: Runs, options: argparse.Namespace) -> dict[str, Any]:
    """Repeat the paper's choices in turn: GPPL's length-scale, GPPL's beta_0, then the weights' beta_0."""
    train = corpus.labels.take(np.flatnonzero(corpus.label_fold != 0))
    decided = train.take(train.y != 0.5)
    size = {**CONVINCINGNESS_SETTINGS, **SMALL_PAPER, "n_iterations": 10 if options.quick else 200}

    def accuracy(factor: float, **own: Any) -> float:
        model = PaperSVI(item_kernel=scaled_kernel(X.shape[1], factor), **{**size, **own})
        p = model.fit(train, X_items=X).predict_proba(decided.u, decided.a, decided.b)
        return float(np.mean((p > 0.5) == (decided.y == 1.0)))

    def table(name: str, values: Sequence[float], of: Callable[[float], float]) -> dict[float, float]:
        return {value: store.cell(lambda v=value: of(v), tune=name, value=value) for value in values}

    by_scale = table("length-scale", LENGTH_SCALES, lambda factor: accuracy(factor, n_components=0))
    factor = max(by_scale, key=lambda key: by_scale[key])
    by_beta = table("beta_0", BETAS, lambda beta: accuracy(factor, n_components=0, t_prior=(2.0, beta)))
    beta = max(by_beta, key=lambda key: by_beta[key])
    priors = {"t_prior": (2.0, beta), "v_prior": (2.0, beta)}
    by_weight = table("beta_0 of w", WEIGHT_BETAS, lambda w: accuracy(factor, **priors, w_prior=(1.0, w)))
    return {
        "length-scale factor": {"chosen": factor, "paper": 20.0, "training_accuracy": by_scale},
        "beta_0": {"chosen": beta, "paper": 200.0, "training_accuracy": by_beta},
        "beta_0 of w": {
            "chosen": max(by_weight, key=lambda key: by_weight[key]), "paper": 10.0, "training_accuracy": by_weight
        },
        "ours": "The kernel by the loss on topics left out of the training folds; all scales by the evidence.",
    }  # fmt: skip


def summary(runs: list[dict[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Means with standard errors, paired differences, selected settings and times."""
    keys = [f"{panel}.{metric}" for panel in PANELS for metric in METRICS]
    series = {m: {key: [run[m].get(key, np.nan) for run in runs] for key in keys} for m in methods}
    chosen = {run["group"]: run["settings"] for run in runs}
    first = methods[0]
    return {
        "caution": CAUTION,
        "folds": [run["fold"] for run in runs],
        "folds_of_method": {m: sum(bool(run[m]) for run in runs) for m in methods},
        "means": {m: {key: finite_mean(series[m][key]) for key in keys} for m in methods},
        "standard_errors": {m: {key: standard_error(series[m][key]) for key in keys} for m in methods},
        "wilcoxon_p": {
            f"{first} - {m}": {k: signed_rank(series[first][k], series[m][k]) for k in keys} for m in methods[1:]
        },
        "differences": {
            f"{first} - {m}": {k: paired(series[first][k], series[m][k]) for k in keys} for m in methods[1:]
        },
        "fit_units": {m: in_units(sum(run[m].get("seconds", 0.0) for run in runs)) for m in methods},
        "selection_units": in_units(sum(settings.seconds for settings in chosen.values())),
        "cholesky_unit_seconds": cholesky_unit(),
        "choices": {
            f"topics of group {group}": {"kernel": settings.kernel, "ridge": settings.ridge, "losses": settings.tables}
            for group, settings in sorted(chosen.items())
        },
        "by_fold": {m: series[m] for m in methods},
    }


def finite_mean(values: Sequence[float]) -> float:
    """Mean of the finite values; NaN without any."""
    finite = np.array(values)[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def signed_rank(first: Sequence[float], second: Sequence[float]) -> float:
    """The p-value of Wilcoxon's signed-rank test over folds, as used in the paper for tau."""
    gaps = np.subtract(first, second)
    gaps = gaps[np.isfinite(gaps) & (gaps != 0)]
    return float(wilcoxon(gaps).pvalue) if len(gaps) > 5 else float("nan")


def report(result: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the table with the paper's values in brackets, and draw a figure of its nine columns."""
    rows = []
    for method in options.method:
        cells = []
        for panel_name in PANELS:
            paper = paper_row(CONVINCINGNESS, method, panel_name)
            for metric, value in zip(METRICS, paper, strict=True):
                mean = result["means"][method][f"{panel_name}.{metric}"]
                cells.append(f"{mean:.3f} ({'-' if value is None else f'{value:.2f}'})")
        rows.append([CATALOGUE[method].title, *cells, result["fit_units"][method], result["folds_of_method"][method]])
    columns = [f"{short} {metric}" for short in ("cons", "pers", ">50") for metric in ("acc", "CEE", "tau")]
    title = f"UKPConvArgCrowdSample, {len(result['folds'])} folds (in brackets: the paper)"
    print_table(title, ["method", *columns, "units", "folds"], rows)
    panels = []
    for metric in METRICS:
        curves = [
            line(CATALOGUE[m].title, list(PANELS), [result["means"][m][f"{p}.{metric}"] for p in PANELS],
                 [result["standard_errors"][m][f"{p}.{metric}"] for p in PANELS])
            for m in options.method
        ]  # fmt: skip
        panels.append(panel(metric.replace("_", " "), "", "", curves))
    write_figure(NAME, panels, options)


if __name__ == "__main__":
    main()
