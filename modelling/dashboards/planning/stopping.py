"""The page “When to stop”: the probability that the top k are correct, the judgements still needed, and stability."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Assignment, AuditEntry, Item, Project, Recruitment
from annotation.models.arms import list_designs
from modelling.dashboards.common.figures import Figure, FigureTable, Trace, axis, rounded
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.planning.groups import has_pairs_within_groups
from modelling.planning.stop_rule import StopRuleResult
from modelling.training.votes import get_votes

MAX_VERSIONS = 200  # on the curve, the newest ones
STABLE_VERSIONS = 20  # earlier versions compared with the shown one
CLEAR_CUT = 0.5  # another number of top items is suggested from this probability on
ROUND_TO = ((100, 1), (1000, 10), (10_000, 50), (10**9, 500))  # (upper limit, multiple to round to)


@dataclass(frozen=True)
class Outlook:
    """Judgements and cost until half of the simulated continuations reach the target; None if they do not.

    `earliest` and `latest` are those until one and nine in ten do; `furthest` is the end of the forecast. `room` is the
    number of judgements that the study's pairs can still get.
    """

    judgements: int | None
    earliest: int | None
    latest: int | None
    furthest: int
    room: int
    cost: Decimal | None
    currency: str


@dataclass(frozen=True)
class Stability:
    """How many versions in a row, up to the shown one, had the same top k, and since which."""

    versions: int
    since: int
    judgements: int
    is_first: bool = False


@dataclass(frozen=True)
class StoppingPage:
    found: StopRuleResult
    target: int
    reached: bool
    outlook: Outlook
    stability: Stability
    paused_at: Any
    other_k: bool
    figures: list[Figure]
    spans_parts: bool

    @property
    def probability_label(self) -> str:
        return label_probability(self.found.top_k)

    @property
    def sentence(self) -> str:
        """The probability that the top k are correct, as a sentence."""
        facts = {"k": self.found.top_k, "p": f"{100 * self.found.probability:.0f}", "n": self.found.groups}
        if self.found.groups > 1:
            message = ngettext(
                "On average over the %(n)d groups, the top item is correct with a probability of %(p)s %%.",
                "On average over the %(n)d groups, the top %(k)d are correct with a probability of %(p)s %%.",
                self.found.top_k,
            )
            return message % facts
        message = ngettext(
            "The top item is correct with a probability of %(p)s %%.",
            "The top %(k)d are correct with a probability of %(p)s %%.",
            self.found.top_k,
        )
        return message % facts

    @property
    def advice(self) -> str:
        """How many more judgements the target needs, or that it is reached."""
        if self.reached:
            return _("This reaches the target of %(target)d %%. You can stop.") % {"target": self.target}
        facts = {"target": self.target, "furthest": format_about(self.outlook.furthest)}
        if self.outlook.earliest is None:
            return _("More than %(furthest)s more judgements are needed to reach %(target)d %%.") % facts
        facts["low"] = format_about(self.outlook.earliest)
        if self.outlook.judgements is None:
            message = _("At least %(low)s more judgements are needed to reach %(target)d %%; perhaps many more.")
            return message % facts
        facts["n"] = format_about(self.outlook.judgements)
        if self.outlook.cost is None:
            needed = _("About %(n)s more judgements are needed to reach %(target)d %%.") % facts
        else:
            facts["cost"] = f"{number_format(self.outlook.cost.quantize(Decimal(1)))} {self.outlook.currency}"
            needed = _("About %(n)s more judgements (about %(cost)s) are needed to reach %(target)d %%.") % facts
        return f"{needed} {self.uncertainty}"

    @property
    def uncertainty(self) -> str:
        """The range of the forecast."""
        facts = {"low": format_about(self.outlook.earliest or 0), "furthest": format_about(self.outlook.furthest)}
        if self.outlook.latest is None:
            return _("8 of 10 simulated continuations need from %(low)s to more than %(furthest)s.") % facts
        facts["high"] = format_about(self.outlook.latest)
        return _("8 of 10 simulated continuations need %(low)s to %(high)s.") % facts

    @property
    def room_line(self) -> str:
        """A warning where the study's pairs have no room for the judgements that are needed; empty otherwise."""
        needed = self.outlook.judgements or self.outlook.earliest or self.outlook.furthest
        if self.reached or needed <= self.outlook.room:
            return ""
        return ngettext(
            "The pairs of this study have room for only %(n)s more judgement: raise the number of workers per pair.",
            "The pairs of this study have room for only %(n)s more judgements: raise the number of workers per pair.",
            self.outlook.room,
        ) % {"n": number_format(self.outlook.room, force_grouping=True)}

    @property
    def other_cut(self) -> str:
        """Suggest another k whose top k are correct with a higher probability; empty if there is none."""
        best = self.found.best_cut
        if best is None or self.reached or self.found.best_probability < CLEAR_CUT:
            return ""
        facts = {"k": best, "p": f"{100 * self.found.best_probability:.0f}"}
        message = ngettext(
            "Consider the top item alone: it is correct with a probability of %(p)s %%.",
            "Consider the top %(k)d instead: they are correct with a probability of %(p)s %%.",
            best,
        )
        return message % facts

    @property
    def stability_line(self) -> str:
        if self.stability.is_first:
            return ""
        if self.stability.versions < 2:
            message = ngettext(
                "The previous version had another top item.",
                "The previous version had a different top %(k)d.",
                self.found.top_k,
            )
            return message % {"k": self.found.top_k}
        facts = {
            "k": self.found.top_k,
            "since": self.stability.since,
            "n": number_format(self.stability.judgements, force_grouping=True),
        }
        if self.found.top_k == 1:
            message = ngettext(
                "The top item has been the same since version %(since)d, %(n)s judgement ago.",
                "The top item has been the same since version %(since)d, %(n)s judgements ago.",
                self.stability.judgements,
            )
        else:
            message = ngettext(
                "The top %(k)d have been the same since version %(since)d, %(n)s judgement ago.",
                "The top %(k)d have been the same since version %(since)d, %(n)s judgements ago.",
                self.stability.judgements,
            )
        return message % facts


def label_probability(k: int) -> str:
    message = ngettext("Probability that the top item is correct", "Probability that the top %(k)d are correct", k)
    return message % {"k": k}


def format_about(number: int) -> str:
    """Format a forecast, rounded because it is not exact."""
    step = next(step for limit, step in ROUND_TO if number <= limit)
    return number_format(max(step, step * round(number / step)), force_grouping=True)


def stopping_page(snapshot: ModelSnapshot) -> StoppingPage | None:
    """The facts for the page; None if the version has no stopping assessment."""
    project, found = snapshot.project, StopRuleResult.load(snapshot)
    if found is None:
        return None
    return StoppingPage(
        found=found,
        target=project.stop_target,
        reached=found.probability >= project.stop_target / 100,
        outlook=get_outlook(project, found),
        stability=find_stability(snapshot, found),
        paused_at=paused_by_rule(project),
        other_k=found.top_k != project.top_k,
        figures=[certainty_figure(snapshot, found, project.stop_target)],
        spans_parts=get_votes(snapshot).spans_parts(within_groups=has_pairs_within_groups(project)),
    )


def get_outlook(project: Project, found: StopRuleResult) -> Outlook:
    target, curve = project.stop_target / 100, found.forecast
    needed = curve.needed(target)
    recruitment = Recruitment.objects.filter(project=project).first()
    cost = None
    if needed is not None and recruitment is not None and recruitment.reward:
        cost = recruitment.reward * needed / project.judgements_per_worker
    currency = recruitment.currency if recruitment else ""
    furthest, room = int(curve.judgements[-1]), free_room(project)
    return Outlook(needed, curve.earliest(target), curve.latest(target), furthest, room, cost, currency)


def free_room(project: Project) -> int:
    """How many more judgements fit into the pairs of active items, given the number of workers per pair."""
    items = Item.objects.filter(project=project, active=True).order_by()
    within = has_pairs_within_groups(project)
    sizes = [n for _group, n in items.values_list("group").annotate(Count("pk"))] if within else [items.count()]
    slots = project.redundancy * len(list_designs(project))
    issued = Assignment.objects.filter(project=project, slot__isnull=False).count()
    return max(sum(n * (n - 1) // 2 for n in sizes) * slots - issued, 0)


def find_stability(snapshot: ModelSnapshot, found: StopRuleResult) -> Stability:
    """Compare the top k of the ranking with those of earlier versions, newest first, until they differ."""
    top = top_items(snapshot.pk, found)
    versions = ModelSnapshot.objects.filter(project=snapshot.project_id, number__lt=snapshot.number)
    run, since, included = 1, snapshot.number, snapshot.included
    earlier = list(versions.order_by("-number").values_list("pk", "number", "included")[:STABLE_VERSIONS])
    for pk, number, count in earlier:
        if top_items(pk, found) != top:
            break
        run, since, included = run + 1, number, count
    return Stability(run, since, snapshot.included - included, is_first=not earlier)


def top_items(version: int, found: StopRuleResult) -> set[int]:
    """The items at the top of the ranking, or of each group if the study has several."""
    scores = ConsensusScore.objects.filter(snapshot=version).order_by("rank")
    if found.groups == 1:
        return set(scores.values_list("item", flat=True)[: found.top_k])
    count, top = Counter[str](), set[int]()
    for item, group in scores.values_list("item", "item__group"):
        count[group] += 1
        if count[group] <= found.top_k:
            top.add(item)
    return top


def paused_by_rule(project: Project) -> Any:
    """The time when the stop rule paused the study; None unless it is still paused by the rule."""
    if project.state != Project.State.PAUSED:
        return None
    entries = AuditEntry.objects.filter(project=project, user=None, details__has_key="stop_pauses")
    last = entries.order_by("-pk").first()
    return last.at if last and last.details.get("state", [None, None])[1] == Project.State.PAUSED else None


def certainty_figure(snapshot: ModelSnapshot, found: StopRuleResult, target: int) -> Figure:
    """The probability that the top k are correct in each version, by judgements, with the forecast and the target.

    Dotted lines enclose 8 of 10 simulated continuations.
    """
    versions = ModelSnapshot.objects.filter(project=snapshot.project_id, number__lte=snapshot.number)
    rows = versions.order_by("-number").values_list("included", "diagnostics__stopping")[:MAX_VERSIONS]
    past = [(included, stored) for included, stored in rows if stored and stored["top_k"] == found.top_k][::-1]
    ahead = [snapshot.included + n for n in found.forecast.judgements.tolist()]
    percent = [100 * stored["probability"] for _included, stored in past]
    curve = found.forecast
    expected, low, high = ([100 * p for p in each.tolist()] for each in (curve.probability, curve.low, curve.high))
    lines: dict[str, tuple[list[int], list[float], dict[str, Any]]] = {
        _("so far"): ([included for included, _stored in past], percent, {"color": "--c1"}),
        _("forecast"): (ahead, expected, {"color": "--c1", "dash": "dash"}),
    }
    traces: list[Trace] = [
        {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": rounded(y), "line": line}
        for name, (x, y, line) in lines.items()
    ]
    edge = {"color": "--c1", "width": 1, "dash": "dot"}
    for y in (low, high):
        band = {"type": "scatter", "mode": "lines", "x": ahead, "y": rounded(y), "line": edge}
        traces.append({**band, "showlegend": False, "hoverinfo": "skip"})
    ends = [past[0][0] if past else snapshot.included, ahead[-1]]
    goal = {"type": "scatter", "mode": "lines", "name": _("target"), "x": ends, "y": [target, target]}
    traces.append({**goal, "line": {"color": "--c2", "dash": "dot"}, "hoverinfo": "skip"})
    layout = {
        "xaxis": axis(_("Judgements")),
        "yaxis": axis(
            ngettext("top item correct (%%)", "top %(k)d correct (%%)", found.top_k) % {"k": found.top_k},
            range=[0, 102],
        ),
    }
    table = FigureTable(
        [_("Judgements"), _("so far"), _("forecast"), _("low"), _("high")],
        [[x, round(y, 1), "", "", ""] for x, y in zip(lines[_("so far")][0], percent, strict=True)]
        + [[x, "", *(round(y, 1) for y in row)] for x, *row in zip(ahead, expected, low, high, strict=True)],
    )
    title = label_probability(found.top_k)
    description = _("Now %(now).0f %%, after %(n)d more judgements %(later).0f %%.") % {
        "now": expected[0],
        "n": ahead[-1] - snapshot.included,
        "later": expected[-1],
    }
    return Figure("certainty", title, f"{title}. {description}", traces, layout, 380, table)
