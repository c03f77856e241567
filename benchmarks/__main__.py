"""Every benchmark in its quick form: `python -m benchmarks`."""

from __future__ import annotations

import importlib

from benchmarks.harness import tell

MODULES = (
    "benchmarks.paper.convincingness",
    "benchmarks.paper.simulations",
    "benchmarks.components",
    "benchmarks.coverage",
    "benchmarks.refining",
    "benchmarks.people",
    "benchmarks.speed",
    "benchmarks.streaming",
    "benchmarks.sources",
    "benchmarks.large_study",
    "benchmarks.updating",
)


def main() -> None:
    """Each prints its JSON; one that needs data it has not got says so and is skipped."""
    for name in MODULES:
        tell(f"== {name} --quick")
        importlib.import_module(name).main(["--quick"])


if __name__ == "__main__":
    main()
