"""The claims page: sentences that are safe to claim together, simultaneous tiers, bridging and divisive items."""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Item, Project
from modelling.findings.versions import Findings, GroupFindings, get_findings
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.components.axes import ComponentAxis, load_component_axes

TOPS = (1, 3, 5, 10)  # and the study's own number of top items
MAX_COMPARED, MAX_NAMED = 10, 12  # sentences “A is above B”, and items named in one sentence
SHOWN_ITEMS, SHOWN_TIERS = 10, 100


@dataclass(frozen=True)
class ClaimedItem:
    """An item with its tier and range of ranks."""

    item: Item
    tier: int
    rank_low: int
    rank_high: int


@dataclass(frozen=True)
class BridgingItem:
    """An item with its lowest preference among the taste groups, or with its polarisation."""

    item: Item
    rank: int
    lowest: float
    low: float
    high: float
    group: str
    polarisation: float


@dataclass(frozen=True)
class ClaimsPage:
    groups: list[str]
    group: str
    sentences: list[str]
    items: list[ClaimedItem]
    n_claims: int
    n_pairs: int
    bridging: list[BridgingItem]
    divisive: list[BridgingItem]
    n_taste_groups: int
    n_parts: int

    @property
    def shown(self) -> list[ClaimedItem]:
        return self.items[:SHOWN_TIERS]

    @property
    def n_tiers(self) -> int:
        return max((each.tier for each in self.items), default=0)


def claims_page(snapshot: ModelSnapshot, group: str = "") -> ClaimsPage | None:
    """The claims about one group; None if no group has claims."""
    findings = get_findings(snapshot)
    chosen = findings.group(group)
    if chosen is None:
        return None
    n, claims = len(chosen.items), chosen.claims
    rows = zip(chosen.items, claims.tier.tolist(), claims.rank_low.tolist(), claims.rank_high.tolist(), strict=True)
    bridging = bridging_items(snapshot, findings, chosen)
    return ClaimsPage(
        groups=sorted(each.name for each in findings.groups),
        group=chosen.name,
        sentences=safe_sentences(chosen, snapshot.project),
        items=[ClaimedItem(*row) for row in rows],
        n_claims=int(claims.above.sum()),
        n_pairs=n * (n - 1) // 2,
        bridging=sorted(bridging, key=lambda each: -each.lowest)[:SHOWN_ITEMS],
        divisive=sorted(bridging, key=lambda each: -each.polarisation)[:SHOWN_ITEMS],
        n_taste_groups=len(findings.taste_groups),
        n_parts=chosen.n_parts,
    )


def safe_sentences(chosen: GroupFindings, project: Project) -> list[str]:
    """Sentences that are all true together with 95% probability, strongest first."""
    return [*_top_sentences(chosen, project.top_k), *_comparisons(chosen)]


def _top_sentences(chosen: GroupFindings, top_k: int) -> list[str]:
    n, worst = len(chosen.items), chosen.claims.rank_high
    sentences, n_named = list[str](), 0
    for k in sorted({*TOPS, top_k}):
        names = [item.key for item, high in zip(chosen.items, worst.tolist(), strict=True) if high <= k]
        if k >= n or len(names) <= n_named:
            continue
        n_named = len(names)
        if k == 1:
            sentences.append(_("“%(item)s” is first.") % {"item": names[0]})
        elif len(names) == 1:
            sentences.append(_("“%(item)s” is in the top %(k)d.") % {"item": names[0], "k": k})
        elif len(names) == k:
            sentences.append(_("The top %(k)d are, in any order: %(items)s.") % {"k": k, "items": join(names)})
        else:
            sentences.append(_("All of these are in the top %(k)d: %(items)s.") % {"k": k, "items": join(names)})
    return sentences


def _comparisons(chosen: GroupFindings) -> list[str]:
    """Compare the first MAX_COMPARED items that are above any other with the best item below each."""
    sentences = []
    for place, item in enumerate(chosen.items):
        below = chosen.claims.above[place].nonzero()[0]
        if not len(below):
            continue
        best, others = chosen.items[int(below[0])], len(below) - 1
        facts = {"item": item.key, "other": best.key, "n": others}
        if others:
            sentences.append(
                ngettext(
                    "“%(item)s” is above “%(other)s” and %(n)d other item.",
                    "“%(item)s” is above “%(other)s” and %(n)d other items.",
                    others,
                )
                % facts
            )
        else:
            sentences.append(_("“%(item)s” is above “%(other)s”.") % facts)
        if len(sentences) == MAX_COMPARED:
            break
    return sentences


def join(names: list[str]) -> str:
    shown = ", ".join(f"“{name}”" for name in names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return shown if more <= 0 else _("%(shown)s and %(n)d more") % {"shown": shown, "n": more}


def bridging_items(snapshot: ModelSnapshot, findings: Findings, chosen: GroupFindings) -> list[BridgingItem]:
    """The group's items with their lowest preference among the taste groups; empty if no tastes are known."""
    found = chosen.bridging
    if found is None:
        return []
    axes = load_component_axes(snapshot).axes
    titles = [end_title(axes[each.component], high=each.high) for each in findings.taste_groups]
    scores = ConsensusScore.objects.filter(snapshot=snapshot, item__in=chosen.items)
    polarisation = dict(scores.values_list("item", "polarisation"))
    columns = (found.lowest.tolist(), found.low.tolist(), found.high.tolist(), found.group.tolist())
    return [
        BridgingItem(item, rank, lowest, low, high, titles[group], polarisation.get(item.pk, 0.0))
        for rank, (item, lowest, low, high, group) in enumerate(zip(chosen.items, *columns, strict=True), start=1)
    ]


def end_title(axis: ComponentAxis, *, high: bool) -> str:
    """Title of one end of a component: its name or number, and that end's words."""
    words = axis.words_high if high else axis.words_low
    end = ", ".join(words[:2]) or (_("high end") if high else _("low end"))
    return f"{axis.label}: {end}"
