"""What the model expects, as tables: each worker's own scores of the items, and how probably one item beats another."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from annotation.models import Project, Worker
from modelling.exporting.points import Point
from modelling.exporting.tables import PAGE, Page, Table, columns, of_version
from modelling.snapshots import Fitted, load_fitted

UTILITY = columns(worker=str, key=str, mean=float, sd=float)
PAIR = columns(a=str, b=str, group=str, probability_a=float)


def utilities(point: Point) -> Table:
    """One row for each worker and item: the score this worker probably has in mind, and how sure that is."""
    fitted = load_fitted(point.known)
    size = len(fitted.worker_ids) * len(fitted.ranked)
    return of_version("utilities", point, UTILITY, lambda: _utility_pages(point, fitted), size)


def _utility_pages(point: Point, fitted: Fitted) -> Iterator[Page]:
    """A few workers at a time, in the order in which they came; nobody who is gone."""
    keys = [key for key, _ in _ranked(point, fitted)]
    codes = dict(Worker.objects.filter(project=point.project).exclude(outcome=Worker.ERASED).values_list("pk", "code"))
    known = [place for place, pk in enumerate(fitted.worker_ids.tolist()) if pk in codes]
    at_once = max(1, PAGE // max(len(keys), 1))
    for start in range(0, len(known), at_once):
        users = np.array(known[start : start + at_once], dtype=np.int64)
        mean, sd = fitted.model.predict_utilities(
            users=users, items=fitted.ranked, return_std=True, among=fitted.ranked
        )
        names = [codes[pk] for pk in fitted.worker_ids[users].tolist()]
        workers = [name for name in names for _ in keys]
        yield [workers, keys * len(names), mean.T.ravel().tolist(), sd.T.ravel().tolist()]


def _ranked(point: Point, fitted: Fitted) -> list[tuple[str, str]]:
    """Key and group of each ranked item, in the order of the arrays."""
    known = {pk: (key, group) for pk, key, group in point.project.items.values_list("pk", "key", "group")}
    return [known[pk] for pk in fitted.item_ids[fitted.ranked].tolist()]


def pairs(point: Point) -> Table:
    """One row for each pair that workers may be given: the probability that a typical worker prefers `a`."""
    fitted = load_fitted(point.known)
    partners = _partners(point, fitted)
    return of_version("pairs", point, PAIR, lambda: _pair_pages(point, fitted), sum(map(len, partners)))


def _partners(point: Point, fitted: Fitted) -> list[np.ndarray[Any, Any]]:
    """For each ranked item, the later ones that it may meet."""
    groups = [group for _, group in _ranked(point, fitted)]
    if point.project.pairs == Project.Pairs.ANY:
        groups = [""] * len(groups)
    of_group = np.unique(groups, return_inverse=True)[1] if groups else np.zeros(0, dtype=np.int64)
    return [n + 1 + np.flatnonzero(of_group[n + 1 :] == of_group[n]) for n in range(len(groups))]


def _pair_pages(point: Point, fitted: Fitted) -> Iterator[Page]:
    names = _ranked(point, fitted)
    for first, later in enumerate(_partners(point, fitted)):
        for start in range(0, len(later), PAGE):
            others = later[start : start + PAGE]
            a, b = fitted.ranked[np.full(len(others), first)], fitted.ranked[others]
            chances = fitted.model.predict_consensus_proba(a, b).tolist()
            (key, group), met = names[first], [names[other] for other in others.tolist()]
            groups = [group if group == other else "" for _, other in met]
            yield [[key] * len(met), [other for other, _ in met], groups, chances]
