"""The page “Test a text”: compare the scores of pasted texts with those of the benchmark of the paper's table.

    python -m benchmarks.paper.new_argument --data DIR [--folds 0-31]

For each fold, a model is fitted to the other folds as in a project (with its settings, and features of its own items
only), and each text of the fold is scored as on the page. The kernel is the one that benchmarks.paper.convincingness
chose without labels of the fold's topic; the taus to compare with are read from that benchmark's results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.harness import RESULTS, arguments, paired, print_progress, publish
from benchmarks.paper.convincingness import fold_numbers
from benchmarks.paper.ukpconvarg import Corpus, read_corpus
from benchmarks.server.rows import database

NAME = "new_argument"
TARGET = 0.005
KERNELS = {"surface, words, vectors": "texts", "near surface, words, vectors": "near texts", "surface": "surface"}


def tau_of_fold(corpus: Corpus, fold: int, settings: dict[str, Any]) -> float:
    """Kendall's tau between the page's scores of the fold's texts and their gold scores."""
    from modelling.dashboards.new_text import text_features

    fitted, held = fit_other_folds(corpus, fold, settings), np.flatnonzero(corpus.fold == fold)
    new = np.array([fitted.model.n_items_])
    rows = (text_features(fitted, corpus.texts[item]) for item in held)
    expected = [float(fitted.model.predict_consensus(items=new, X_items=row)[0]) for row in rows]
    return float(kendalltau(corpus.gold_score[held], expected).statistic)


def fit_other_folds(corpus: Corpus, fold: int, settings: dict[str, Any]) -> Any:
    """Fit a project's model on the other folds."""
    from annotation.models import Item, Worker
    from modelling.training.fit import fit
    from modelling.training.inputs import Inputs
    from modelling.training.settings import ModelSettings
    from modelling.training.snapshots import FittedModel

    kept, used = np.flatnonzero(corpus.fold != fold), np.flatnonzero(corpus.label_fold != fold)
    labels, place = corpus.labels.take(used), np.full(len(corpus.texts), -1)
    place[kept] = np.arange(len(kept))
    people, u = np.unique(labels.u, return_inverse=True)
    labels = type(labels)(u=u, a=place[labels.a], b=place[labels.b], y=labels.y)
    items = [Item(pk=int(n), text=corpus.texts[n]) for n in kept]
    workers = [Worker(pk=int(n)) for n in people]
    inputs = Inputs.from_labels(items, workers, labels)
    model, features, traits = fit(inputs, ModelSettings.from_dict(settings))
    everything = np.arange(len(kept))
    return FittedModel(model, features, traits, item_ids=kept, ranked=everything, item_counts=inputs.item_counts)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Compare both taus over the folds."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    parser.add_argument("--folds", default="0-31")
    options = parser.parse_args(argv)
    if options.data is None:
        print_progress("No data: give --data. The new-argument table is skipped.")
        options.quick = True
        return publish(NAME, {"skipped": True}, options)
    table = json.loads((RESULTS / "convincingness.json").read_text(encoding="utf-8"))
    corpus, folds = read_corpus(options.data), fold_numbers(options.folds)[: 1 if options.quick else None]
    theirs = dict(zip(table["folds"], table["by_fold"]["crowdgppl"]["consensus.tau"], strict=True))
    ours = {}
    with database():
        for fold in folds:
            chosen = table["choices"][f"topics of group {corpus.topic[fold] % 4}"]["kernel"]
            ours[fold] = tau_of_fold(corpus, fold, {"kernel": KERNELS[chosen]})
            print_progress(f"fold {fold}: page {ours[fold]:.3f}, table {theirs[fold]:.3f}")
    gap = paired([ours[fold] for fold in folds], [theirs[fold] for fold in folds])
    mean = {"page": float(np.mean(list(ours.values()))), "table": float(np.mean([theirs[fold] for fold in folds]))}
    return publish(NAME, {"folds": folds, "tau": mean, "difference": gap, "target": TARGET, "by_fold": ours}, options)


if __name__ == "__main__":
    main()
