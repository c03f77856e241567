"""How far workers got, and what a study still lacks before it opens."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from annotation.models import Judgement, Project, Recruitment, Worker
from annotation.services.pairs.counts import count_possible_pairs, possible_judgements
from annotation.services.participation.payment import Payment

SETTINGS, RECRUITMENT = "annotation:project_settings", "annotation:recruitment"


@dataclass(frozen=True)
class Stage:
    label: str
    count: int


def count_others(project: Project) -> int:
    """Count the simulated and imported workers, who are not participants."""
    others = project.workers.exclude(state=Worker.State.WITHDRAWN)
    return others.exclude(pk__in=project.workers.participants().values("pk")).count()


def count_stages(project: Project, **conditions: Any) -> list[Stage]:
    """Count the workers at each stage, from arrival to finishing or dropping out, and those with each other outcome."""
    answered = Exists(Judgement.objects.filter(worker=OuterRef("pk")))
    workers = project.workers.participants().filter(**conditions)
    counts = workers.aggregate(
        consented=Count("pk"),
        prepared=Count("pk", filter=Q(preparing=False)),
        judging=Count("pk", filter=Q(answered)),
        finished=Count("pk", filter=Q(state=Worker.State.FINISHED, outcome__in=["", Worker.Outcome.FINISHED])),
    )
    # A study that began before arrivals were counted has workers but no arrivals.
    counted = [n for n in _count_arrivals(project) if n or not counts["consented"]]
    arrived = [] if conditions else [Stage(_("arrived"), n) for n in counted]
    stages = [
        *arrived,
        Stage(_("consented"), counts["consented"]),
        Stage(_("prepared"), counts["prepared"]),
        Stage(_("judged at least one pair"), counts["judging"]),
        Stage(_("finished"), counts["finished"]),
        Stage(_("dropped out"), workers.activity_counts(timezone.now())["dropped_out"]),
    ]
    others = workers.exclude(outcome__in=["", Worker.Outcome.FINISHED]).values_list("outcome").annotate(n=Count("pk"))
    names = dict(Worker.Outcome.choices)
    return stages + [Stage(str(names[outcome]), n) for outcome, n in sorted(others) if outcome in names]


def _count_arrivals(project: Project) -> list[int]:
    """The number of browsers that opened the welcome page; an empty list for a study without recruitment settings."""
    return list(Recruitment.objects.filter(project=project).values_list("arrivals", flat=True))


@dataclass(frozen=True)
class ChecklistEntry:
    """Something to do, whether it is done, and the view of the page to do it on."""

    text: str
    done: bool
    view: str


def opening_checklist(project: Project, recruitment: Recruitment, payment: Payment) -> list[ChecklistEntry]:
    """List what a researcher should do before paying people, and whether each entry is done."""
    possible = count_possible_pairs(project)
    reachable, room = possible_judgements(project, possible.fewest), possible.total * project.redundancy
    wanted = recruitment.places * project.judgements_per_worker
    entries = [
        ChecklistEntry(_("Consent text"), bool(project.consent.strip()), SETTINGS),
        ChecklistEntry(_("Instructions"), bool(project.instructions.strip()), SETTINGS),
        ChecklistEntry(
            _("Enough pairs for %(quota)d judgements per worker") % {"quota": project.judgements_per_worker},
            reachable >= project.judgements_per_worker,
            "annotation:items",
        ),
        ChecklistEntry(_describe_places(wanted, room), 0 < wanted <= room, RECRUITMENT),
        ChecklistEntry(
            _("Pay of at least the minimum per hour"), payment.per_hour is not None and not payment.too_low, RECRUITMENT
        ),
        ChecklistEntry(_("Pilot: at least one worker has finished"), payment.n_timed > 0, RECRUITMENT),
    ]
    if recruitment.platform:
        has_code = Worker.Outcome.FINISHED in recruitment.codes
        entries.append(ChecklistEntry(_("Code for workers who finished"), has_code, RECRUITMENT))
    if recruitment.platform == Recruitment.Platform.PROLIFIC:
        entries.append(ChecklistEntry(_("ID of the study on Prolific"), bool(recruitment.study_id), RECRUITMENT))
    return entries


def _describe_places(wanted: int, room: int) -> str:
    if not wanted:
        return _("Number of workers")
    counts = {"wanted": number_format(wanted, force_grouping=True), "room": number_format(room, force_grouping=True)}
    return _("Number of workers: %(wanted)s judgements planned, %(room)s possible") % counts
