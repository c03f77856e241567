"""What a version of the model says, as tables: the ranking, the components, and how each version came about."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from modelling.dashboards import components as components_facts
from modelling.exporting.points import Point
from modelling.exporting.tables import Table, at, columns, in_pages, of_version
from modelling.models import ModelSnapshot
from modelling.ranking import Z_95
from modelling.snapshots import load_fitted

RANKING = columns(
    rank=int, key=str, revision=int, group=str, mean=float, sd=float, mean_low=float, mean_high=float, rank_low=int,
    rank_high=int, top_10_probability=float, polarisation=float, judgements=int, text=str,
)  # fmt: skip
COMPONENT = columns(
    component=int, name=str, variance=float, prior_variance=float, energy=float, share_of_largest=float, in_use=bool,
    words_high=str, words_low=str, items_high=str, items_low=str,
)  # fmt: skip
VERSION = columns(
    number=int, kind=str, parent=int, first_sequence=int, last_sequence=int, inputs_revision=int, included=int,
    excluded=str, settings=str, seed=int, data_hash=str, code_version=str, lower_bound=float, checksum=str,
    seconds=float, created_at=datetime, refined=bool,
)  # fmt: skip


def ranking(point: Point) -> Table:
    """One row for each item, best first. Scores have a 95 % interval, ranks a 90 % interval."""
    scores = point.known.scores
    return of_version("ranking", point, RANKING, lambda: in_pages(_ranking_rows(point)), scores.count())


def _ranking_rows(point: Point) -> Iterator[tuple[Any, ...]]:
    for score in point.known.scores.select_related("item").order_by("rank"):
        item, half = score.item, Z_95 * score.sd
        yield (
            score.rank, item.key, item.revision, item.group, score.mean, score.sd, score.mean - half, score.mean + half,
            score.rank_low, score.rank_high, score.top_probability, score.polarisation, score.judgements, item.text,
        )  # fmt: skip


def components(point: Point) -> Table:
    """One row for each component, by number; what lies at its ends where it is in use."""
    size = len(load_fitted(point.known).model.component_energy_)
    return of_version("components", point, COMPONENT, lambda: in_pages(_component_rows(point)), size)


def _component_rows(point: Point) -> Iterator[tuple[Any, ...]]:
    place = [column.name for column in COMPONENT].index("in_use")
    for *facts, _version, _sequence in components_facts.component_rows(point.known):
        facts[place] = bool(facts[place])
        yield tuple(facts)


def versions(point: Point) -> Table:
    """One row for each version up to this one: what it learned from, by which settings and seed."""
    known = ModelSnapshot.objects.filter(project=point.project, number__lte=point.known.number)
    return of_version("versions", point, VERSION, lambda: in_pages(_version_rows(point)), known.count())


def _version_rows(point: Point) -> Iterator[tuple[Any, ...]]:
    known = ModelSnapshot.objects.filter(project=point.project, number__lte=point.known.number)
    for each in known.select_related("parent").order_by("number"):
        yield (
            each.number, each.kind, each.parent.number if each.parent else None, each.first_sequence,
            each.last_sequence, each.inputs_revision, each.included, words_of(each.excluded), words_of(each.settings),
            each.seed, each.data_hash, each.code_version, each.lower_bound, each.checksum, each.seconds,
            at(each.created_at), each.refined,
        )  # fmt: skip


def words_of(mapping: dict[str, Any]) -> str:
    """A mapping in one cell, the same each time."""
    return json.dumps(mapping, sort_keys=True, ensure_ascii=False)
