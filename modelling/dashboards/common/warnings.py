"""Reasons to read a version's results with caution, in one list for all pages."""

from dataclasses import dataclass
from math import log

from django.db.models import Avg, Sum
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.training.evaluation.scoreboard import MIN_SCORED
from modelling.training.votes import get_votes

Method = ScoreboardEntry.Method
MIN_JUDGEMENTS = 5  # per item, on average
SIMILAR = 0.002  # mean log losses closer than this count as equal
CONSTANT_LOSS = log(2.0)  # log loss of predicting one half for every judgement
PARTS = "parts"


@dataclass(frozen=True)
class ResultWarning:
    """A clause that completes “Read version 3 with caution:”."""

    code: str
    reason: str


def find_warnings(snapshot: ModelSnapshot) -> list[ResultWarning]:
    """Everything that makes the results of this version doubtful; empty if nothing does."""
    found = {
        "converged": _fit_warning(snapshot),
        "scoreboard": _scoreboard_warning(snapshot),
        "judgements": _judgements_warning(snapshot),
        PARTS: _parts_warning(snapshot),
    }
    return [ResultWarning(code, reason) for code, reason in found.items() if reason]


def describe_warnings(snapshot: ModelSnapshot, warnings: list[ResultWarning]) -> str:
    """Join the warnings in one sentence; empty without warnings."""
    if not warnings:
        return ""
    reasons = "; ".join(each.reason for each in warnings)
    return _("Read version %(number)d with caution: %(reasons)s.") % {"number": snapshot.number, "reasons": reasons}


def _fit_warning(snapshot: ModelSnapshot) -> str:
    if snapshot.diagnostics.get("converged") is False:
        return _("the fit stopped before its results settled")
    return _("the fit reported a problem") if snapshot.diagnostics.get("warnings") else ""


def _scoreboard_warning(snapshot: ModelSnapshot) -> str:
    entries = ScoreboardEntry.objects.filter(
        snapshot__project=snapshot.project_id, snapshot__number__lte=snapshot.number
    )
    sums = entries.order_by().values_list("method").annotate(Sum("labels"), Sum("log_loss"))
    losses = {method: loss / labels for method, labels, loss in sums if labels >= MIN_SCORED}
    personal, consensus, rival = (
        losses.get(str(method)) for method in (Method.PERSONAL, Method.CONSENSUS, Method.BRADLEY_TERRY)
    )
    if any(loss is not None and loss > CONSTANT_LOSS + SIMILAR for loss in (personal, consensus)):
        return _("it predicts new judgements worse than chance")
    if consensus is not None and rival is not None and consensus > rival + SIMILAR:
        return _("it predicts new judgements worse than Bradley-Terry")
    return ""


def _judgements_warning(snapshot: ModelSnapshot) -> str:
    average = snapshot.scores.aggregate(average=Avg("judgements"))["average"]
    if average is None or average >= MIN_JUDGEMENTS:
        return ""
    return _("there are only %(average)s judgements per item on average") % {"average": number_format(average, 1)}


def _parts_warning(snapshot: ModelSnapshot) -> str:
    n_parts = get_votes(snapshot).n_parts
    return _("%(n)d parts of the items were never compared with each other") % {"n": n_parts} if n_parts > 1 else ""
