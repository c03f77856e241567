"""Predict, then learn: every new label is foretold by four methods before the model sees it, and the sums are kept.

The rivals of crowdGPPL learn from the same labels: GPPL (one preference for all; its state is stored with the version)
and Bradley-Terry (no texts; it depends on nothing but the labels, so it is fitted again when needed).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from annotation.models import Project
from modelling import arrays
from modelling.baselines import BradleyTerry
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.fitting import Progress, step
from modelling.inputs import News
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.snapshots import Fitted, part

Floats = NDArray[np.float64]
Tenth = tuple[int, float, float]  # labels, sum of the predicted probabilities, sum of the observed answers

TINY = 1e-12  # no prediction is nearer to 0 or 1: one surprise must not cost infinitely much
TENTHS = 10
METHODS = ScoreboardEntry.Method


@dataclass(frozen=True)
class Sums:
    """How well probabilities foretold labels. Sums of two sets of labels add up."""

    labels: int = 0
    decided: int = 0
    correct: int = 0
    log_loss: float = 0.0
    brier: float = 0.0
    calibration: tuple[Tenth, ...] = ((0, 0.0, 0.0),) * TENTHS

    def __add__(self, other: Sums) -> Sums:
        tenths = zip(self.calibration, other.calibration, strict=True)
        return Sums(
            self.labels + other.labels,
            self.decided + other.decided,
            self.correct + other.correct,
            self.log_loss + other.log_loss,
            self.brier + other.brier,
            tuple((a[0] + b[0], a[1] + b[1], a[2] + b[2]) for a, b in tenths),
        )

    @property
    def accuracy(self) -> float | None:
        """Share of the decided labels whose side was given more than half; None before there are any."""
        return self.correct / self.decided if self.decided else None

    @property
    def mean_log_loss(self) -> float | None:
        return self.log_loss / self.labels if self.labels else None

    @property
    def mean_brier(self) -> float | None:
        return self.brier / self.labels if self.labels else None

    @property
    def calibration_error(self) -> float | None:
        """How far, on average over labels, each tenth's mean prediction is from what was answered."""
        gaps = sum(abs(foretold - seen) for _labels, foretold, seen in self.calibration)
        return gaps / self.labels if self.labels else None


@dataclass(frozen=True)
class Figures:
    """How well each label was foretold; whether rightly only says something of those that were decided."""

    decided: NDArray[np.bool_]
    correct: NDArray[np.bool_]
    log_loss: Floats
    brier: Floats


def figures(p: Floats, y: Floats) -> Figures:
    """Of these probabilities that the first item wins, given what was answered (1, 0, or 0.5 for a tie)."""
    p = np.clip(p, TINY, 1.0 - TINY)
    log_loss = -(y * np.log(p) + (1.0 - y) * np.log1p(-p))
    return Figures(y != 0.5, (p - 0.5) * (y - 0.5) > 0, log_loss, (p - y) ** 2)


def score(p: Floats, y: Floats) -> Sums:
    """The sums of these probabilities that the first item wins, given what was answered (1, 0, or 0.5 for a tie)."""
    p, each = np.clip(p, TINY, 1.0 - TINY), figures(p, y)
    tenth = np.minimum((p * TENTHS).astype(np.int64), TENTHS - 1)
    columns = (np.bincount(tenth, weights, TENTHS) for weights in (np.ones(len(p)), p, y))
    return Sums(
        labels=len(p),
        decided=int(each.decided.sum()),
        correct=int(each.correct.sum()),
        log_loss=float(each.log_loss.sum()),
        brier=float(each.brier.sum()),
        calibration=tuple((int(n), float(foretold), float(seen)) for n, foretold, seen in zip(*columns, strict=True)),
    )


@dataclass
class Rivals:
    """The methods that crowdGPPL is compared with, having learned from the same labels."""

    gppl: CrowdGPPL
    bradley_terry: BradleyTerry | None = field(default=None, repr=False)  # made from the labels when it is asked

    @classmethod
    def fitted_beside(cls, fitted: Fitted, progress: Progress | None = None) -> Rivals:
        """Rivals of a model that was just fitted from scratch: the same kernel, directions and seed."""
        model, state = fitted.model, fitted.model.to_state()
        gppl = CrowdGPPL(
            n_components=0,
            n_inducing_items=model.n_inducing_items,
            item_kernel=model.item_kernel,
            t_prior=model.t_prior,
            random_state=model.random_state,
            progress=progress,
        )
        gppl.fit(fitted.labels, X_items=state.get("X_items"), n_items=model.n_items_, n_users=model.n_users_)
        return cls(gppl)

    @classmethod
    def stored_in(cls, stored: arrays.Arrays) -> Rivals:
        return cls(CrowdGPPL.from_state(part(stored, "gppl.")))

    def arrays(self) -> arrays.Arrays:
        return {f"gppl.{name}": array for name, array in self.gppl.to_state().items()}

    def go_on(self, news: News) -> None:
        """They too have learned what came and forgotten what was taken back."""
        step(self.gppl, news)
        self.bradley_terry = None

    def knowing(self, labels: PairwiseLabels, n_items: int) -> BradleyTerry:
        """Bradley-Terry of these labels."""
        if self.bradley_terry is None:
            self.bradley_terry = BradleyTerry().fit(labels, n_items=n_items)
        return self.bradley_terry


def foretell(fitted: Fitted, rivals: Rivals, news: News) -> dict[str, Sums]:
    """How well each method, as it was before, foretold the labels that have come since about items it knew."""
    known, new = len(fitted.item_ids), news.learned
    new = new.take((new.a < known) & (new.b < known))
    if not len(new):
        return {}
    X_users = fitted.newcomers(news)
    probabilities = {
        METHODS.PERSONAL: fitted.model.predict_proba(new.u, new.a, new.b, X_users=X_users),
        METHODS.CONSENSUS: fitted.model.predict_consensus_proba(new.a, new.b),
        METHODS.GPPL: rivals.gppl.predict_consensus_proba(new.a, new.b),
        METHODS.BRADLEY_TERRY: rivals.knowing(fitted.labels, known).predict_consensus_proba(new.a, new.b),
    }
    return {str(method): score(p, new.y) for method, p in probabilities.items()}


def entries_of(snapshot: ModelSnapshot, sums: dict[str, Sums]) -> list[ScoreboardEntry]:
    """The rows that a version leaves on the scoreboard."""
    return [
        ScoreboardEntry(
            snapshot=snapshot,
            method=method,
            labels=each.labels,
            decided=each.decided,
            correct=each.correct,
            log_loss=each.log_loss,
            brier=each.brier,
            calibration=[list(tenth) for tenth in each.calibration],
        )
        for method, each in sums.items()
    ]


def sums_of(entry: ScoreboardEntry) -> Sums:
    tenths = tuple((int(n), float(foretold), float(seen)) for n, foretold, seen in entry.calibration)
    return Sums(entry.labels, entry.decided, entry.correct, entry.log_loss, entry.brier, tenths)


def totals(project: Project, upto: int | None = None) -> dict[str, Sums]:
    """Each method's sums over all versions, or over those up to this number."""
    entries = _entries(project, upto)
    return {str(method): _total(e for e in entries if e.method == method) for method in METHODS} if entries else {}


def by_version(project: Project, upto: int | None = None) -> list[tuple[int, dict[str, Sums]]]:
    """For each version in order, its number and each method's sums up to and with it: the running scoreboard."""
    running = {str(method): Sums() for method in METHODS}
    versions = []
    for number, entries in groupby(_entries(project, upto), key=lambda entry: entry.snapshot.number):
        for entry in entries:
            running[entry.method] = running[entry.method] + sums_of(entry)
        versions.append((number, dict(running)))
    return versions


def _entries(project: Project, upto: int | None) -> list[ScoreboardEntry]:
    entries = ScoreboardEntry.objects.filter(snapshot__project=project).select_related("snapshot")
    if upto is not None:
        entries = entries.filter(snapshot__number__lte=upto)
    return list(entries.order_by("snapshot__number", "method"))


def _total(entries: Iterable[ScoreboardEntry]) -> Sums:
    return sum((sums_of(entry) for entry in entries), start=Sums())
