"""Held-out log loss on real judgements: UKPConvArg, three questions about vehicles, and music.

    python -m benchmarks.studies.real --data DIR [--only vehicles] [--rows DIR]

Random 80/20 splits of judgements. Ties are learned and scored as y = .5, scored without ties, and left out altogether.
Standard errors of differences are clustered by judge: all of a judge's judgements, over all splits, are one cluster.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, arguments, print_progress, publish, rounded
from benchmarks.studies.generate import Labels
from benchmarks.studies.models import CROWD, RIVALS, Data, Predictor, fit_engine, fit_timed, fitters
from benchmarks.studies.simulated import read

NAME = "real_studies"
SEEDS, TEST_SHARE = 5, 0.2
MARGIN = 0.003  # a rival may be better by this much, in addition to one standard error
CPU_LIMIT = 3600.0
PLAIN = "crowdgppl_no_features"
KINDS = ("personal", "random_member")
ANSWERS = {"a": 1.0, "b": 0.0, "tie": 0.5}

Row = dict[str, Any]


@dataclass(frozen=True)
class RealStudy:
    """One question with the judgements of one crowd."""

    name: str
    labels: Labels
    texts: tuple[str, ...]
    n_judges: int


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit the models that have no stored result yet, then summarise all results."""
    options = parse(argv)
    if options.data is None:
        return publish(NAME, {"skipped": True, "reason": "no --data"}, options)
    seeds = range(1 if options.quick else options.seeds)
    studies = [s for s in read_studies(options.data) if not options.only or s.name.startswith(tuple(options.only))]
    if options.quick:
        studies = [first_labels(study, 300) for study in studies]
    path = options.rows / f"{CROWD}.jsonl"
    if not options.summary:
        options.rows.mkdir(parents=True, exist_ok=True)
        for study in studies:
            run(study, seeds, path, options)
    rows = [row for row in read(path) + read(options.rows / "rivals.jsonl") if row["seed"] in seeds]
    found = {study.name: summary([row for row in rows if row["study"] == study.name]) for study in studies}
    result = {"seeds": len(seeds), "margin": MARGIN, "studies": found}
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder with ukpconvarg/, vehicles/ and music/")
    parser.add_argument("--rows", type=Path, default=RESULTS / "real", help="folder of the lines of JSON")
    parser.add_argument("--only", nargs="+", help="only studies whose names start so")
    parser.add_argument("--models", nargs="+", help="only these models")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--summary", action="store_true", help="fit nothing")
    return parser.parse_args(argv)


# Reading


def read_studies(folder: Path) -> list[RealStudy]:
    """Read every study found in the folder, small ones first."""
    made: list[RealStudy] = []
    if (folder / "vehicles").is_dir():
        made += vehicles(folder / "vehicles")
    if (folder / "music").is_dir():
        made.append(music(folder / "music"))
    if (folder / "ukpconvarg").is_dir():
        made.append(ukpconvarg(folder / "ukpconvarg"))
    return made


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def vehicles(folder: Path) -> list[RealStudy]:
    """Three questions about 26 vehicles."""
    items, rows = table(folder / "items.csv"), table(folder / "judgements.csv")
    texts = {row["key"]: row["text"] for row in items}
    named = sorted({row["study"] for row in rows})
    chosen = {name: [row for row in rows if row["study"] == name] for name in named}
    return [
        study(
            f"vehicles {name}",
            [(r["worker"], r["left"], r["right"], float(r["winner"] == r["left"])) for r in part],
            texts,
        )
        for name, part in chosen.items()
    ]


def music(folder: Path) -> RealStudy:
    """Variations of melodies, compared within a query; the texts are catalogue numbers."""
    items, rows = table(folder / "items.csv"), table(folder / "judgements.csv")
    texts = {row["key"]: row["text"] for row in items}
    return study("music", [(row["worker"], row["a"], row["b"], ANSWERS[row["choice"]]) for row in rows], texts)


def ukpconvarg(folder: Path) -> RealStudy:
    """Arguments of 32 debates."""
    items, rows = table(folder / "items.csv"), table(folder / "judgements.csv")
    texts = {row["item_id"]: row["text"] for row in items}
    given = [(row["worker_id"], row["item_a"], row["item_b"], ANSWERS[row["choice"]]) for row in rows]
    return study("ukpconvarg", given, texts)


def study(name: str, rows: list[tuple[str, str, str, float]], texts: dict[str, str]) -> RealStudy:
    """Convert names to indices."""
    judges = {key: i for i, key in enumerate(sorted({row[0] for row in rows}))}
    items = {key: i for i, key in enumerate(texts)}
    u = np.array([judges[row[0]] for row in rows])
    a, b = np.array([items[row[1]] for row in rows]), np.array([items[row[2]] for row in rows])
    return RealStudy(name, Labels(u, a, b, np.array([row[3] for row in rows])), tuple(texts.values()), len(judges))


def first_labels(study: RealStudy, n: int) -> RealStudy:
    """Return the study with only its first n judgements."""
    return RealStudy(study.name, study.labels.take(slice(0, n)), study.texts, study.n_judges)


# Fitting


def run(study: RealStudy, seeds: Sequence[int], path: Path, options: argparse.Namespace) -> None:
    """Fit every model to every split that has no line yet."""
    rivals = path.with_name("rivals.jsonl")
    done = {(r["study"], r["seed"], r["ties"], r["model"]) for r in read(path) + read(rivals)}
    X, settings = features(study.texts)
    for ties in (True, False) if (study.labels.y == 0.5).any() else (True,):
        labels = study.labels if ties else study.labels.take(study.labels.y != 0.5)
        for seed in seeds:
            test = np.random.default_rng([seed, len(labels)]).random(len(labels)) < TEST_SHARE
            data = Data(labels.take(~test), len(study.texts), study.n_judges, X, settings)
            for name, fit in models(data).items():
                if (study.name, seed, ties, name) in done or name not in (options.models or [name]):
                    continue
                model, seconds, error = fit_timed(fit, CPU_LIMIT)
                row = {
                    "study": study.name,
                    "seed": seed,
                    "ties": ties,
                    "model": name,
                    "cpu_seconds": seconds,
                    "error": error,
                }
                if model is not None:
                    row["scores"] = score(model, labels.take(test), study.n_judges)
                    row["facts"] = model.facts() if hasattr(model, "facts") else {}
                with (rivals if name in RIVALS else path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rounded(row, 6)) + "\n")
                print_progress(
                    f"{study.name}, seed {seed}, ties {ties}, {name}: {means(row)} in {seconds:.1f} CPU s {error}"
                )


def features(texts: Sequence[str]) -> tuple[np.ndarray, dict[str, Any]]:
    """Text features and the default kernel over them."""
    from modelling.features.item_kernels import default_item_kernel
    from modelling.features.text import TextFeatures

    found = TextFeatures().fit(texts)
    return found.transform(texts), {"item_kernel": default_item_kernel(found.blocks)}


def models(data: Data) -> dict[str, Callable[[], Predictor]]:
    """Return every model, and crowdGPPL without texts."""
    return {**fitters(data), PLAIN: lambda: fit_engine(data, features=False)}


def score(model: Predictor, test: Labels, n_judges: int) -> dict[str, Any]:
    """Each judge's number of answers and sum of losses, over all answers and over those that are not ties."""
    predicted = {
        "personal": model.personal(test.u, test.a, test.b),
        "random_member": model.random_member(test.a, test.b),
    }
    found: dict[str, Any] = {}
    for scored, rows in (("with_ties", test.y >= 0), ("without_ties", test.y != 0.5)):
        judges, at = np.unique(test.u[rows], return_inverse=True)
        y = test.y[rows]
        found[scored] = {"judges": judges, "n": np.bincount(at)}
        for kind in KINDS:
            q = np.clip(predicted[kind][rows], 1e-12, 1 - 1e-12)
            found[scored][kind] = np.bincount(at, -(y * np.log(q) + (1 - y) * np.log1p(-q)))
    return found


def means(row: Row) -> dict[str, float]:
    scores = row.get("scores", {}).get("with_ties")
    return {} if scores is None else {k: round(float(np.sum(scores[k]) / np.sum(scores["n"])), 4) for k in KINDS}


# Summary


def summary(rows: list[Row]) -> dict[str, Any]:
    """Losses, paired differences with standard errors by judge, CPU seconds."""
    found: dict[str, Any] = {}
    for name, ties, scored in (
        ("ties as one half", True, "with_ties"),
        ("ties not scored", True, "without_ties"),
        ("ties left out", False, "without_ties"),
    ):
        part = [row for row in rows if row["ties"] == ties and "scores" in row]
        for kind in KINDS if part else ():
            found[f"{name}, {kind}"] = compared(part, scored, kind)
    seconds: dict[str, list[float]] = {}
    for row in rows:
        seconds.setdefault(row["model"], []).append(row["cpu_seconds"] or 0.0)
    found["cpu_seconds"] = {name: float(np.mean(each)) for name, each in seconds.items()}
    found["failed"] = [{k: row[k] for k in ("seed", "ties", "model", "error")} for row in rows if row["error"]]
    return found


def compared(rows: list[Row], scored: str, kind: str) -> dict[str, Any]:
    """Mean losses, and crowdGPPL minus each other model."""
    models = sorted({row["model"] for row in rows})
    by_split = {(row["model"], row["seed"]): row["scores"][scored] for row in rows}
    losses, differences = {}, {}
    for name in models:
        splits = [each for (model, _), each in by_split.items() if model == name]
        losses[name] = float(sum(np.sum(s[kind]) for s in splits) / sum(np.sum(s["n"]) for s in splits))
    for name in models:
        both = [s for s in {seed for _, seed in by_split} if (name, s) in by_split and (CROWD, s) in by_split]
        if name == CROWD or not both:
            continue
        pairs = [(by_split[CROWD, s], by_split[name, s]) for s in both]
        judges = np.concatenate([own["judges"] for own, _ in pairs])
        gaps = np.concatenate([np.subtract(own[kind], other[kind]) for own, other in pairs])
        n = np.concatenate([own["n"] for own, _ in pairs])
        mean, error = clustered(judges, gaps, n)
        differences[name] = {"mean": mean, "standard_error": error, "fails": bool(mean > MARGIN + error)}
    return {"loss": losses, "crowdgppl_minus": differences}


def clustered(judges: np.ndarray, gaps: np.ndarray, n: np.ndarray) -> tuple[float, float]:
    """A mean over answers from sums per judge and split, and its standard error with judges as clusters."""
    mean = float(gaps.sum() / n.sum())
    _, at = np.unique(judges, return_inverse=True)
    residual = np.bincount(at, gaps - mean * n)
    count = len(residual)
    correction = count / max(count - 1, 1)
    # Splits repeat the same answers: a cluster's residual adds up over splits, as does the number of answers.
    return mean, float(np.sqrt(correction * (residual**2).sum()) / n.sum())


if __name__ == "__main__":
    main()
