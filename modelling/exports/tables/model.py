"""Export tables of one model version, from the ranking and its reliability to assessments and predictions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from annotation.models import Item, Project, Worker
from modelling.exports.points import ExportPoint
from modelling.exports.tables.base import (
    PAGE_SIZE,
    ExportTable,
    Page,
    build_columns,
    format_timestamp,
    rows_to_pages,
    version_table,
)
from modelling.findings.versions import get_findings
from modelling.findings.workers.assessment import AUTOMATED
from modelling.findings.workers.versions import get_assessments
from modelling.models import ModelSnapshot
from modelling.training.components.axes import component_rows
from modelling.training.ranking import Z_95
from modelling.training.reliability.versions import get_reliability
from modelling.training.snapshots import FittedModel, load_fitted_model
from modelling.training.votes import get_votes

RANKING_COLUMNS = build_columns(
    rank=int, key=str, revision=int, group=str, mean=float, sd=float, mean_low=float, mean_high=float, rank_low=int,
    rank_high=int, top_10_probability=float, polarisation=float, judgements=int, text=str, wins=int,
    losses=int, ties=int, win_rate=float, bradley_terry_rank=int, comparable=bool, group_rank=int, part=int,
)  # fmt: skip
COMPONENT_COLUMNS = build_columns(
    component=int, name=str, variance=float, prior_variance=float, energy=float, share_of_largest=float, in_use=bool,
    words_high=str, words_low=str, items_high=str, items_low=str,
)  # fmt: skip
VERSION_COLUMNS = build_columns(
    number=int, kind=str, parent=int, first_sequence=int, last_sequence=int, inputs_revision=int, included=int,
    excluded=str, settings=str, seed=int, data_hash=str, code_version=str, lower_bound=float, checksum=str,
    seconds=float, created_at=datetime, refined=bool,
)  # fmt: skip
RELIABILITY_COLUMNS = build_columns(
    measure=str, item=str, worker=str, value=float, low=float, high=float, n=int, arm=str, inflated=bool
)
CLAIM_COLUMNS = build_columns(
    key=str, group=str, group_rank=int, tier=int, rank_low=int, rank_high=int, safely_above=int, safely_below=int,
    bridging=float, bridging_low=float, bridging_high=float, comparable=bool, part=int,
)  # fmt: skip
ASSESSMENT_COLUMNS = build_columns(
    worker=str, arm=str, answers=int, careless=float, different=float, ordinary=float, looks_automated=bool,
    predicted=int, agreed=int, careless_from=int, left=int, sided=int, repeated=int, contradicted=int, triples=int,
    circular=int, too_fast=int, timed=int, moved_ranks=int, assessed_version=int,
)  # fmt: skip
EVIDENCE = ("left", "sided", "repeated", "contradicted", "triples", "circular", "too_fast", "timed", "moved")
UTILITY_COLUMNS = build_columns(worker=str, key=str, mean=float, sd=float, arm=str, part=int)
PAIR_COLUMNS = build_columns(
    a=str, b=str, group=str, probability_a=float, probability_a_random_worker=float, comparable=bool
)
PAIR_KINDS = ("typical", "mean")  # kinds of the two probability columns


def ranking(point: ExportPoint) -> ExportTable:
    """One row per item, best first, with 95% intervals for scores and ranks."""
    size = point.required_snapshot.scores.count()
    return version_table("ranking", point, RANKING_COLUMNS, lambda: rows_to_pages(_ranking_rows(point)), size)


def _ranking_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    votes = get_votes(point.required_snapshot)
    for score in point.required_snapshot.scores.select_related("item").order_by("rank"):
        item, half, own = score.item, Z_95 * score.sd, votes.of(score.item_id)
        yield (
            score.rank, item.key, item.revision, item.group, score.mean, score.sd, score.mean - half, score.mean + half,
            score.rank_low, score.rank_high, score.top_probability, score.polarisation, score.judgements, item.text,
            own.wins, own.losses, own.ties, own.win_rate, own.bradley_terry_rank, votes.is_comparable(score.item_id),
            own.group_rank, own.part,
        )  # fmt: skip


def components(point: ExportPoint) -> ExportTable:
    """One row per component by number.

    `prior_variance` (empty), `energy` (the variance) and `in_use` (true) are columns of earlier releases.
    """
    size = len(load_fitted_model(point.required_snapshot).model.component_variances_)
    return version_table("components", point, COMPONENT_COLUMNS, lambda: rows_to_pages(_component_rows(point)), size)


def _component_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    in_use = [column.name for column in COMPONENT_COLUMNS].index("in_use")
    for *cells, _version, _sequence in component_rows(point.required_snapshot):
        cells[in_use] = bool(cells[in_use])
        yield tuple(cells)


def reliability(point: ExportPoint) -> ExportTable:
    """One row per measure of the study, then infit and outfit of each item and worker, as on the reliability page."""
    rows = list(_reliability_rows(point))
    return version_table("reliability", point, RELIABILITY_COLUMNS, lambda: rows_to_pages(rows), len(rows))


def _reliability_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    found = get_reliability(point.required_snapshot)
    for name, estimate in found.measures.items():
        if estimate:
            numbers = (estimate.value, estimate.low, estimate.high, estimate.n)
            yield name, None, None, *numbers, None, found.is_inflated(name)
    members = [((each.name, None), each) for each in found.items] + [
        ((None, each.name), each) for each in found.workers
    ]
    arms = point.project.workers.arm_names("code")
    for names, each in members:
        arm = arms.get(names[1])
        yield "infit", *names, each.infit, each.low, each.high, each.n, arm, False
        yield "outfit", *names, each.outfit, None, None, each.n, arm, False


def claims(point: ExportPoint) -> ExportTable:
    """One row per item, as on the claims page: tiers and rank ranges with simultaneous 95% coverage."""
    rows = list(_claim_rows(point))
    return version_table("claims", point, CLAIM_COLUMNS, lambda: rows_to_pages(rows), len(rows))


def _claim_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    votes = get_votes(point.required_snapshot)
    for group in get_findings(point.required_snapshot).groups:
        found, bridging = group.claims, group.bridging
        for place, item in enumerate(group.items):
            counts = (int(found.above[place].sum()), int(found.above[:, place].sum()))
            preference: tuple[float | None, ...] = (None, None, None)
            if bridging is not None:
                preference = tuple(float(each[place]) for each in (bridging.lowest, bridging.low, bridging.high))
            ranks = (int(found.tier[place]), int(found.rank_low[place]), int(found.rank_high[place]))
            own, comparable = votes.of(item.pk), votes.is_comparable(item.pk)
            yield item.key, item.group, own.group_rank, *ranks, *counts, *preference, comparable, own.part


def assessments(point: ExportPoint) -> ExportTable:
    """One row per worker with enough answers: the probabilities of careless, different and ordinary, with evidence."""
    rows = list(_assessment_rows(point))
    return version_table("assessments", point, ASSESSMENT_COLUMNS, lambda: rows_to_pages(rows), len(rows))


def _assessment_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    found = get_assessments(point.project, point.required_snapshot)
    workers = Worker.objects.visible().in_bulk(found)
    arms = point.project.workers.arm_names()
    for pk, row in sorted(found.items()):
        facts = row.evidence
        careless_from = facts["since"] + 1 if row.careless > 0.5 else None
        yield (
            workers[pk].code, arms.get(pk), row.answers, row.careless, row.different, row.ordinary,
            len(facts["signs"]) >= AUTOMATED, facts["predicted"], facts["agreed"], careless_from,
            *(facts[name] for name in EVIDENCE), row.snapshot.number,
        )  # fmt: skip


def versions(point: ExportPoint) -> ExportTable:
    """One row per version up to this one, with its events, settings and seed."""
    size = _versions_until(point).count()
    return version_table("versions", point, VERSION_COLUMNS, lambda: rows_to_pages(_version_rows(point)), size)


def _versions_until(point: ExportPoint) -> Any:
    return ModelSnapshot.objects.filter(project=point.project, number__lte=point.required_snapshot.number)


def _version_rows(point: ExportPoint) -> Iterator[tuple[Any, ...]]:
    for snapshot in _versions_until(point).select_related("parent").order_by("number"):
        yield (
            snapshot.number, snapshot.kind, snapshot.parent.number if snapshot.parent else None,
            snapshot.first_sequence, snapshot.last_sequence, snapshot.inputs_revision, snapshot.included,
            _canonical_json(snapshot.excluded), _canonical_json(snapshot.settings), snapshot.seed, snapshot.data_hash,
            snapshot.code_version, snapshot.lower_bound, snapshot.checksum, snapshot.seconds,
            format_timestamp(snapshot.created_at), snapshot.refined,
        )  # fmt: skip


def _canonical_json(mapping: dict[str, Any]) -> str:
    return json.dumps(mapping, sort_keys=True, ensure_ascii=False)


# Predictions


def utilities(point: ExportPoint) -> ExportTable:
    """One row per worker and item: the mean and standard deviation of this worker's score of the item."""
    fitted = load_fitted_model(point.required_snapshot)
    size = len(fitted.worker_ids) * len(fitted.ranked)
    return version_table("utilities", point, UTILITY_COLUMNS, lambda: _utility_pages(point, fitted), size)


def _utility_pages(point: ExportPoint, fitted: FittedModel) -> Iterator[Page]:
    """Predict for a few workers at a time in the order in which they joined, without erased workers."""
    keys, parts = [key for key, _ in _ranked_items(point, fitted)], _ranked_parts(point, fitted)
    codes = dict(Worker.objects.filter(project=point.project).exclude(outcome=Worker.ERASED).values_list("pk", "code"))
    arms = point.project.workers.arm_names("code")
    positions = [position for position, pk in enumerate(fitted.worker_ids.tolist()) if pk in codes]
    workers_per_page = max(1, PAGE_SIZE // max(len(keys), 1))
    for start in range(0, len(positions), workers_per_page):
        users = np.array(positions[start : start + workers_per_page], dtype=np.int64)
        mean, sd = fitted.model.predict_utilities(
            users=users, items=fitted.ranked, return_std=True, among=fitted.ranked
        )
        names = [codes[pk] for pk in fitted.worker_ids[users].tolist()]
        workers = [name for name in names for _ in keys]
        scores = [mean.T.ravel().tolist(), sd.T.ravel().tolist()]
        yield [workers, keys * len(names), *scores, [arms.get(name) for name in workers], parts * len(names)]


def _ranked_items(point: ExportPoint, fitted: FittedModel) -> list[tuple[str, str]]:
    """Return key and group of each ranked item, in the order of the arrays."""
    known = {pk: (key, group) for pk, key, group in point.project.items.values_list("pk", "key", "group")}
    return [known[pk] for pk in fitted.item_ids[fitted.ranked].tolist()]


def _ranked_parts(point: ExportPoint, fitted: FittedModel) -> list[int | None]:
    """Return each ranked item's part of the comparison graph, in the order of the arrays."""
    votes = get_votes(point.required_snapshot)
    return [votes.of(pk).part for pk in fitted.item_ids[fitted.ranked].tolist()]


def pairs(point: ExportPoint) -> ExportTable:
    """One row per pair that workers may get: the probability that a typical worker, and a random one, prefers `a`."""
    fitted = load_fitted_model(point.required_snapshot)
    size = sum(map(len, _partners(point, fitted)))
    return version_table("pairs", point, PAIR_COLUMNS, lambda: _pair_pages(point, fitted), size)


def _partners(point: ExportPoint, fitted: FittedModel) -> list[np.ndarray[Any, Any]]:
    """List, for each ranked item, the later items it may be paired with."""
    groups = [group for _, group in _ranked_items(point, fitted)]
    if point.project.pairs == Project.Pairs.ANY:
        groups = [""] * len(groups)
    group_ids = np.unique(groups, return_inverse=True)[1] if groups else np.zeros(0, dtype=np.int64)
    return [n + 1 + np.flatnonzero(group_ids[n + 1 :] == group_ids[n]) for n in range(len(groups))]


def _pair_pages(point: ExportPoint, fitted: FittedModel) -> Iterator[Page]:
    items, parts = _ranked_items(point, fitted), _ranked_parts(point, fitted)
    for first, partners in enumerate(_partners(point, fitted)):
        for start in range(0, len(partners), PAGE_SIZE):
            others = partners[start : start + PAGE_SIZE]
            a, b = fitted.ranked[np.full(len(others), first)], fitted.ranked[others]
            typical, random = (fitted.model.predict_consensus_proba(a, b, kind).tolist() for kind in PAIR_KINDS)
            (key, group), other_items = items[first], [items[other] for other in others.tolist()]
            groups = [group if group == other_group else "" for _, other_group in other_items]
            linked = [parts[first] is not None and parts[first] == parts[other] for other in others.tolist()]
            yield [[key] * len(others), [other_key for other_key, _ in other_items], groups, typical, random, linked]


@dataclass(frozen=True, eq=False)
class ConsensusPredictions:
    """A version's predictions for pairs of items, by their names in the exports for other programs."""

    fitted: FittedModel
    positions: dict[str, int]

    @classmethod
    def load(cls, point: ExportPoint, names: dict[str, tuple[str, int]]) -> "ConsensusPredictions":
        """Load the model; `names` maps each name to the item's key and revision."""
        fitted = load_fitted_model(point.required_snapshot)
        rows = Item.objects.filter(project=point.project).values_list("pk", "key", "revision")
        index = fitted.item_index
        positions = {(key, revision): index[pk] for pk, key, revision in rows if pk in index}
        return cls(fitted, {name: positions[item] for name, item in names.items() if item in positions})

    def predict_pairs(self, pairs: list[tuple[str, str]]) -> list[tuple[float | None, float | None]]:
        """Return score margin and preference probability of each pair's first item; None for unknown items."""
        predictions: list[tuple[float | None, float | None]] = [(None, None)] * len(pairs)
        rows = [row for row, pair in enumerate(pairs) if all(name in self.positions for name in pair)]
        if not rows:
            return predictions
        a, b = (np.array([self.positions[pairs[row][end]] for row in rows], dtype=np.int64) for end in (0, 1))
        mean = self.fitted.model.predict_consensus()
        probabilities = self.fitted.model.predict_consensus_proba(a, b, kind="typical")
        for row, margin, probability in zip(rows, (mean[a] - mean[b]).tolist(), probabilities.tolist(), strict=True):
            predictions[row] = (margin, probability)
        return predictions
