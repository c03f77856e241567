"""Held-out log loss on simulated studies, scored against the true probabilities.

    python -m benchmarks.studies.simulated --from 0 --to 200 [--rows DIR] [--processes 1]

With few labels, chance decides which model is nearest to the truth in one replicate, so the losses of small studies
are means over replicates with the same parameters and different random numbers. Shares in single replicates are
reported as well. Every finished study is one line of JSON in DIR, so that a run can be resumed and slices can be added.
Rivals are fitted once. `--summary` only summarises existing results; `--fresh` fits crowdGPPL and GPPL of this slice
again.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS, arguments, print_progress, publish, rounded, standard_error
from benchmarks.studies.generate import Study, generate, parameters_of
from benchmarks.studies.models import CROWD, GPPL, RIVALS, Data, Engine, fit_timed, fitters
from benchmarks.studies.rivals import log_loss

NAME = "simulated_studies"
STUDIES, QUICK_LABELS = 240, 600
MARGIN, WANTED = 0.003, 0.95  # best, or within MARGIN of the best, in WANTED of the studies
CPU_LIMIT = 900.0  # seconds for one fit
LABELS_OF_REPLICATES, MOST_REPLICATES = 4000, 12  # a study is repeated until its replicates have this many labels
CLASSES = (0, 1000, 10_000, 10**9)  # numbers of labels
SCORES = ("design.personal", "design.random_member", "uniform.personal", "uniform.random_member")
WORST = 12

Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit the models that have no stored result yet, then summarise all results."""
    options = parse(argv)
    indices = quick_indices(options.stop) if options.quick else range(options.start, options.stop)
    if options.max_labels:
        indices = [i for i in indices if expected_labels(i) <= options.max_labels]
    names = (*RIVALS, CROWD, *GPPL)
    files = {name: options.rows / f"{file_of(name)}.jsonl" for name in names}
    if not options.summary:
        run(indices, names, files, options)
    rows = {name: {row["index"]: row for row in read(path) if row["model"] == name} for name, path in files.items()}
    result = {"margin": MARGIN, **summary(rows, set(indices))}
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = arguments(__doc__)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--to", dest="stop", type=int, default=STUDIES)
    parser.add_argument("--rows", type=Path, default=RESULTS / "studies", help="folder of the lines of JSON")
    parser.add_argument("--replicates", type=int, default=MOST_REPLICATES, help="at most, of a small study")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--models", nargs="+", help="only these models")
    parser.add_argument("--max-labels", type=int, help="leave out larger studies")
    parser.add_argument("--summary", action="store_true", help="fit nothing")
    parser.add_argument("--fresh", action="store_true", help="fit crowdGPPL and GPPL again")
    return parser.parse_args(argv)


def expected_labels(index: int) -> float:
    p = parameters_of(index)
    return p.labels_each * p.n_judges


def quick_indices(stop: int) -> list[int]:
    """Return two small studies for the quick form."""
    return [i for i in range(stop) if expected_labels(i) < QUICK_LABELS][:2]


def file_of(model: str) -> str:
    """Return the name of the results file. Rivals have their own: they need no new fit when crowdGPPL changes."""
    return "rivals" if model in RIVALS else CROWD


def run(indices: Iterable[int], names: Sequence[str], files: dict[str, Path], options: argparse.Namespace) -> None:
    """Fit every study that has no line yet, smallest index first."""
    options.rows.mkdir(parents=True, exist_ok=True)
    wanted = set(options.models or names)
    if options.fresh:
        path = files[CROWD]
        kept = [row for row in read(path) if row["index"] not in set(indices) or row["model"] not in wanted]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    done = {(row["index"], row["model"]) for path in set(files.values()) for row in read(path)}
    tasks = []
    for index in indices:
        models = [n for n in names if n in wanted and (index, n) not in done]
        if not parameters_of(index).n_features:
            models = [n for n in models if n != "gppl_features"]
        if models:
            tasks.append((index, number_of_replicates(index, options.replicates), models))
    if options.processes == 1:
        results: Iterable[list[Row]] = map(fit_study, tasks)
        write(results, files)
        return
    with ProcessPoolExecutor(max_workers=options.processes) as pool:
        write(pool.map(fit_study, tasks), files)


def write(results: Iterable[list[Row]], files: dict[str, Path]) -> None:
    """Append each line as soon as it is computed."""
    for rows in results:
        for row in rows:
            with files[row["model"]].open("a", encoding="utf-8") as file:
                file.write(json.dumps(rounded(row, 6)) + "\n")
        losses = {row["model"]: row["losses"].get(SCORES[0]) for row in rows}
        seconds = {row["model"]: round(row["cpu_seconds"], 1) for row in rows}
        print_progress(f"study {rows[0]['index']}: {rounded(losses)} CPU s {seconds}")


def read(path: Path) -> list[Row]:
    """Read the lines of a file if it exists; an incomplete last line is dropped."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def number_of_replicates(index: int, most: int) -> int:
    """Return the number of replicates, which is larger for smaller studies."""
    return int(np.clip(np.ceil(LABELS_OF_REPLICATES / expected_labels(index)), 1, most))


def fit_study(task: tuple[int, int, Sequence[str]]) -> list[Row]:
    """Fit one study and return a line for each model."""
    index, replicates, names = task
    rows: dict[str, Row] = {
        name: {"index": index, "model": name, "replicates": [], "cpu_seconds": 0.0} for name in names
    }
    for replicate in range(replicates):
        study = generate(index, replicate)
        data = Data(study.labels, study.n_items, study.n_judges, study.X_items)
        for name, row in rows.items():
            if row.get("error"):
                continue
            model, seconds, row["error"] = fit_timed(fitters(data)[name], CPU_LIMIT)
            row["cpu_seconds"] += seconds
            if model is not None:
                row["replicates"].append(score(study, model))
            if replicate == 0:
                row |= details(study, model, name)
            if name == "constant":
                row.setdefault("truths", []).append(truth(study))
    for row in rows.values():
        complete = len(row["replicates"]) == replicates
        row["losses"] = averages(row["replicates"]) if complete else {}
        if "truths" in row:
            row["true"] = averages(row.pop("truths"))
    return list(rows.values())


def details(study: Study, model: Any, name: str) -> dict[str, Any]:
    """Diagnostics of the first fit and, once for each study, its parameters."""
    found: dict[str, Any] = {}
    if isinstance(model, Engine):
        found["facts"] = model.facts()
    for attribute in ("ridge", "ridge_personal"):
        if hasattr(model, attribute):
            found[attribute] = getattr(model, attribute)
    if name == "constant":
        found["parameters"] = study.description()
    return found


def averages(losses: list[dict[str, float]]) -> dict[str, float]:
    return {kind: float(np.mean([each[kind] for each in losses])) for kind in losses[0]}


def score(study: Study, model: Any) -> dict[str, float]:
    """Expected log loss of fresh answers, by kind of pair and of prediction."""
    losses = {}
    for name, test in study.tests.items():
        losses[f"{name}.personal"] = log_loss(model.personal(test.u, test.a, test.b), test.personal)
        losses[f"{name}.random_member"] = log_loss(model.random_member(test.a, test.b), test.random_member)
    return losses


def truth(study: Study) -> dict[str, float]:
    """Compute the smallest possible losses."""
    losses = {}
    for name, test in study.tests.items():
        losses[f"{name}.personal"] = log_loss(test.personal, test.personal)
        losses[f"{name}.random_member"] = log_loss(test.random_member, test.random_member)
    return losses


def summary(rows: dict[str, dict[int, Row]], indices: set[int]) -> dict[str, Any]:
    """Summarise how often crowdGPPL is best or nearly best, mean differences, worst cases and CPU seconds."""
    known = sorted(indices & set(rows[CROWD]) & set(rows["bradley_terry"]))
    failed = [{"index": i, "error": rows[CROWD][i]["error"]} for i in known if rows[CROWD][i]["error"]]
    result: dict[str, Any] = {"studies": len(known), "failed": failed}
    for kind in SCORES:
        compared = [each for i in known if (each := compare(rows, i, kind)) is not None]
        if not compared:
            continue
        gaps = np.array([each["gap"] for each in compared])
        sizes = np.array([each["parameters"]["n_labels"] for each in compared])
        worst = sorted(compared, key=lambda each: -each["gap"])[:WORST]
        result[kind] = {
            "studies": len(gaps),
            "share_within_margin": float((gaps <= MARGIN).mean()),
            "share_in_first_draw": float(np.mean([each["first_gap"] <= MARGIN for each in compared])),
            "share_by_labels": {
                f"{low:,} to {high:,}": float((gaps[(sizes >= low) & (sizes < high)] <= MARGIN).mean())
                for low, high in itertools.pairwise(CLASSES)
                if ((sizes >= low) & (sizes < high)).any()
            },
            "share_of_others": {name: share_of(rows, known, kind, name) for name in (*RIVALS, *GPPL)},
            "wanted_share": WANTED,
            "worst_gap": float(gaps.max()),
            "mean_difference": mean_differences(rows, known, kind),
            "worst": [each for each in worst if each["gap"] > MARGIN],
        }
    seconds = [rows[CROWD][i]["cpu_seconds"] for i in known if rows[CROWD][i]["cpu_seconds"] is not None]
    if seconds:
        result["cpu_seconds"] = {"total": float(np.sum(seconds)), "most": float(np.max(seconds))}
    return result


def losses_of(rows: dict[str, dict[int, Row]], index: int, kind: str) -> dict[str, float]:
    """The loss of each model that has one."""
    lines = {name: each.get(index, EMPTY)["losses"] for name, each in rows.items()}
    return {name: line[kind] for name, line in lines.items() if kind in line}


def compare(rows: dict[str, dict[int, Row]], index: int, kind: str) -> dict[str, Any] | None:
    """Compare CrowdGPPL with the best rival in one study."""
    losses = losses_of(rows, index, kind)
    if "bradley_terry" not in losses:
        return None
    own = losses.pop(CROWD, float("inf"))
    best = min(losses, key=lambda name: losses[name])
    first = {name: rows[name][index]["replicates"][0][kind] for name in losses}
    constant, fitted = rows["constant"].get(index, {}), rows[CROWD].get(index, {})
    replicates = fitted.get("replicates") or [{kind: float("inf")}]
    differences = [a[kind] - b[kind] for a, b in zip(replicates, rows[best][index]["replicates"], strict=False)]
    return {
        "index": index, "gap": own - losses[best], "loss": own, "best_rival": best, "losses": losses,
        "first_gap": replicates[0][kind] - min(first.values()), "standard_error": standard_error(differences),
        "true": constant.get("true", {}).get(kind), "cpu_seconds": fitted.get("cpu_seconds"),
        "facts": fitted.get("facts", {}), "parameters": constant.get("parameters"),
    }  # fmt: skip


def share_of(rows: dict[str, dict[int, Row]], known: Sequence[int], kind: str, name: str) -> float:
    """The share of studies in which this model is best, or within the margin of the best."""
    found = [losses for i in known if name in (losses := losses_of(rows, i, kind))]
    return float(np.mean([each[name] - min(each.values()) <= MARGIN for each in found])) if found else float("nan")


def mean_differences(rows: dict[str, dict[int, Row]], known: Sequence[int], kind: str) -> dict[str, float]:
    """CrowdGPPL minus each rival, averaged over the studies that both have."""
    found = {}
    for name in (*RIVALS, *GPPL):
        both = [
            rows[CROWD][i]["losses"][kind] - rows[name][i]["losses"][kind]
            for i in known
            if kind in rows[CROWD][i]["losses"] and kind in rows[name].get(i, EMPTY)["losses"]
        ]
        if both:
            found[name] = float(np.mean(both))
    return found


EMPTY: Row = {"losses": {}}

if __name__ == "__main__":
    main()
