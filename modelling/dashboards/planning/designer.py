"""The study designer: the accuracy that simulated crowds reach in a planned study, by judgements and cost."""

from dataclasses import dataclass
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Project
from modelling.dashboards.common.figures import Figure, FigureTable, Trace, axis, rounded
from modelling.models import StudySimulation
from modelling.planning.designer import TARGETS, Band, StudyPlan, bands, judgements_for, spreads
from modelling.planning.simulator import RANDOM

SHOWN = 10
TICKS = 5
State = StudySimulation.State
POLICY_LABELS = {
    RANDOM: gettext_lazy("random: the least judged pairs"),
    "order": gettext_lazy("suggested for the order of all items"),
    "top": gettext_lazy("suggested for the top items"),
}
MEASURE_LABELS = {
    "tau": gettext_lazy("Kendall's tau with the true order"),
    "recall": gettext_lazy("share of the true top items found"),
    "width": gettext_lazy("mean width of the 95 % rank intervals"),
}


@dataclass(frozen=True)
class TargetRow:
    """The judgements and cost at which the mean tau reaches a target; None if it never does."""

    target: float
    judgements: int | None
    cost: str


@dataclass(frozen=True)
class SimulationResult:
    """One finished simulation."""

    job: StudySimulation
    plan: StudyPlan
    spread: float
    disagreement: float
    crowds: int
    cost: str
    tau: Band
    recall: Band
    width: Band
    targets: list[TargetRow]
    message: str

    @property
    def policy(self) -> str:
        return str(POLICY_LABELS[self.plan.policy])

    @property
    def final_tau(self) -> float:
        return float(self.tau.mean[-1])

    @property
    def self_percent(self) -> int:
        return round(100 * self.plan.self_agreement)

    @property
    def agree_percent(self) -> int:
        return round(100 * self.plan.agreement)

    def _ends(self, band: Band) -> tuple[float, float, float]:
        return float(band.mean[-1]), float(band.low[-1]), float(band.high[-1])

    @property
    def facts(self) -> list[tuple[str, float, float, float]]:
        """Each measure after all judgements, with its band over the crowds."""
        by_name = {"tau": self.tau, "recall": self.recall, "width": self.width}
        return [(str(label), *self._ends(by_name[name])) for name, label in MEASURE_LABELS.items()]


@dataclass(frozen=True)
class DesignerPage:
    """The last simulation, whatever its state, and the finished ones, newest first."""

    last: StudySimulation | None
    result: SimulationResult | None
    earlier: list[SimulationResult]
    figures: list[Figure]

    @property
    def is_active(self) -> bool:
        return self.last is not None and self.last.state in (State.WAITING, State.RUNNING)

    @property
    def percent(self) -> int | None:
        share = self.last.progress.get("share") if self.last else None
        return None if share is None else int(100 * share)

    @property
    def problem(self) -> str:
        """Why the last simulation has no result; empty if it has one or is under way."""
        ended = self.last and self.last.state in (State.FAILED, State.CANCELLED)
        return _(self.last.message) if ended and self.last else ""


def designer_page(project: Project) -> DesignerPage:
    jobs = StudySimulation.objects.filter(project=project)
    finished = [read_result(job) for job in jobs.filter(state=State.DONE)[:SHOWN]]
    figures = simulation_figures(finished[0]) if finished else []
    return DesignerPage(jobs.first(), finished[0] if finished else None, finished[1:], figures)


def read_result(job: StudySimulation) -> SimulationResult:
    plan, found = StudyPlan.from_dict(job.plan), bands(job.crowds)
    grid = plan.grid()
    needed = [(target, judgements_for(target, grid, found["tau"].mean)) for target in TARGETS]
    spread, disagreement = spreads(plan.self_agreement, plan.agreement)
    return SimulationResult(
        job=job,
        plan=plan,
        spread=spread,
        disagreement=disagreement,
        crowds=len(job.crowds),
        cost=format_cost(job, plan.n_judgements),
        tau=found["tau"],
        recall=found["recall"],
        width=found["width"],
        targets=[TargetRow(target, n, format_cost(job, n) if n else "") for target, n in needed],
        message=_(job.message) if job.message else "",
    )


def format_cost(job: StudySimulation, judgements: int) -> str:
    """The pay for this many judgements; empty if there is no pay."""
    if not job.pay:
        return ""
    amount = number_format(judgements * job.pay["per_judgement"], 2, force_grouping=True)
    return f"{amount} {job.pay['currency']}"


def simulation_figures(result: SimulationResult) -> list[Figure]:
    """Expected accuracy and rank interval width by judgements and cost, with bands over the crowds."""
    grid = result.plan.grid()
    accuracy = _band_traces(grid, result.tau, str(MEASURE_LABELS["tau"]), "--c1")
    accuracy += _band_traces(grid, result.recall, str(MEASURE_LABELS["recall"]), "--c2")
    top = {"xaxis": _judgements_axis(result, grid), "yaxis": axis(_("accuracy"), range=[0, 1.02])}
    width = _band_traces(grid, result.width, str(MEASURE_LABELS["width"]), "--c3")
    low = {"xaxis": _judgements_axis(result, grid), "yaxis": axis(_("width in ranks"), rangemode="tozero")}
    facts = {"n": result.plan.n_judgements, "tau": result.tau.mean[-1], "recall": result.recall.mean[-1]}
    described = (
        _("After %(n)d judgements Kendall's tau is %(tau).2f and %(recall).2f of the top items are found.") % facts
    )
    narrowed = _("From %(first).2f to %(last).2f.") % {"first": result.width.mean[0], "last": result.width.mean[-1]}
    return [
        Figure("accuracy", _("Expected accuracy"), described, accuracy, top, 440, _table(result, grid)),
        Figure(
            "interval-width", _("Expected width of rank intervals"), narrowed, width, low, 320, _table(result, grid)
        ),
    ]


def _band_traces(grid: list[int], band: Band, name: str, colour: str) -> list[Trace]:
    """The mean as a line, and the band as two thin dotted lines."""
    line = {"type": "scatter", "mode": "lines", "x": grid}
    edge = {**line, "line": {"color": colour, "width": 1, "dash": "dot"}, "showlegend": False, "hoverinfo": "skip"}
    mean = {**line, "y": rounded(band.mean), "name": name, "line": {"color": colour, "width": 2}}
    return [{**edge, "y": rounded(band.low)}, {**edge, "y": rounded(band.high)}, mean]


def _judgements_axis(result: SimulationResult, grid: list[int]) -> dict[str, Any]:
    """Judgements, with their cost below if there is pay."""
    places = [round(grid[0] + k * (grid[-1] - grid[0]) / (TICKS - 1)) for k in range(TICKS)]
    labels = [number_format(n, force_grouping=True) for n in places]
    costs = [format_cost(result.job, n) for n in places]
    texts = [f"{label}<br>{cost}" if cost else label for label, cost in zip(labels, costs, strict=True)]
    title = _("Judgements and their cost") if result.job.pay else _("Judgements")
    margin = 0.06 * (grid[-1] - grid[0])
    return axis(title, tickvals=places, ticktext=texts, range=[grid[0] - margin, grid[-1] + margin])


def _table(result: SimulationResult, grid: list[int]) -> FigureTable:
    columns = [_("Judgements"), _("Cost")] if result.job.pay else [_("Judgements")]
    for label in MEASURE_LABELS.values():
        columns += [str(label), _("low"), _("high")]
    rows = []
    for at, n in enumerate(grid):
        row: list[Any] = [n, format_cost(result.job, n)] if result.job.pay else [n]
        for band in (result.tau, result.recall, result.width):
            row += [round(float(curve[at]), 3) for curve in (band.mean, band.low, band.high)]
        rows.append(row)
    return FigureTable(columns, rows)
