"""The scoreboard on the page: who foretold the judgements best before anybody had learned from them."""

from dataclasses import dataclass

from django.template.defaultfilters import floatformat  # rounds as the table beside it; number_format cuts off
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.dashboards.foretold_pictures import calibration_picture, losses_picture
from modelling.dashboards.pictures import Picture
from modelling.models import ScoreboardEntry
from modelling.scoreboard import Sums, by_version, totals

Method = ScoreboardEntry.Method
NEAR = 0.002  # mean log losses closer than this are called equal


@dataclass(frozen=True)
class Foretold:
    """One method's line. Shares in percent; losses per judgement, smaller is better."""

    method: str
    labels: int
    percent_right: float | None
    log_loss: float
    brier: float
    best: bool


@dataclass(frozen=True)
class Scoreboard:
    summary: str
    rows: list[Foretold]
    pictures: list[Picture]


def scoreboard(project: Project, upto: int) -> Scoreboard | None:
    """All methods over the versions up to this one, the smallest log loss first; None before there is a judgement."""
    versions = by_version(project, upto)
    sums = _scored(versions[-1][1]) if versions else {}
    if not sums:
        return None
    losses = {method: each.log_loss / each.labels for method, each in sums.items()}
    best = min(losses.values())
    rows = [_row(method, sums[method], losses[method] == best) for method in sorted(losses, key=lambda m: losses[m])]
    pictures = [losses_picture(versions), calibration_picture(sums)]
    return Scoreboard(_summary(sums, losses), rows, pictures)


def in_one_line(project: Project, upto: int) -> str:
    """Which share of new answers the personal model and the consensus foretold; nothing before there are any."""
    sums = _scored(totals(project, upto))
    shares = [sums[method].accuracy for method in (Method.PERSONAL, Method.CONSENSUS) if method in sums]
    if len(shares) < 2 or None in shares:
        return ""
    own, crowd = (floatformat(100 * (share or 0.0), 0) for share in shares)
    return _("The personal model foretold %(own)s %% of new answers, the consensus %(crowd)s %%.") % {
        "own": own,
        "crowd": crowd,
    }


def _scored(sums: dict[str, Sums]) -> dict[str, Sums]:
    return {method: each for method, each in sums.items() if each.labels}


def _row(method: str, sums: Sums, best: bool) -> Foretold:
    right = None if sums.accuracy is None else 100 * sums.accuracy
    label = str(Method(method).label)
    return Foretold(label, sums.labels, right, sums.log_loss / sums.labels, sums.brier / sums.labels, best)


def _summary(sums: dict[str, Sums], losses: dict[str, float]) -> str:
    """Whether knowing each person helps to foretell them, in one sentence."""
    personal = sums.get(Method.PERSONAL)
    if personal is None or personal.accuracy is None:
        return _("Only ties so far: nothing could be foretold right or wrong.")
    own = losses[Method.PERSONAL]
    gain = min((loss for method, loss in losses.items() if method != Method.PERSONAL), default=own) - own
    facts = {
        "right": floatformat(100 * personal.accuracy, 1),
        "labels": number_format(personal.decided, force_grouping=True),
    }
    told = _("The personal model foretold %(right)s %% of %(labels)s new decided judgements right.") % facts
    if gain > NEAR:
        return f"{told} {_('Its log loss is the smallest: knowing each person helps.')}"
    if gain < -NEAR:
        return f"{told} {_('Another method has a smaller log loss: so far, knowing each person does not help.')}"
    return f"{told} {_('Its log loss is about that of the next best: so far, knowing each person helps little.')}"
