"""Compare how well the methods predict a project's own judgements."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from threadpoolctl import threadpool_limits

from annotation.management.base import ConcordCommand, UsageError
from modelling.baselines.catalogue import CATALOGUE, Method, find_methods
from modelling.training.evaluation.held_out import (
    DEFAULT_METHODS,
    METRICS,
    MIN_CLUSTERS,
    REFERENCE,
    Estimate,
    NotEnoughJudgements,
    Scheme,
    SchemeResult,
    evaluate,
    lacking_features,
    leave_out,
    method_titles,
    predict_then_learn,
)
from modelling.training.evaluation.rivals import RIVALS, choose_rivals
from modelling.training.inputs import Inputs, read_inputs
from modelling.training.settings import InvalidSettings, ModelSettings

LEAVE_OUT, PREDICT_THEN_LEARN, BOTH = WAYS = ("leave-out", "predict-then-learn", "both")
FEWEST, MOST = 2, 50
HEADINGS = ("accuracy", "log loss", "Brier")  # in the order of METRICS
OTHERS = [name for name in CATALOGUE if name != "crowdgppl"]


class Command(ConcordCommand):
    help = (
        "Compares how well each method predicts judgements of a project that it was not fitted to: crowdGPPL (personal "
        "and consensus), GPPL, GPPL per user, Bradley-Terry and a linear model, or the methods given. leave-out holds "
        "out whole groups of items, or judgements if there are no groups; predict-then-learn predicts each block of "
        "judgements from all earlier ones. Reports paired differences with 95% intervals. Writes nothing."
    )
    examples = (
        "evaluate my-study",
        "evaluate my-study --way leave-out --parts 8 --json > evaluation.json",
        "evaluate my-study --methods crowd_bt,gpvu,paper_svi",
        "evaluate my-study --rivals",
    )

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
        parser.add_argument(
            "--methods",
            default=",".join(DEFAULT_METHODS),
            metavar="NAMES",
            help=f"methods besides crowdGPPL, separated by commas, or all: {', '.join(OTHERS)}",
        )
        parser.add_argument(
            "--rivals",
            action="store_true",
            help=f"also run the methods of other packages that are installed: {', '.join(RIVALS)}",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("parts", "stretches"):
            if not FEWEST <= options[name] <= MOST:
                raise UsageError(f"--{name} must be from {FEWEST} to {MOST}. Nothing was done.")
        if options["seed"] < 0:
            raise UsageError("--seed must be 0 or more. Nothing was done.")
        methods = chosen_methods(options["methods"])
        project, began = self.find_project(options["project"]), time.monotonic()
        inputs = read_inputs(project)
        try:
            settings = ModelSettings.from_dict(project.model_settings)
            schemes = self.schemes(inputs, **options)
            rivals, missing = choose_rivals(len(inputs.items)) if options["rivals"] else ([], [])
            methods += rivals
            left_out = lacking_features(methods, settings)
            methods = [method for method in methods if method not in left_out]
            with threadpool_limits(1):  # faster on matrices of this size
                outcomes = list(evaluate(inputs, settings, schemes, methods, self.show_progress))
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
            "left_out": [method.name for method in left_out],
            "missing_rivals": missing,
            "schemes": [scheme_result(outcome) for outcome in outcomes],
            "seconds": round(time.monotonic() - began, 1),
        }
        summary = "{judgements:,} judgements of {items:,} items by {workers:,} workers, up to event {as_of_seq:,}."
        tables = [line for outcome in outcomes for line in table(outcome, method_titles(settings))]
        if left_out:
            titles = ", ".join(method.title for method in left_out)
            tables.append(f"  Left out, because the settings declare items independent: {titles}.")
        tables += [f"  {reason}" for reason in missing]
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


def chosen_methods(names: str) -> list[Method]:
    """The methods named in a comma-separated list, except crowdGPPL itself, which always runs."""
    wanted = OTHERS if names == "all" else [name.strip() for name in names.split(",") if name.strip()]
    try:
        return find_methods([name for name in wanted if name != "crowdgppl"])
    except ValueError as error:
        raise UsageError(f"--methods: {error} Nothing was done.") from None


def scheme_result(outcome: SchemeResult) -> dict[str, Any]:
    """The JSON of a scheme, with the field names of 0.1 as aliases until 0.3."""
    return {**asdict(outcome), "words": outcome.description, "foretold": outcome.predicted}


def table(outcome: SchemeResult, titles: dict[str, str]) -> Iterator[str]:
    """Format one line per method, then the reference minus each other method."""
    yield ""
    yield f"{outcome.scheme}: {outcome.predicted:,} judgements predicted in {outcome.splits} parts"
    yield f"  {outcome.description}"
    yield ""
    yield line("", [*HEADINGS, "calibration error", "CPU seconds"])
    for method, result in outcome.methods.items():
        cells = [with_interval(result.metrics[metric]) for metric in METRICS]
        yield line(titles[method], [*cells, f"{result.calibration_error:.3f}", f"{result.cpu_seconds:,.1f}"])
    yield ""
    yield f"  {titles[REFERENCE]} minus the other; below 0 is better for log loss and Brier"
    yield line("", [*HEADINGS, "personal is"])
    for method, result in outcome.methods.items():
        if method != REFERENCE:
            cells = [with_interval(result.reference_minus_this[metric], "+") for metric in METRICS]
            yield line(titles[method], [*cells, result.verdict])
    yield ""
    yield f"  In brackets: 95% intervals, with {outcome.clusters:,} {outcome.clustered_by} as independent clusters."
    yield f"  Better or worse: the interval of the log loss excludes 0, with at least {MIN_CLUSTERS} clusters."


def line(name: str, cells: list[str]) -> str:
    figures, others = cells[: len(METRICS)], cells[len(METRICS) :]
    aligned = [f"{cell:>25}" for cell in figures] + [f"{cell:>19}" for cell in others]
    return (f"  {name:<21}" + "".join(aligned)).rstrip()


def with_interval(estimate: Estimate | None, sign: str = "-") -> str:
    """Format as 0.712 [0.690, 0.734]."""
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:{sign}.3f}"
    return f"{estimate.mean:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"
