"""The new-argument page against the paper's table: does a pasted text get the score that the benchmark gives it?

    python -m benchmarks.new_argument --data DIR [--folds 0-31]

For each fold the project's own way (settings of a project, features of its own items only) learns from the other folds,
and the texts of the fold are asked one by one, as on the page. Settings are those that benchmarks.paper.convincingness
chose without any label of the fold's topic; its taus are read from its results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.harness import RESULTS, arguments, paired, publish, tell
from benchmarks.paper.convincingness import fold_numbers
from benchmarks.paper.ukpconvarg import Corpus, read_corpus
from benchmarks.rows import database

NAME = "new_argument"
TARGET = 0.005
FIRM = {"consensus_variance": 0.05, "consensus_certainty": 20_000.0}


@dataclass(frozen=True)
class Chosen:
    """What the table's settings are called in a project."""

    settings: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> Chosen:
        """From words such as “near surface, words, vectors, M=100, s_t firm, C=10, variance 0.3”."""
        kernel, rest = name.split(", M=")
        M, prior, C, variance = rest.split(", ")
        names = {"surface, words, vectors": "texts", "near surface, words, vectors": "near texts", "surface": "surface"}
        settings = {"kernel": names[kernel], "n_inducing_items": int(M), "n_components": int(C.removeprefix("C="))}
        settings |= FIRM if prior == "s_t firm" else {}
        return cls({**settings, "personal_variance": float(variance.removeprefix("variance "))})


def tau_of_fold(corpus: Corpus, fold: int, settings: dict[str, Any]) -> float:
    """Kendall's tau between what the page expects of the fold's texts and their gold scores."""
    from modelling.dashboards.new_argument import features_of

    fitted, held = learned(corpus, fold, settings), np.flatnonzero(corpus.fold == fold)
    new = np.array([fitted.model.n_items_])
    rows = (features_of(fitted, corpus.texts[item]) for item in held)
    expected = [float(fitted.model.predict_consensus(items=new, X_items=row)[0]) for row in rows]
    return float(kendalltau(corpus.gold_score[held], expected).statistic)


def learned(corpus: Corpus, fold: int, settings: dict[str, Any]) -> Any:
    """A project's model of the other folds: their items, their workers, their judgements."""
    from annotation.models import Item, Worker
    from modelling.fitting import fit
    from modelling.inputs import Counts, Inputs, Moment
    from modelling.model_settings import ModelSettings
    from modelling.snapshots import Fitted

    kept, used = np.flatnonzero(corpus.fold != fold), np.flatnonzero(corpus.label_fold != fold)
    labels, place = corpus.labels.take(used), np.full(len(corpus.texts), -1)
    place[kept] = np.arange(len(kept))
    people, u = np.unique(labels.u, return_inverse=True)
    labels = type(labels)(u=u, a=place[labels.a], b=place[labels.b], y=labels.y)
    items = [Item(pk=int(n), text=corpus.texts[n]) for n in kept]
    workers = [Worker(pk=int(n)) for n in people]
    inputs = Inputs(Moment(len(used), 1), items, workers, labels, Counts(len(used), {}), "")
    model, features, traits = fit(inputs, ModelSettings.of(settings))
    return Fitted(model, features, traits, kept, people, np.arange(len(kept)))


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Both taus of every fold, and their mean difference."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    parser.add_argument("--folds", default="0-31")
    options = parser.parse_args(argv)
    if options.data is None:
        tell("No data: give --data. The new-argument table is skipped.")
        options.quick = True
        return publish(NAME, {"skipped": True}, options)
    table = json.loads((RESULTS / "convincingness.json").read_text(encoding="utf-8"))
    corpus, folds = read_corpus(options.data), fold_numbers(options.folds)[: 1 if options.quick else None]
    theirs = dict(zip(table["folds"], table["by_fold"]["crowdgppl"]["consensus.tau"], strict=True))
    ours = {}
    with database():
        for fold in folds:
            chosen = table["choices"][f"topics of group {corpus.topic[fold] % 4}"]["crowdgppl"]
            ours[fold] = tau_of_fold(corpus, fold, Chosen.of(chosen).settings)
            tell(f"fold {fold}: page {ours[fold]:.3f}, table {theirs[fold]:.3f}")
    gap = paired([ours[fold] for fold in folds], [theirs[fold] for fold in folds])
    mean = {"page": float(np.mean(list(ours.values()))), "table": float(np.mean([theirs[fold] for fold in folds]))}
    return publish(NAME, {"folds": folds, "tau": mean, "difference": gap, "target": TARGET, "by_fold": ours}, options)


if __name__ == "__main__":
    main()
