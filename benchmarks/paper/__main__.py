"""Run every experiment of the paper for which there is data: `make paper DATA=DIR`, or

    python -m benchmarks.paper --data DIR [--quick] [--repeats 25] [--folds 0-31] [--small-paper]

DIR holds `ukpconvarg/` (see benchmarks/paper/ukpconvarg.py) and `sushi/` (Kamishima's files), or one of them. A killed
run continues where it stopped; --fresh starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import print_progress
from benchmarks.paper import components, convincingness, scalability, simulations, sushi
from benchmarks.paper.report import parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the simulations, then the tables, then scalability and components."""
    made = parser(__doc__, repeats=25)
    made.add_argument("--data", type=Path, help="folder with ukpconvarg/ and sushi/, or one of them")
    made.add_argument("--folds", default="0-31", help="folds of UKPConvArgCrowdSample")
    made.add_argument("--small-paper", action="store_true", help="paper_svi with C = 5, M = 100 on arguments")
    options = made.parse_args(argv)
    common = ["--results", str(options.results)]
    common += [flag for flag in ("--quick", "--fresh") if getattr(options, flag.strip("-"))]
    repeats = ["--repeats", str(options.repeats)]
    few = ["--repeats", str(min(options.repeats, 5))]
    arguments = _folder(options.data, "ukpconvarg")
    folds = ["--folds", options.folds, *(["--small-paper"] if options.small_paper else [])]
    everything = ["--data", str(options.data)] if options.data else []
    for module, own in (
        (simulations, repeats),
        (sushi, [*_folder(options.data, "sushi"), *repeats, "--tune"]),
        (convincingness, [*arguments, *folds, "--tune"]),
        (scalability, [*arguments, *few]),
        (components, [*everything, *few]),
    ):
        print_progress(f"== {module.__name__}")
        module.main([*common, *own])


def _folder(data: Path | None, name: str) -> list[str]:
    """The option for a subfolder, if there is one."""
    return ["--data", str(data / name)] if data is not None and (data / name).exists() else []


if __name__ == "__main__":
    main()
