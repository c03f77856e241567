"""Run every benchmark in its quick form: `python -m benchmarks`."""

from __future__ import annotations

import importlib

from benchmarks.harness import print_progress

MODULES = (
    "benchmarks.paper.convincingness",
    "benchmarks.paper.simulations",
    "benchmarks.paper.sushi",
    "benchmarks.paper.scalability",
    "benchmarks.paper.components",
    "benchmarks.studies.simulated",
    "benchmarks.studies.real",
    "benchmarks.studies.components",
    "benchmarks.model.coverage",
    "benchmarks.model.stability",
    "benchmarks.model.people",
    "benchmarks.planning.suggestions",
    "benchmarks.planning.stopping",
    "benchmarks.planning.claims",
    "benchmarks.planning.adaptive_reliability",
    "benchmarks.model.speed",
    "benchmarks.model.streaming",
    "benchmarks.model.distributed",
    "benchmarks.server.large_study",
    "benchmarks.server.updating",
    "benchmarks.server.scaling",
)


def main() -> None:
    """Run each module; skip those whose data is missing, with a message."""
    for name in MODULES:
        print_progress(f"== {name} --quick")
        importlib.import_module(name).main(["--quick"])


if __name__ == "__main__":
    main()
