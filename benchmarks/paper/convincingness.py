"""The paper's table on UKPConvArgCrowdSample: consensus and personal predictions for topics never seen.

Settings for a fold are chosen without any label of its topic: the topics are dealt into four groups, and for the folds
of one group settings are chosen on the labels of the other three, by leaving topics out again (four inner parts).
Only the choice among the candidates is that strict: the list of candidates itself was drawn up after leave-topic-out
runs over all labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.harness import arguments, cholesky_unit, in_units, paired, publish, standard_error, tell, timed
from benchmarks.paper.ukpconvarg import FOLDER_VARIABLE, METRICS, PANELS, Corpus, find_folder, read_corpus, score_fold
from modelling.baselines import BradleyTerry, LinearPreference
from modelling.crowdgppl.labels import PairwiseLabels
from modelling.crowdgppl.selection import Candidate, Score, Whitenings, answer_losses, deal_groups, select
from modelling.features import TextFeatures, item_kernels

NAME = "convincingness"
METHODS = ("crowdgppl", "gppl", "bradley_terry", "linear")
TOPIC_GROUPS = 4
FIRM = (20_000.0, 1_000.0)  # s_t is 20 whatever the labels say; the other candidate learns it
DIRECTIONS = (60, 100)
TASTES = ((5, 0.3), (10, 0.3), (10, 1.0), (10, 3.0))  # components and their total variance
CAUTION = "Settings are chosen inside the training folds; the list of candidates was drawn up with all labels in view."
RIDGES = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Settings:
    """What was chosen for the folds of one group of topics, and what the choice cost."""

    shared: Candidate  # GPPL: kernel, directions, prior
    personal: Candidate  # crowdGPPL: the same with tastes
    ridge: float
    tables: dict[str, list[dict[str, Any]]]
    seconds: float


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fits and scores every wanted fold by every wanted method."""
    options = parse(argv)
    folder = find_folder(options.data)
    if folder is None:
        tell(f"No data: give --data or set {FOLDER_VARIABLE}. The convincingness table is skipped.")
        return publish(NAME, {"skipped": True}, argparse.Namespace(quick=True))
    corpus = read_corpus(folder)
    features, feature_seconds = timed(lambda: TextFeatures().fit(corpus.texts))
    X = features.transform(corpus.texts)
    kernels = item_kernels(features.blocks)
    if options.quick:
        kernels = {name: kernels[name] for name in list(kernels)[:1]}
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
    """The folds that a list of numbers and ranges names."""
    ends = [part.split("-") for part in text.split(",")]
    return [fold for end in ends for fold in range(int(end[0]), int(end[-1]) + 1)]


def measure(
    corpus: Corpus, X: np.ndarray, kernels: dict[str, Any], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """One record for each fold: figures and fit time of each method, and the settings used."""
    group_of_topic = np.arange(corpus.topic.max() + 1) % TOPIC_GROUPS
    whitenings = Whitenings.of(X, largest=max(DIRECTIONS))
    settings: dict[int, Settings] = {}
    runs = []
    for fold in options.folds:
        group = int(group_of_topic[corpus.topic[fold]])
        if group not in settings:
            others = group_of_topic[corpus.topic[corpus.label_fold]] != group
            settings[group] = choose(corpus, others, kernels, whitenings, quick=options.quick)
        train = corpus.labels.take(np.flatnonzero(corpus.label_fold != fold))
        record: dict[str, Any] = {"fold": fold, "group": group, "settings": settings[group]}
        for method in options.method:
            record[method] = run(method, settings[group], corpus, train, whitenings, fold)
            tell(f"fold {fold} {method}: " + " ".join(f"{value:.3f}" for value in record[method]["figures"].values()))
        runs.append(record)
    return runs


def choose(
    corpus: Corpus, usable: np.ndarray, kernels: dict[str, Any], whitenings: Whitenings, quick: bool
) -> Settings:
    """Without tastes the kernel, then directions and prior; then tastes; and the ridge of the linear model."""
    labels, groups = corpus.labels.take(np.flatnonzero(usable)), corpus.topic[corpus.fold]
    n_users, n_parts = corpus.labels.n_users, 2 if quick else TOPIC_GROUPS

    def stage(candidates: list[Candidate]) -> tuple[Candidate, list[dict[str, Any]]]:
        found = select(labels, groups, candidates, whitenings, n_users=n_users, n_parts=n_parts, progress=told)
        return found.winner, [_row(score) for score in found.table]

    def work() -> tuple[Candidate, Candidate, float, dict[str, Any]]:
        shared, first = stage(kernel_candidates(kernels, quick))
        shared, second = stage(shared_candidates(shared, quick))
        personal, third = stage(personal_candidates(shared, quick))
        ridge, fourth = choose_ridge(labels, deal_groups(groups, labels, n_parts), whitenings)
        tables = {"kernel": first, "directions and prior": second, "tastes": third, "linear": fourth}
        return shared, personal, ridge, tables

    (shared, personal, ridge, tables), seconds = timed(work)
    tell(f"chosen: {personal.name}; linear ridge {ridge:g}; {in_units(seconds):.0f} units")
    return Settings(shared, personal, ridge, tables, seconds)


def kernel_candidates(kernels: dict[str, Any], quick: bool) -> list[Candidate]:
    """GPPL with each kernel, all directions and the firm prior."""
    M = DIRECTIONS[0] if quick else DIRECTIONS[-1]
    return [
        Candidate(f"{name}, M={M}, s_t firm", kernel, n_inducing_items=M, t_prior=FIRM)
        for name, kernel in kernels.items()
    ]


def shared_candidates(best: Candidate, quick: bool) -> list[Candidate]:
    """The best kernel with each number of directions and each prior."""
    kernel = best.name.split(", M=")[0]
    return [
        replace(best, name=f"{kernel}, M={M}, s_t {word}", n_inducing_items=M, t_prior=prior)
        for M in (DIRECTIONS[:1] if quick else DIRECTIONS)
        for word, prior in (("learned", (1.0, 1.0)), ("firm", FIRM))
    ]


def personal_candidates(shared: Candidate, quick: bool) -> list[Candidate]:
    """The chosen GPPL with tastes of several sizes."""
    return [
        replace(shared, name=f"{shared.name}, C={C}, variance {v:g}", n_components=C, personal_variance=v)
        for C, v in (TASTES[:1] if quick else TASTES)
    ]


def choose_ridge(
    labels: PairwiseLabels, part: np.ndarray, whitenings: Whitenings
) -> tuple[float, list[dict[str, Any]]]:
    """The ridge of the linear model with the least loss on the same parts."""
    table = []
    for ridge in RIDGES:
        losses = []
        for held in range(part.max() + 1):
            inside, outside = part[labels.a] == held, part[labels.a] != held
            model = LinearPreference(ridge).fit(labels.take(outside), X_items=whitenings.X_items)
            test = labels.take(inside)
            losses.append(answer_losses(model.predict_proba(test.u, test.a, test.b), test))
        table.append({"candidate": f"ridge {ridge:g}", "ridge": ridge, "loss": float(np.concatenate(losses).mean())})
    return min(table, key=lambda row: row["loss"])["ridge"], table


def run(
    method: str, settings: Settings, corpus: Corpus, train: PairwiseLabels, whitenings: Whitenings, fold: int
) -> dict[str, Any]:
    """The figures of one method on one fold, and the CPU seconds of its fit; kernels are tabulated once for all."""
    table, X, numbers = whitenings.table(settings.shared.item_kernel), whitenings.X_items, whitenings.numbers
    makers: dict[str, tuple[Callable[[], Any], Any]] = {
        "crowdgppl": (lambda: settings.personal.estimator(item_kernel=table), numbers),
        "gppl": (lambda: settings.shared.estimator(item_kernel=table), numbers),
        "bradley_terry": (lambda: BradleyTerry(item_kernel=table), numbers),
        "linear": (lambda: LinearPreference(settings.ridge), X),
    }
    make, rows = makers[method]
    model, seconds = timed(lambda: make().fit(train, X_items=rows, n_users=corpus.labels.n_users))
    return {"figures": score_fold(corpus, fold, model), "seconds": seconds}


def summary(runs: list[dict[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Means with standard errors, paired differences, choices and times."""
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
        "choices": {f"topics of group {group}": _choice(settings) for group, settings in sorted(chosen.items())},
        "by_fold": {m: series[m] for m in methods},
    }


def _choice(settings: Settings) -> dict[str, Any]:
    return {
        "crowdgppl": settings.personal.name,
        "gppl": settings.shared.name,
        "ridge": settings.ridge,
        "scores": settings.tables,
    }


def _row(score: Score) -> dict[str, Any]:
    return {"candidate": score.candidate.name, "loss": score.loss, "accuracy": score.accuracy}


def told(name: str, done: int, total: int, loss: float) -> None:
    """Progress of a selection."""
    tell(f"  {done}/{total} {name}: {loss:.4f}")


if __name__ == "__main__":
    main()
