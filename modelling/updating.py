"""New judgements become one new snapshot: claim a project that is behind, read, foretell, learn, publish."""

import logging
import time

from django.db import connection, transaction
from django.db.models import Max

from annotation import faults
from annotation.models import Project
from modelling import arrays
from modelling.claiming import Heartbeat, LostClaim, Tell, back_off, claim_one, finish
from modelling.inputs import Inputs, Moment, News, moment_of, read_inputs, read_news
from modelling.learners import Learner
from modelling.model_settings import ModelSettings
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.scoreboard import Sums, entries_of, foretell
from modelling.snapshots import CODE_VERSION, Fitted, Scores, consensus_scores, current_snapshot, describe
from modelling.troubles import FEW_ITEMS, NO_LABELS, NoNumbers
from modelling.versions import tidy

log = logging.getLogger("concord.updater")

MIN_ITEMS = 2
REMEMBERED = 4  # projects whose last published models stay in memory
INSERT_SCORE = (
    "INSERT INTO modelling_consensusscore (snapshot_id, item_id, mean, sd, rank, rank_low, rank_high, top_probability,"
    " polarisation, judgements) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)  # the order of the fields of Scores


_remembered: dict[str, Learner] = {}  # by checksum; taken out while it learns, so nobody meets it half-taught


def run_one(owner: str, only: Project | None = None, tell: Tell | None = None) -> ModelSnapshot | None:
    """Brings one project that is behind up to date; None when there is none or it could not be done."""
    project = claim_one(owner, only)
    if project is None:
        return None
    try:
        return update(project, owner, tell)
    except LostClaim:
        log.warning("another updater took over", extra={"project": project.slug})
    except Exception as error:  # the boundary of a background job: say it, back off, go on with the others
        back_off(project, owner, error)
    return None


def update(project: Project, owner: str, tell: Tell | None = None) -> ModelSnapshot | None:
    """Reads, learns outside any transaction, publishes. With too little to learn from, only says how far it read."""
    laps, moment, heartbeat = Laps(), moment_of(project), Heartbeat(project, owner, tell=tell)
    settings, parent = ModelSettings.of(project.model_settings), current_snapshot(project)
    known = recall(parent)
    news = read_news(parent, moment, known.fitted.item_ids, known.fitted.worker_ids) if parent and known else None
    laps("reading")
    foretold = foretell(known.fitted, known.rivals, news) if known and news else {}
    laps("foretelling")
    source: News | Inputs
    if parent and known and news and may_step(parent, news, settings):
        source, learner = news, known.gone_on(news, settings, heartbeat)
    else:
        heartbeat.say("read")
        source = read_inputs(project, moment)
        if words := too_little_in(source):
            finish(project, owner, moment, current=None, words=words)
            tidy(project)
            return None
        learner = Learner.from_scratch(source, settings, heartbeat)
    laps("learning")
    faults.hit("after_fit")
    snapshot, scores = describe(source, settings, learner.fitted, parent), checked_scores(learner.fitted, settings.seed)
    snapshot.project = project
    laps("ranking")
    stored = arrays.save(project, learner.arrays(), base=snapshot.base)
    snapshot.checksum, snapshot.base = stored.checksum, stored.base
    laps("storing")
    snapshot.seconds, snapshot.diagnostics["seconds"] = laps.total, laps.seconds
    faults.hit("before_pointer")
    publish(snapshot, scores, foretold, owner, moment)
    faults.hit("after_publish")
    remember(snapshot, learner)
    tidy(project)
    return snapshot


class Laps:
    """Seconds of each part of an update, for the page of its version."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def __call__(self, part: str) -> None:
        now = time.perf_counter()
        self.seconds[part], self.last = round(now - self.last, 3), now

    @property
    def total(self) -> float:
        return round(sum(self.seconds.values()), 3)


def recall(parent: ModelSnapshot | None) -> Learner | None:
    """The models of this version: those still in memory, or made again from its arrays, if those are whole."""
    if parent is None:
        return None
    if parent.checksum in _remembered:
        return _remembered.pop(parent.checksum)
    try:
        return Learner.stored_in(arrays.load(parent.project, parent.checksum))
    except arrays.Damaged:
        return None


def remember(snapshot: ModelSnapshot, learner: Learner) -> None:
    """The next update of this project need not read the arrays again."""
    _remembered[snapshot.checksum] = learner
    while len(_remembered) > REMEMBERED:
        del _remembered[next(iter(_remembered))]
    facts = {"project": snapshot.project.slug, "snapshot": snapshot.number, "sequence": snapshot.last_sequence}
    log.info("published", extra=facts)


def may_step(parent: ModelSnapshot, news: News, settings: ModelSettings) -> bool:
    """Same inputs, settings and code, enough workers for every component, and not grown too far beyond the refit."""
    same = (parent.inputs_revision, parent.settings, parent.code_version)
    if same != (news.moment.inputs_revision, settings.as_dict(), CODE_VERSION):
        return False
    refits = ModelSnapshot.objects.filter(project=parent.project, kind=ModelSnapshot.Kind.REFIT)
    last = refits.filter(number__lte=parent.number).latest()
    return (
        len(news.worker_ids) > settings.n_components
        and 0 < news.counts.included < settings.refit_growth * last.included
    )


def too_little_in(inputs: Inputs) -> str:
    """Why there is nothing to learn from, in words; empty if there is."""
    if sum(item.active for item in inputs.items) < MIN_ITEMS:
        return str(FEW_ITEMS)
    return "" if len(inputs.labels) else str(NO_LABELS)


def checked_scores(fitted: Fitted, seed: int) -> Scores:
    """The scores to publish; NoNumbers where one is not a number."""
    scores = consensus_scores(fitted, seed)
    if not scores.are_numbers:
        raise NoNumbers("The fit gave a score that is not a number.")
    return scores


@transaction.atomic
def publish(snapshot: ModelSnapshot, scores: Scores, foretold: dict[str, Sums], owner: str, moment: Moment) -> None:
    """The snapshot, its scores and the pointer to it appear together, or not at all."""
    newest = ModelSnapshot.objects.filter(project=snapshot.project).aggregate(number=Max("number"))["number"]
    snapshot.number = (newest or 0) + 1
    snapshot.save(force_insert=True)
    insert_scores(snapshot, scores)
    ScoreboardEntry.objects.bulk_create(entries_of(snapshot, foretold))
    finish(snapshot.project, owner, moment, current=snapshot)


def insert_scores(snapshot: ModelSnapshot, scores: Scores) -> None:
    """One prepared statement for all rows: a tenth of the time, and of the lock, that model instances would take."""
    with connection.cursor() as cursor:
        cursor.executemany(INSERT_SCORE, [(snapshot.pk, *row) for row in scores.rows()])
