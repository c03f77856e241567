"""The few latent components that explain why people differ: how strong each is, and what lies at its two ends."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.models import Item, Worker
from modelling.dashboards.axes import IN_USE, Axes, Axis, Floats, axes_of
from modelling.dashboards.pictures import Picture, axis, numbers, plain
from modelling.dashboards.traits import Link, links
from modelling.models import ModelSnapshot
from modelling.snapshots import Fitted
from modelling.words import WordTable, distinguishing, word_table

Places = NDArray[np.int64]

FEW_LABELS = 100  # of a version; from fewer, components are little more than a guess
SHOWN_ITEMS = 3
SHOWN_WORKERS = 3
COLUMNS = [
    "component", "name", "variance", "prior_variance", "energy", "share_of_largest", "in_use",
    "words_high", "words_low", "items_high", "items_low", "version", "as_of_seq",
]  # fmt: skip


@dataclass(frozen=True)
class ItemThere:
    item: Item
    value: float


@dataclass(frozen=True)
class WorkerThere:
    worker: Worker
    value: float
    sd: float


@dataclass(frozen=True)
class End:
    """What lies at one end of a component."""

    words: list[str]
    length: float  # median number of words in the quarter of the texts at this end
    items: list[ItemThere]
    workers: list[WorkerThere]


@dataclass(frozen=True)
class Component:
    axis: Axis
    high: End
    low: End
    links: list[Link]

    @property
    def ends(self) -> list[tuple[str, End]]:
        return [(_("High end"), self.high), (_("Low end"), self.low)]


@dataclass(frozen=True)
class ComponentsPage:
    """`components` are those in use, the strongest first; `axes` are all, by number."""

    axes: list[Axis]
    components: list[Component]
    pictures: list[Picture]
    few: bool
    threshold: int = round(100 * IN_USE)

    @property
    def used(self) -> int:
        return len(self.components)


def components_page(snapshot: ModelSnapshot) -> ComponentsPage:
    """Every component with its strength, and those in use with what lies at their ends."""
    axes = axes_of(snapshot)
    pictures = [variances_picture(axes.axes), energy_picture(axes.axes)] if axes.axes else []
    return ComponentsPage(axes.axes, _described(snapshot, axes), pictures, snapshot.included < FEW_LABELS)


def _described(snapshot: ModelSnapshot, axes: Axes) -> list[Component]:
    """The components in use. As many statements for three as for one."""
    if not axes.used:
        return []
    active = Item.objects.filter(project=snapshot.project, active=True).values_list("pk", flat=True)
    shown = np.flatnonzero(np.isin(axes.fitted.item_ids, np.array(list(active), dtype=np.int64)))
    people = workers_of(snapshot, axes.fitted)
    return _Describer(snapshot, axes, shown, people, words_of(snapshot, axes.fitted.item_ids)).components()


@dataclass(frozen=True, eq=False)
class _Describer:
    """What is needed to say what lies at the ends of the components in use."""

    snapshot: ModelSnapshot
    axes: Axes
    shown: Places  # items that are given to workers
    people: list[Worker | None]
    table: WordTable

    def components(self) -> list[Component]:
        rows = self.axes.used
        item_ends = [extremes(self.axes.items[row], self.shown, SHOWN_ITEMS) for row in rows]
        ids = self.axes.fitted.item_ids
        wanted = [int(ids[place]) for ends in item_ends for end in ends for place in end]
        items = Item.objects.select_related("project").in_bulk(wanted)
        sd = np.sqrt(np.maximum(np.einsum("ucc->cu", self.axes.user_covariances(rows)), 0.0))
        components = []
        for row, sds, places in zip(rows, sd, item_ends, strict=True):
            there = [[ItemThere(items[int(ids[p])], float(self.axes.items[row, p])) for p in end] for end in places]
            components.append(self._component(row, there, self._workers(self.axes.users[row], sds)))
        return components

    def _workers(self, values: Floats, sds: Floats) -> list[list[WorkerThere]]:
        ends = extremes(values, self._known, SHOWN_WORKERS)
        found = [[(self.people[u], float(values[u]), float(sds[u])) for u in end] for end in ends]
        return [[WorkerThere(who, value, sd) for who, value, sd in end if who] for end in found]

    def _component(self, row: int, items: list[list[ItemThere]], workers: list[list[WorkerThere]]) -> Component:
        words = distinguishing(self.table, self.axes.items[row])
        high = End(words.high, words.high_length, items[0], workers[0])
        low = End(words.low, words.low_length, items[1], workers[1])
        answers = [worker.traits for worker in self.people if worker]
        return Component(self.axes.axes[row], high, low, links(answers, self.axes.users[row][self._known]))

    @property
    def _known(self) -> Places:
        return np.array([place for place, worker in enumerate(self.people) if worker], dtype=np.int64)


def extremes(values: Floats, among: Places, count: int) -> list[Places]:
    """The places of the largest values, the largest first, and of the smallest, the smallest first; none is in both."""
    order = among[np.argsort(values[among], kind="stable")]
    each = min(count, len(order) // 2)
    return [order[::-1][:each], order[:each]]


def workers_of(snapshot: ModelSnapshot, fitted: Fitted) -> list[Worker | None]:
    """The workers of a version in the order of its arrays; nobody where somebody is gone."""
    people = Worker.objects.that_may_be_told().filter(project=snapshot.project)
    rows = {worker.pk: worker for worker in people.only("code", "traits")}
    return [rows.get(int(pk)) for pk in fitted.worker_ids]


def words_of(snapshot: ModelSnapshot, item_ids: Places) -> WordTable:
    """The words of a version's texts, read once for each version."""
    return _words(snapshot.project_id, snapshot.checksum, tuple(item_ids.tolist()))


@lru_cache(maxsize=8)
def _words(project_id: int, checksum: str, item_ids: tuple[int, ...]) -> WordTable:
    texts = dict(Item.objects.filter(project=project_id).values_list("pk", "text"))
    return word_table([texts.get(pk, "") for pk in item_ids])


def component_rows(snapshot: ModelSnapshot) -> Iterator[list[Any]]:
    """All components by number, as the table shows them, for a file."""
    page = components_page(snapshot)
    described = {component.axis.number: component for component in page.components}
    for each in page.axes:
        component = described.get(each.number)
        ends = [component.high, component.low] if component else []
        words = [" ".join(end.words) for end in ends] or ["", ""]
        items = [" ".join(there.item.key for there in end.items) for end in ends] or ["", ""]
        facts = [each.number, each.name, each.variance, each.prior, each.energy, each.share / 100, int(each.in_use)]
        yield [*facts, *words, *items, snapshot.number, snapshot.last_sequence]


def variances_picture(axes: list[Axis]) -> Picture:
    """The paper's picture: 1/(s_v s_w) from the largest to the smallest, beside the value it has before any label."""
    order = sorted(axes, key=lambda each: -each.variance)
    names = [str(each.number) for each in order]
    trace = {
        "type": "bar",
        "name": _("learned"),
        "x": names,
        "y": numbers(each.variance for each in order),
        "text": [plain(each.title) for each in order],
        "textposition": "none",
        "marker": {"color": ["--accent" if each.in_use else "--edge" for each in order]},
        "hovertemplate": "<b>%{text}</b><br>%{y:.3f}<extra></extra>",
    }
    prior = {
        "type": "scatter",
        "mode": "lines",
        "name": _("before any label"),
        "x": names,
        "y": numbers(each.prior for each in order),
        "line": {"color": "--ink", "dash": "dash", "width": 1.5},
        "hovertemplate": "%{y:.3f}<extra></extra>",
    }
    words = _("Variances of %(n)d components from %(high).3f down to %(low).3f; before any label %(prior).3f.") % {
        "n": len(order),
        "high": order[0].variance,
        "low": order[-1].variance,
        "prior": order[0].prior,
    }
    layout = {"xaxis": axis(_("Component"), type="category"), "yaxis": axis("1/(s_v s_w)", rangemode="tozero")}
    return Picture("variances", _("Variance, in order"), words, [trace, prior], layout, height=340)


def energy_picture(axes: list[Axis]) -> Picture:
    """What each component really moves, and the line below which it counts as unused."""
    names = [str(each.number) for each in axes]
    trace = {
        "type": "bar",
        "name": _("energy"),
        "x": names,
        "y": numbers(each.share for each in axes),
        "text": [plain(each.title) for each in axes],
        "textposition": "none",
        "marker": {"color": ["--accent" if each.in_use else "--edge" for each in axes]},
        "hovertemplate": "<b>%{text}</b><br>%{y:.1f} %<extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": _("in use above %(percent)d %%") % {"percent": round(100 * IN_USE)},
        "x": names,
        "y": [100 * IN_USE] * len(axes),
        "line": {"color": "--ink", "dash": "dash", "width": 1.5},
        "hoverinfo": "skip",
    }
    used = ", ".join(str(each.number) for each in axes if each.in_use)
    words = _("Energy of %(n)d components as a share of the largest. In use: %(used)s.") % {
        "n": len(axes),
        "used": used or _("none"),
    }
    layout = {"xaxis": axis(_("Component"), type="category"), "yaxis": axis(_("Energy, % of the largest"))}
    return Picture("energy", _("Energy: which are in use"), words, [trace, line], layout, height=340)
