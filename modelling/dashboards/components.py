"""The components page: how strong each component is, and the items, words and workers at its two ends."""

from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Worker
from modelling.dashboards.common.figures import Figure, axis, escape_label, rounded
from modelling.dashboards.common.judgements import worker_tally
from modelling.dashboards.common.traits import TraitLink, find_links
from modelling.models import ModelSnapshot
from modelling.training.components.axes import (
    ComponentAxes,
    ComponentAxis,
    ItemEnd,
    extremes,
    find_item_ends,
    load_component_axes,
)
from modelling.training.ranking import Z_95
from modelling.training.snapshots import FittedModel

Ints = NDArray[np.int64]

FEW_JUDGEMENTS = 100  # in a version; with fewer, components are mostly noise
WORKERS_PER_END = 3


@dataclass(frozen=True)
class WorkerValue:
    """A worker's value on a component, and their number of judgements."""

    worker: Worker
    value: float
    sd: float
    judgements: int


@dataclass(frozen=True)
class ComponentEnd(ItemEnd):
    """One end of a component, with the most extreme workers whose interval is on this side."""

    workers: list[WorkerValue]


@dataclass(frozen=True)
class Component:
    axis: ComponentAxis
    high: ComponentEnd
    low: ComponentEnd
    links: list[TraitLink]

    @property
    def ends(self) -> list[tuple[str, ComponentEnd]]:
        return [(_("High end"), self.high), (_("Low end"), self.low)]


@dataclass(frozen=True)
class ComponentsPage:
    """`components` are strongest first; `axes` are the same components by number."""

    axes: list[ComponentAxis]
    components: list[Component]
    figures: list[Figure]
    few_judgements: bool
    arms: ArmFilter


def components_page(snapshot: ModelSnapshot, arms: ArmFilter = EVERY_ARM) -> ComponentsPage:
    """The components of a version. With an arm, workers and their traits are those of the arm."""
    axes = load_component_axes(snapshot)
    figures = [variances_figure(axes.axes)] if axes.axes else []
    few = snapshot.included < FEW_JUDGEMENTS
    return ComponentsPage(axes.axes, _describe(snapshot, axes, arms), figures, few, arms)


def _describe(snapshot: ModelSnapshot, axes: ComponentAxes, arms: ArmFilter) -> list[Component]:
    """Describe the components, with a number of queries that does not depend on how many there are."""
    if not axes.axes:
        return []
    rows, workers = axes.strongest, snapshot_workers(snapshot, axes.fitted, arms)
    known = np.array([position for position, worker in enumerate(workers) if worker], dtype=np.int64)
    answers, item_ends = [worker.traits for worker in workers if worker], find_item_ends(snapshot, axes)
    sds = np.sqrt(np.maximum(np.einsum("ucc->cu", axes.user_covariances(rows)), 0.0))
    judgements = worker_tally(snapshot).judgements
    components = []
    for row, sd in zip(rows, sds, strict=True):
        values = axes.users[row]
        end_workers = [
            [
                WorkerValue(worker, float(values[u]), float(sd[u]), int(judgements[u]))
                for u in end
                if (worker := workers[u]) and sign * values[u] > Z_95 * sd[u]
            ]
            for sign, end in zip((1, -1), extremes(values, known, WORKERS_PER_END), strict=True)
        ]
        high, low = (
            ComponentEnd(end.words, end.length, end.items, nearest)
            for end, nearest in zip(item_ends[row], end_workers, strict=True)
        )
        components.append(Component(axes.axes[row], high, low, find_links(answers, values[known], sd[known])))
    return components


def snapshot_workers(snapshot: ModelSnapshot, fitted: FittedModel, arms: ArmFilter) -> list[Worker | None]:
    """A version's workers in the order of its arrays; None for erased workers and those in another arm."""
    workers = Worker.objects.visible().filter(project=snapshot.project, **arms.of_workers)
    rows = {worker.pk: worker for worker in workers.only("code", "traits")}
    return [rows.get(int(pk)) for pk in fitted.worker_ids]


def variances_figure(axes: list[ComponentAxis]) -> Figure:
    """The paper's figure: variances 1/(s_v s_w) in decreasing order."""
    order = sorted(axes, key=lambda each: -each.variance)
    bars = {
        "type": "bar",
        "x": [str(each.number) for each in order],
        "y": rounded(each.variance for each in order),
        "text": [escape_label(each.title) for each in order],
        "textposition": "none",
        "marker": {"color": "--accent"},
        "hovertemplate": "%{text}<br>%{y:.3f}<extra></extra>",
    }
    description = _("Variances of %(n)d components from %(high).3f to %(low).3f.") % {
        "n": len(order),
        "high": order[0].variance,
        "low": order[-1].variance,
    }
    variance = axis(_("Variance"), rangemode="tozero")
    layout = {"xaxis": axis(_("Component"), type="category"), "yaxis": variance, "showlegend": False}
    return Figure("variances", _("Variance of each component"), description, [bars], layout, height=340)
