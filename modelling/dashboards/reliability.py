"""The reliability page: reliability measures with their definitions, and the items and workers that fit worst."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Item, Project
from modelling.models import ModelSnapshot
from modelling.training.reliability import Estimate
from modelling.training.reliability.random_share import LEAST_PER_ITEM
from modelling.training.reliability.versions import MAX_JUDGEMENTS, MemberFit, VersionReliability, get_reliability

SHOWN_MEMBERS = 10
ONLY_WITH_SUGGESTIONS = ("reliability_random", "reliability_projected")
LABELS: dict[str, tuple[Any, Any]] = {  # name and definition, in the order of the page
    "ssr": (
        gettext_lazy("Scale separation reliability (SSR)"),
        gettext_lazy(
            "1 − mean(se²) / var(score): the share of the variance of the Bradley-Terry scores that is not error. "
            "The interval treats the items as a random sample. n: items."
        ),
    ),
    "separation": (
        gettext_lazy("Separation G"),
        gettext_lazy("√(SSR / (1 − SSR)): the spread of the scores in units of their error. n: items."),
    ),
    "reliability_random": (
        gettext_lazy("Reliability of random pairs"),
        gettext_lazy(
            "1 − error / var(score) of scores from the random pairs alone (one Newton step from equal scores), which "
            "suggested pairs cannot inflate. It covers the random share only, so it is lower than for all judgements. "
            "For random answers it is around 0, sometimes below. n: items."
        ),
    ),
    "reliability_projected": (
        gettext_lazy("Reliability of random pairs, projected"),
        gettext_lazy(
            "The variance of the true scores, estimated from the random pairs, relative to its sum with the error of "
            "the scores of all judgements. Report this one where pairs were suggested. Missing unless the random pairs "
            "rule out random answers (p < 0.005)."
        ),
    ),
    "split_half": (
        gettext_lazy("Split-half correlation"),
        gettext_lazy(
            "Workers are split into two random halves 100 times; the median correlation of the scores of both halves, "
            "with the range of 95 % of the splits. n: workers."
        ),
    ),
    "split_half_spearman_brown": (
        gettext_lazy("Split-half, Spearman-Brown"),
        gettext_lazy("2r / (1 + r): the split-half correlation r, corrected for the size of the whole crowd."),
    ),
    "alpha": (
        gettext_lazy("Krippendorff's alpha"),
        gettext_lazy(
            "Agreement of workers on the same pair beyond chance, nominal, first answers only; 1 is perfect, 0 is "
            "chance. The interval is from a bootstrap over pairs. n: pairs judged by several workers."
        ),
    ),
    "self_consistency": (
        gettext_lazy("Self-consistency"),
        gettext_lazy("How often a worker gives the same answer to the same pair again. n: repeated pairs."),
    ),
    "left_share": (
        gettext_lazy("Left chosen"),
        gettext_lazy(
            "Share of the left item among the choices with a known side; an interval that excludes 0.5 shows a bias. "
            "n: judgements."
        ),
    ),
    "order_effect": (
        gettext_lazy("Order effect"),
        gettext_lazy(
            "Agreement with the scores in the last third of each worker's judgements minus that in the first third. "
            "Below 0: workers tire. Without imported judgements, whose order is that of the file. n: judgements in "
            "both thirds."
        ),
    ),
    "tie_rate": (gettext_lazy("Tie rate"), gettext_lazy("Share of ties among all judgements. n: judgements.")),
    "tie_rate_near": (
        gettext_lazy("Tie rate of near items"),
        gettext_lazy("Share of ties in the half of the judgements with the smaller score differences. n: judgements."),
    ),
    "tie_rate_far": (
        gettext_lazy("Tie rate of distant items"),
        gettext_lazy(
            "Share of ties in the other half. If it is as high as for near items, ties are not about similarity."
        ),
    ),
}


@dataclass(frozen=True)
class Measure:
    """A measure with its definition; `reason` says why there is no estimate.

    An `inflated` one is shown for comparison only: suggested pairs raise it, even if every answer is random.
    """

    name: str
    label: str
    definition: str
    estimate: Estimate | None
    reason: str
    inflated: bool


@dataclass(frozen=True)
class MemberRow:
    """The fit of an item or a worker, with the address of its page."""

    fit: MemberFit
    url: str


@dataclass(frozen=True)
class MemberTable:
    """Items or workers with the largest infit, and how many of all exceed their expected range."""

    label: str
    column: str
    shown: list[MemberRow]
    total: int
    misfits: int


@dataclass(frozen=True)
class ReliabilityPage:
    """`suggested` and `random` count the judgements of suggested and of random pairs."""

    measures: list[Measure]
    tables: list[MemberTable]
    suggested: int
    random: int
    arms: ArmFilter


def reliability_page(snapshot: ModelSnapshot, arms: ArmFilter = EVERY_ARM) -> ReliabilityPage:
    """The reliability of a version's judgements, or of those in one arm."""
    found = get_reliability(snapshot, arms.chosen)
    measures = [
        Measure(name, str(label), str(definition), found.measures.get(name), _reason(found, name), inflated)
        for name, (label, definition) in LABELS.items()
        if found.policies.suggested or name not in ONLY_WITH_SUGGESTIONS
        for inflated in [found.is_inflated(name)]
    ]
    measures.sort(key=lambda measure: measure.inflated)
    tables = [
        _table(_("Fit of items"), _("Item"), found.items, _item_urls(snapshot.project, found.items)),
        _table(_("Fit of workers"), _("Worker"), found.workers, _worker_urls(snapshot.project, found.workers)),
    ]
    tables, policies = [table for table in tables if table.total], found.policies
    return ReliabilityPage(measures, tables, policies.suggested, policies.random, arms)


def _reason(found: VersionReliability, name: str) -> str:
    if found.measures.get(name):
        return ""
    if not found.by_worker and name not in found.measures:
        return _("Not computed for more than %(n)d judgements.") % {"n": MAX_JUDGEMENTS}
    if found.too_many_items(name):
        return _("Not computed for this many linked items.")
    if name in ONLY_WITH_SUGGESTIONS and found.policies.random < LEAST_PER_ITEM * len(found.items):
        return _("Not enough judgements of random pairs: at least one per item is needed.")
    if name == "reliability_projected" and found.measures.get("reliability_random"):
        return _("The random pairs do not rule out random answers.")
    ties = found.measures.get("tie_rate")
    if ties and ties.value == 1.0 and name != "self_consistency":
        return _("All answers are ties.")
    return _("Not enough data.")


def _table(label: str, column: str, members: list[MemberFit], urls: dict[str, str]) -> MemberTable:
    shown = [MemberRow(each, urls.get(each.name, "")) for each in members[:SHOWN_MEMBERS]]
    return MemberTable(label, column, shown, len(members), sum(each.misfits for each in members))


def _item_urls(project: Project, members: list[MemberFit]) -> dict[str, str]:
    """The pages of the shown items' newest revisions, by key."""
    keys = [each.name for each in members[:SHOWN_MEMBERS]]
    items = Item.objects.filter(project=project, key__in=keys).order_by("revision").values_list("key", "pk")
    return {key: reverse("modelling:item", args=[project.slug, pk]) for key, pk in items}


def _worker_urls(project: Project, members: list[MemberFit]) -> dict[str, str]:
    shown = members[:SHOWN_MEMBERS]
    return {each.name: reverse("modelling:worker", args=[project.slug, each.name]) for each in shown}
