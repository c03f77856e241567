"""How well each method foretells a project's own judgements, as a table or as JSON."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from threadpoolctl import threadpool_limits

from annotation.terminal import TerminalCommand, WrongCall
from modelling.evaluation import (
    FEWEST_CLUSTERS,
    METHODS,
    METRICS,
    REFERENCE,
    Estimate,
    Outcome,
    Scheme,
    TooLittle,
    evaluate,
    leave_out,
    predict_then_learn,
)
from modelling.inputs import Inputs, read_inputs
from modelling.model_settings import ModelSettings, Unusable

LEAVE_OUT, IN_TURN, BOTH = WAYS = ("leave-out", "predict-then-learn", "both")
FEWEST, MOST = 2, 50
HEADS = ("accuracy", "log loss", "Brier")  # of METRICS


class Command(TerminalCommand):
    help = (
        "Says how well each method foretells a project's own judgements that it has not learned from: crowdGPPL "
        "(personal and consensus), GPPL, GPPL per worker, Bradley-Terry and a linear model. Leave-out holds back whole "
        "groups of items (judgements, where there are no groups); predict-then-learn foretells each stretch of "
        "judgements from all before it. With paired differences and 95 % intervals. Reads rows and writes none."
    )
    examples = ("evaluate my-study", "evaluate my-study --way leave-out --parts 8 --json > evaluation.json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--way", choices=WAYS, default=BOTH, help="how judgements are held back; both if not given")
        parser.add_argument("--parts", type=int, default=4, metavar="N", help="parts that are held back in turn (4)")
        parser.add_argument("--stretches", type=int, default=6, metavar="N", help="stretches that are foretold (6)")
        parser.add_argument("--seed", type=int, default=0, help="of the parts that are drawn at random (0)")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("parts", "stretches"):
            if not FEWEST <= options[name] <= MOST:
                raise WrongCall(f"--{name} must be from {FEWEST} to {MOST}. Nothing was done.")
        if options["seed"] < 0:
            raise WrongCall("--seed must be 0 or more. Nothing was done.")
        project, began = self.find_project(options["project"]), time.monotonic()
        inputs = read_inputs(project)
        try:
            settings = ModelSettings.of(project.model_settings)
            schemes = self.schemes(inputs, **options)
            with threadpool_limits(1):  # faster on matrices of this size
                outcomes = list(evaluate(inputs, settings, schemes, self.progress))
        except TooLittle:
            raise CommandError(
                f"{project.slug} has too few judgements to hold some back ({len(inputs.labels)} that say something). "
                "Nothing was changed; try again when there are more."
            ) from None
        except Unusable as refusal:
            raise CommandError(f"{refusal} Nothing was changed.") from None
        facts = {
            "project": project.slug,
            "as_of_seq": inputs.moment.sequence,
            "judgements": len(inputs.labels),
            "workers": len(inputs.workers),
            "items": len(inputs.items),
            "settings": settings.as_dict(),
            "reference": REFERENCE,
            "schemes": [asdict(outcome) for outcome in outcomes],
            "seconds": round(time.monotonic() - began, 1),
        }
        said = "{judgements:,} judgements of {items:,} items by {workers:,} workers, up to event {as_of_seq:,}."
        tables = [line for outcome in outcomes for line in table(outcome)]
        self.answer(facts, "\n".join([f"{project}: " + said.format(**facts), *tables]))

    def schemes(
        self, inputs: Inputs, *, way: str, parts: int, stretches: int, seed: int, **options: Any
    ) -> list[Scheme]:
        if len(inputs.labels) < FEWEST:
            raise TooLittle
        made: dict[str, Callable[[], Scheme]] = {
            LEAVE_OUT: lambda: leave_out(inputs, parts, seed),
            IN_TURN: lambda: predict_then_learn(inputs, stretches),
        }
        return [make() for name, make in made.items() if way in (name, BOTH)]


def table(outcome: Outcome) -> Iterator[str]:
    """Every method in one line, then the reference against each of the others."""
    yield ""
    yield f"{outcome.scheme}: {outcome.foretold:,} judgements foretold in {outcome.splits} parts"
    yield f"  {outcome.words}"
    yield ""
    yield line("", [*HEADS, "calibration error"])
    for method, standing in outcome.methods.items():
        cells = [with_interval(standing.metrics[metric]) for metric in METRICS]
        yield line(METHODS[method], [*cells, f"{standing.calibration_error:.3f}"])
    yield ""
    yield f"  {METHODS[REFERENCE]} minus the other; below 0 is better for log loss and Brier"
    yield line("", [*HEADS, "personal is"])
    for method, standing in outcome.methods.items():
        if method != REFERENCE:
            cells = [with_interval(standing.reference_minus_this[metric], "+") for metric in METRICS]
            yield line(METHODS[method], [*cells, standing.verdict])
    yield ""
    yield f"  Brackets: 95 % intervals, {outcome.clusters:,} {outcome.clustered_by} taken as independent."
    yield f"  Better or worse: the interval of the log loss does not reach 0, with {FEWEST_CLUSTERS} or more behind it."


def line(name: str, cells: list[str]) -> str:
    *figures, last = cells
    return (f"  {name:<21}" + "".join(f"{cell:>25}" for cell in figures) + f"{last:>19}").rstrip()


def with_interval(one: Estimate | None, sign: str = "-") -> str:
    """0.712 [0.690, 0.734]"""
    if one is None:
        return "-"
    if one.low is None or one.high is None:
        return f"{one.mean:{sign}.3f}"
    return f"{one.mean:{sign}.3f} [{one.low:{sign}.3f}, {one.high:{sign}.3f}]"
