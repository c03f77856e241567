"""Compare how well the methods predict a project's own judgements."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from threadpoolctl import threadpool_limits

from annotation.management.base import ConcordCommand, UsageError
from modelling.training.evaluation.held_out import (
    METHODS,
    METRICS,
    MIN_CLUSTERS,
    REFERENCE,
    Estimate,
    NotEnoughJudgements,
    Scheme,
    SchemeResult,
    evaluate,
    leave_out,
    predict_then_learn,
)
from modelling.training.inputs import Inputs, read_inputs
from modelling.training.settings import InvalidSettings, ModelSettings

LEAVE_OUT, PREDICT_THEN_LEARN, BOTH = WAYS = ("leave-out", "predict-then-learn", "both")
FEWEST, MOST = 2, 50
HEADINGS = ("accuracy", "log loss", "Brier")  # of METRICS


class Command(ConcordCommand):
    help = (
        "Compares how well each method predicts judgements of a project that it was not fitted to: crowdGPPL (personal "
        "and consensus), GPPL, GPPL per worker, Bradley-Terry and a linear model. leave-out holds out whole groups of "
        "items, or judgements if there are no groups; predict-then-learn predicts each block of judgements from all "
        "earlier ones. Reports paired differences with 95% intervals. Writes nothing."
    )
    examples = ("evaluate my-study", "evaluate my-study --way leave-out --parts 8 --json > evaluation.json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--way", choices=WAYS, default=BOTH, help="how judgements are held out (default: both)")
        parser.add_argument(
            "--parts", type=int, default=4, metavar="N", help="parts that are held out in turn (default: 4)"
        )
        parser.add_argument(
            "--stretches", type=int, default=6, metavar="N", help="blocks that are predicted (default: 6)"
        )
        parser.add_argument("--seed", type=int, default=0, help="random seed for the parts (default: 0)")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("parts", "stretches"):
            if not FEWEST <= options[name] <= MOST:
                raise UsageError(f"--{name} must be from {FEWEST} to {MOST}. Nothing was done.")
        if options["seed"] < 0:
            raise UsageError("--seed must be 0 or more. Nothing was done.")
        project, began = self.find_project(options["project"]), time.monotonic()
        inputs = read_inputs(project)
        try:
            settings = ModelSettings.from_dict(project.model_settings)
            schemes = self.schemes(inputs, **options)
            with threadpool_limits(1):  # faster on matrices of this size
                outcomes = list(evaluate(inputs, settings, schemes, self.show_progress))
        except NotEnoughJudgements:
            raise CommandError(
                f"{project.slug} has too few judgements to hold some out ({len(inputs.labels)} without skips). "
                "Try again when there are more."
            ) from None
        except InvalidSettings as error:
            raise CommandError(f"{error} Nothing was changed.") from None
        result = {
            "project": project.slug,
            "as_of_seq": inputs.read_point.sequence,
            "judgements": len(inputs.labels),
            "workers": len(inputs.workers),
            "items": len(inputs.items),
            "settings": settings.as_dict(),
            "reference": REFERENCE,
            "schemes": [scheme_result(outcome) for outcome in outcomes],
            "seconds": round(time.monotonic() - began, 1),
        }
        summary = "{judgements:,} judgements of {items:,} items by {workers:,} workers, up to event {as_of_seq:,}."
        tables = [line for outcome in outcomes for line in table(outcome)]
        self.write_result(result, "\n".join([f"{project}: " + summary.format(**result), *tables]))

    def schemes(
        self, inputs: Inputs, *, way: str, parts: int, stretches: int, seed: int, **options: Any
    ) -> list[Scheme]:
        if len(inputs.labels) < FEWEST:
            raise NotEnoughJudgements
        builders: dict[str, Callable[[], Scheme]] = {
            LEAVE_OUT: lambda: leave_out(inputs, parts, seed),
            PREDICT_THEN_LEARN: lambda: predict_then_learn(inputs, stretches),
        }
        return [build() for name, build in builders.items() if way in (name, BOTH)]


def scheme_result(outcome: SchemeResult) -> dict[str, Any]:
    """The JSON of a scheme, with the field names of 0.1 as aliases until 0.3."""
    return {**asdict(outcome), "words": outcome.description, "foretold": outcome.predicted}


def table(outcome: SchemeResult) -> Iterator[str]:
    """One line per method, then the reference minus each other method."""
    yield ""
    yield f"{outcome.scheme}: {outcome.predicted:,} judgements predicted in {outcome.splits} parts"
    yield f"  {outcome.description}"
    yield ""
    yield line("", [*HEADINGS, "calibration error"])
    for method, result in outcome.methods.items():
        cells = [with_interval(result.metrics[metric]) for metric in METRICS]
        yield line(METHODS[method], [*cells, f"{result.calibration_error:.3f}"])
    yield ""
    yield f"  {METHODS[REFERENCE]} minus the other; below 0 is better for log loss and Brier"
    yield line("", [*HEADINGS, "personal is"])
    for method, result in outcome.methods.items():
        if method != REFERENCE:
            cells = [with_interval(result.reference_minus_this[metric], "+") for metric in METRICS]
            yield line(METHODS[method], [*cells, result.verdict])
    yield ""
    yield f"  In brackets: 95% intervals, with {outcome.clusters:,} {outcome.clustered_by} as independent clusters."
    yield f"  Better or worse: the interval of the log loss excludes 0, with at least {MIN_CLUSTERS} clusters."


def line(name: str, cells: list[str]) -> str:
    *figures, last = cells
    return (f"  {name:<21}" + "".join(f"{cell:>25}" for cell in figures) + f"{last:>19}").rstrip()


def with_interval(estimate: Estimate | None, sign: str = "-") -> str:
    """Format as 0.712 [0.690, 0.734]."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:{sign}.3f}"
    return f"{estimate.mean:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"
