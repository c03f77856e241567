"""The contents of a report: all from one version, and computed by the same functions as the pages."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Min
from django.utils.formats import number_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from annotation.models import Item, Judgement, Project, StudyPassport, WorkerExclusion
from annotation.models.arms import describe_arms
from annotation.services.participation.passport import get_passport, list_changes
from modelling.dashboards.claims import ClaimsPage, claims_page
from modelling.dashboards.common.figures import Figure
from modelling.dashboards.common.judgements import worker_tally
from modelling.dashboards.common.ranked_entries import RankedEntry, ranked_entries
from modelling.dashboards.common.warnings import MIN_JUDGEMENTS, ResultWarning, find_warnings
from modelling.dashboards.components import ComponentsPage, components_page
from modelling.dashboards.model.versions import VersionPage, version_page
from modelling.dashboards.planning.stopping import StoppingPage, stopping_page
from modelling.dashboards.ranking import RankingPage, RankingQuery, part_options, ranking_page
from modelling.dashboards.reliability import ReliabilityPage, reliability_page
from modelling.models import ModelSnapshot
from modelling.training.votes import get_votes, training_judgements

MAX_ROWS = 150  # of the ranking; longer ones show the best of each part
MAX_TEXT = 120  # characters in tables; longer texts are in the appendix
MAX_GROUPS = 4  # groups whose claims are listed in full; with more, only each group's first sentence
MAX_FIGURES = 4  # parts with a figure of their own; more parts share one
DESIGN = (
    "pairs", "redundancy", "judgements_per_worker", "ties_allowed", "repeat_share", "suggestions", "random_share",
    "top_k", "attention_checks", "gold_checks", "answers_wanted",
)  # fmt: skip


@dataclass(frozen=True)
class ReportRow:
    """One item of the ranking."""

    entry: RankedEntry
    item: Item


@dataclass(frozen=True)
class ReportPart:
    """A part of the comparison graph, with its best items; items without judgements have no part."""

    label: str
    rows: list[ReportRow]
    figure: Figure | None


@dataclass(frozen=True)
class Sample:
    """Counts of workers and judgements in the version; `first` and `last` leave out imported judgements."""

    workers: int
    least_per_worker: int
    most_per_worker: int
    least_per_item: int
    most_per_item: int
    first: datetime | None
    last: datetime | None
    sources: list[tuple[str, int]]
    simulated: int
    imported: int


@dataclass(frozen=True)
class Exclusions:
    """Workers whom the version leaves out, by the reason that the researcher gave."""

    workers: int
    reasons: list[tuple[str, int]]


@dataclass(frozen=True)
class GroupClaims:
    """What is safe to claim about a group of items."""

    name: str
    sentences: list[str]
    n_claims: int
    n_pairs: int


@dataclass(frozen=True)
class Report:
    """Everything that a report shows: `parts` holds the ranking rows, `appendix` the items with shortened texts."""

    project: Project
    snapshot: ModelSnapshot
    version: VersionPage
    design: list[tuple[str, str]]
    arms: list[dict[str, Any]]
    passport: StudyPassport
    plan_changes: int
    sample: Sample
    reliability: ReliabilityPage
    ranking: RankingPage
    parts: list[ReportPart]
    n_items: int
    components: ComponentsPage
    claims: list[GroupClaims]
    stopping: StoppingPage | None
    warnings: list[ResultWarning]
    few: int
    enough: int
    exclusions: Exclusions
    appendix: list[Item]
    max_text: int = MAX_TEXT

    @property
    def shown_items(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    @property
    def is_complete(self) -> bool:
        """Whether every ranked item is in the table."""
        return self.shown_items == self.n_items

    @property
    def has_claims(self) -> bool:
        return any(group.n_claims for group in self.claims)

    @property
    def hyperparameters(self) -> str:
        return "; ".join(f"{row.label} = {row.value}" for row in self.version.hyperparameters)

    @property
    def has_suggestions(self) -> bool:
        return self.reliability.suggested > 0


def build_report(snapshot: ModelSnapshot) -> Report:
    """Collect the report's contents; raise DamagedArrays if the version's arrays are gone."""
    project, entries = snapshot.project, list(ranked_entries(snapshot).values())
    parts, components = _parts(snapshot, entries), components_page(snapshot)
    passport = get_passport(project)
    few = sum(each.judgements < MIN_JUDGEMENTS for each in entries)
    return Report(
        project=project,
        snapshot=snapshot,
        version=version_page(snapshot),
        design=design_rows(project),
        arms=describe_arms(project),
        passport=passport,
        plan_changes=len(list_changes(passport)),
        sample=get_sample(snapshot, entries),
        reliability=reliability_page(snapshot),
        ranking=ranking_page(snapshot, RankingQuery()),
        parts=parts,
        n_items=len(entries),
        components=components,
        claims=group_claims(snapshot),
        stopping=stopping_page(snapshot),
        warnings=find_warnings(snapshot),
        few=few,
        enough=MIN_JUDGEMENTS,
        exclusions=get_exclusions(snapshot),
        appendix=_cut_items(parts, components),
    )


def design_rows(project: Project) -> list[tuple[str, str]]:
    """The study's settings, labelled as on the settings page, without those that have no effect."""
    unused = {name for name in ("random_share",) if project.suggestions == Project.Suggestions.NONE}
    unused |= {name for name in ("answers_wanted",) if not project.answers_wanted}
    return [
        (capfirst(str(Project._meta.get_field(name).verbose_name)), _format(project, name))  # type: ignore[union-attr]
        for name in DESIGN
        if name not in unused
    ]


def _format(project: Project, name: str) -> str:
    value = getattr(project, name)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    display = getattr(project, f"get_{name}_display", None)
    return str(display()) if display else number_format(value, force_grouping=True)


def get_sample(snapshot: ModelSnapshot, entries: list[RankedEntry]) -> Sample:
    judged = [n for n in worker_tally(snapshot).judgements.tolist() if n]
    per_item, judgements = [each.judgements for each in entries], training_judgements(snapshot).order_by()
    here = judgements.exclude(source=Judgement.Source.IMPORT)
    ends = here.aggregate(first=Min("created_at"), last=Max("created_at"))
    counts = Counter(judgements.values_list("source", flat=True))
    sources = [(str(label), counts[value]) for value, label in Judgement.Source.choices if counts[value]]
    return Sample(
        workers=len(judged),
        least_per_worker=min(judged, default=0),
        most_per_worker=max(judged, default=0),
        least_per_item=min(per_item, default=0),
        most_per_item=max(per_item, default=0),
        first=ends["first"],
        last=ends["last"],
        sources=sources,
        simulated=counts[Judgement.Source.SIMULATED],
        imported=counts[Judgement.Source.IMPORT],
    )


def get_exclusions(snapshot: ModelSnapshot) -> Exclusions:
    in_force = WorkerExclusion.objects.in_force(snapshot.project_id, snapshot.inputs_revision)
    reasons = Counter(in_force.values_list("reason", flat=True))
    return Exclusions(reasons.total(), sorted(reasons.items(), key=lambda each: (-each[1], each[0])))


def _parts(snapshot: ModelSnapshot, entries: list[RankedEntry]) -> list[ReportPart]:
    """The ranked items by part: all of them, or the best of each part if there are too many."""
    members: dict[str, list[RankedEntry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.list_number, entry.rank or 0)):
        members[str(entry.list_number) if entry.rank is not None else ""].append(entry)
    unplaced = members.pop("", [])
    each = len(entries) if len(entries) <= MAX_ROWS else max(1, MAX_ROWS // max(len(members), 1))
    labels = dict(part_options(get_votes(snapshot)))
    chosen = {part: rows[:each] for part, rows in list(members.items())[:MAX_ROWS]}
    if unplaced and len(entries) <= MAX_ROWS:
        chosen[""], labels[""] = unplaced, _("Items without judgements")
    items = Item.objects.in_bulk([entry.item_id for rows in chosen.values() for entry in rows])
    own_figures = len(members) <= MAX_FIGURES
    return [
        ReportPart(
            labels.get(part, ""),
            [ReportRow(entry, items[entry.item_id]) for entry in rows],
            part_figure(snapshot, part) if own_figures and part else None,
        )
        for part, rows in chosen.items()
    ]


def part_figure(snapshot: ModelSnapshot, part: str) -> Figure | None:
    """The ranking page's first figure for one part."""
    return next(iter(ranking_page(snapshot, RankingQuery(part=part)).figures), None)


def group_claims(snapshot: ModelSnapshot) -> list[GroupClaims]:
    """The claims about every group; with more than MAX_GROUPS, only each group's first sentence."""
    first = claims_page(snapshot)
    if first is None:
        return []
    pages: list[ClaimsPage] = [page for name in first.groups if (page := claims_page(snapshot, name))]
    most = None if len(pages) <= MAX_GROUPS else 1
    return [GroupClaims(page.group, page.sentences[:most], page.n_claims, page.n_pairs) for page in pages]


def _cut_items(parts: list[ReportPart], components: ComponentsPage) -> list[Item]:
    """The items whose text is cut in a table, in the order of the report."""
    in_tables = [row.item for part in parts for row in part.rows]
    at_ends = [there.item for each in components.components for _title, end in each.ends for there in end.items]
    unique = {item.pk: item for item in [*in_tables, *at_ends]}
    return [item for item in unique.values() if len(item.text) > MAX_TEXT]
