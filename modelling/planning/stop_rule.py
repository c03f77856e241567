"""A study's stop rule: computed with every version, stored in its diagnostics, and applied if the owner enables it.

In a study with several groups the top k are those of each group, and the probability is the expected share of groups
whose top k is right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from annotation.models import Project
from annotation.services import change_project
from modelling.models import ModelSnapshot
from modelling.planning.groups import PairGroup, pair_groups
from modelling.planning.policy import Purpose
from modelling.planning.posterior import Floats, OrderPosterior
from modelling.planning.stopping import CONTINUATIONS, Continuations, Forecast, certainty, continue_study
from modelling.training.snapshots import FittedModel

log = logging.getLogger("concord.stop_rule")

MAX_ITEMS = 2000  # in a group; larger groups have no stop rule
FORECAST_GROUPS = 6
MAX_CUTS, CLEARER = 20, 0.1  # other values of k that are considered, and how much more certain they must be
IN_A_ROW = 2  # versions that must reach the target before the study is paused


@dataclass(frozen=True)
class StopRuleResult:
    """A version's numbers for the stop rule."""

    top_k: int
    groups: int
    probability: float
    tau: float
    by_cut: list[float]  # for the top 1, 2, ..., at most MAX_CUTS
    forecast: Forecast

    @property
    def best_cut(self) -> int | None:
        """The k other than `top_k` whose top k is clearly more certain; None if there is none."""
        best = max(range(len(self.by_cut)), key=lambda cut: self.by_cut[cut]) if self.by_cut else 0
        clearer = bool(self.by_cut) and self.by_cut[best] > self.probability + CLEARER
        return best + 1 if clearer and best + 1 != self.top_k else None

    @property
    def best_probability(self) -> float:
        return max(self.by_cut, default=0.0)

    @classmethod
    def load(cls, snapshot: ModelSnapshot) -> StopRuleResult | None:
        """Load the result of a version; None if an earlier release made the version or no group has a suitable size."""
        return cls.parse(snapshot.diagnostics.get("stopping") or {})

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> StopRuleResult | None:
        if "forecast_low" not in stored:
            return None
        names = ("judgements", "forecast", "forecast_low", "forecast_high")
        curve = Forecast(*(np.array(stored[name]) for name in names))
        return cls(stored["top_k"], stored["groups"], stored["probability"], stored["tau"], stored["by_cut"], curve)


def evaluate_stop_rule(snapshot: ModelSnapshot, fitted: FittedModel) -> dict[str, Any]:
    """The stop rule's numbers for the diagnostics of a new version; empty if they cannot be computed."""
    try:
        return _evaluate(snapshot, fitted)
    except np.linalg.LinAlgError:
        log.exception("no stop rule", extra={"project": snapshot.project.slug})
        return {}


def _evaluate(snapshot: ModelSnapshot, fitted: FittedModel) -> dict[str, Any]:
    project = snapshot.project
    rng = np.random.default_rng([snapshot.seed, snapshot.included, 2])
    groups = [group for group in pair_groups(fitted, project) if project.top_k < len(group) <= MAX_ITEMS]
    if not groups:
        return {}
    found, posteriors = [], dict[str, OrderPosterior]()
    chosen = {group.name for group in groups[:: max(1, len(groups) // FORECAST_GROUPS)][:FORECAST_GROUPS]}
    for group in groups:
        posterior = group.posterior(fitted)
        found.append(certainty(posterior, project.top_k, rng))
        if group.name in chosen:
            posteriors[group.name] = posterior
    curve = _forecast(snapshot, fitted, groups, posteriors, rng)
    probability = float(np.mean([each.probability for each in found]))
    cuts = min(MAX_CUTS, *(len(each.by_cut) for each in found))
    by_cut = np.mean([each.by_cut[:cuts] for each in found], axis=0)
    pairs = np.array([len(group) * (len(group) - 1) for group in groups])
    return {
        "top_k": project.top_k,
        "groups": len(groups),
        "probability": round(probability, 4),
        "tau": round(float(np.average([each.tau for each in found], weights=pairs)), 4),
        "by_cut": by_cut.round(4).tolist(),
        "judgements": curve.judgements.tolist(),
        "forecast": _from_now(curve.probability, probability),
        "forecast_low": _from_now(curve.low, probability),
        "forecast_high": _from_now(curve.high, probability),
    }


def _from_now(curve: Floats, probability: float) -> list[float]:
    """A curve of the forecast, beginning with the probability of the version itself, which has more samples."""
    return [round(probability, 4), *np.maximum(curve[1:], probability).round(4).tolist()]


def _forecast(
    snapshot: ModelSnapshot,
    fitted: FittedModel,
    groups: Sequence[PairGroup],
    posteriors: dict[str, OrderPosterior],
    rng: np.random.Generator,
) -> Forecast:
    """Forecast the mean over all groups, if each gets judgements in proportion to those it has.

    Only the groups with a posterior are simulated; each of the others is assumed to develop like one of them.
    """
    project, taste = snapshot.project, fitted.model.item_components_.T
    policy, share = forecast_policy(project), project.random_share / 100.0
    found: list[Continuations] = []
    counts = [max(int(fitted.item_counts[group.at].sum()) // 2, 1) for group in groups]
    simulated = 0
    for group, n in zip(groups, counts, strict=True):
        if group.name in posteriors:
            posterior, own = posteriors[group.name], taste[group.at]
            found.append(continue_study(posterior, project.top_k, n, policy, share, rng, own, fitted.lapse))
            simulated += n
    rows = rng.integers(CONTINUATIONS, size=(len(groups), CONTINUATIONS))
    stated = [found[at % len(found)].probability[row] for at, row in enumerate(rows)]
    judgements = snapshot.included / simulated * np.sum([each.judgements for each in found], axis=0)
    return Forecast.of(judgements.astype(np.int64), np.mean(stated, axis=0))


def forecast_policy(project: Project) -> Purpose | None:
    """The policy that will choose further pairs; None for random pairs."""
    purpose = Project.Suggestions(project.suggestions)
    if purpose == Project.Suggestions.NONE:
        return None
    return "order" if purpose == Project.Suggestions.PERSONAL else purpose.value  # type: ignore[return-value]


def pause_if_certain(snapshot: ModelSnapshot) -> bool:
    """Pause an open study if its owner has enabled this and its last versions have reached the target.

    The setting is then switched off, so that a study that is opened again stays open.
    """
    project = Project.objects.get(pk=snapshot.project_id)
    if not project.stop_pauses or project.state != Project.State.OPEN or not is_certain(project, snapshot.number):
        return False
    change_project(project=project, user=None, changes={"state": Project.State.PAUSED, "stop_pauses": False})
    log.info("paused by the stop rule", extra={"project": project.slug, "snapshot": snapshot.number})
    return True


def is_certain(project: Project, number: int) -> bool:
    """Whether this version and the one before it have reached the target for the study's current k."""
    versions = ModelSnapshot.objects.filter(project=project, number__lte=number).order_by("-number")[:IN_A_ROW]
    found = [StopRuleResult.load(version) for version in versions]
    return len(found) == IN_A_ROW and all(
        each is not None and each.top_k == project.top_k and each.probability >= project.stop_target / 100.0
        for each in found
    )
