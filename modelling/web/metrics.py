"""Metrics read from the database at each scrape, so they cover any number of processes and machines."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import DatabaseError
from django.db.models import Count, F, Min
from django.utils import timezone
from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from annotation.models import EventHead, Judgement, JudgementImport, Retraction
from modelling.models import ExportJob, Job, SettingsSearch, StudySimulation, UpdaterBeat, UpdateState, WebhookDelivery

SOCKETS = Gauge("concord_sockets", "Open live pages.", multiprocess_mode="livesum")
JOBS: dict[str, type[Job]] = {"export": ExportJob, "settings search": SettingsSearch, "simulation": StudySimulation}


class DatabaseCollector(Collector):
    """Reads a few rows per study. While the database is unreachable, only `concord_database_up` is reported."""

    def collect(self) -> Iterator[Metric]:
        now = timezone.now()
        try:
            metrics = [*studies(now), *waiting_work(now)]
        except DatabaseError:
            metrics = []
        yield gauge("concord_database_up", "1 if the database answers.", bool(metrics))
        yield from metrics


def gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=float(value))


def by_project(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=["project"])


def studies(now: datetime) -> Iterator[Metric]:
    """The events of each study and how far its model is behind."""
    events = CounterMetricFamily("concord_events", "Judgements and retractions.", labels=["project"])
    for slug, sequence in EventHead.objects.values_list("project__slug", "sequence"):
        events.add_metric([slug], sequence)
    version = by_project("concord_version", "Number of the current version.")
    seconds = by_project("concord_update_seconds", "Seconds of the newest update.")
    lag = by_project("concord_model_lag_events", "Events that are not in the model yet.")
    failures = by_project("concord_update_failures", "Failed attempts since the last success.")
    waiting = by_project("concord_model_waiting_seconds", "Age of the oldest event that is not in the model yet.")
    states = UpdateState.objects.filter(project__head__isnull=False).select_related("current", "project__head")
    for state in states:
        name = [state.project.slug]
        lag.add_metric(name, state.project.head.sequence - state.done_sequence)
        failures.add_metric(name, max(0, state.attempts - (state.lease_until is not None)))
        if state.current is not None:
            version.add_metric(name, state.current.number)
            seconds.add_metric(name, state.current.seconds)
    for slug, at in first_waiting_events():
        waiting.add_metric([slug], max(0.0, (now - at).total_seconds()))
    yield from (events, version, seconds, lag, failures, waiting)


def first_waiting_events() -> Iterator[tuple[str, datetime]]:
    """Each project's slug with the time of the first event that its model has not learned from yet."""
    for kind in (Judgement, Retraction):
        rows: Any = kind.objects.filter(sequence=F("project__update_state__done_sequence") + 1)
        yield from rows.values_list("project__slug", "created_at")


def waiting_work(now: datetime) -> Iterator[Metric]:
    """Jobs, imports and webhook messages that wait, and when an updater last ran."""
    count = GaugeMetricFamily("concord_jobs_waiting", "Jobs that wait or run.", labels=["kind"])
    age = GaugeMetricFamily("concord_oldest_job_seconds", "Age of the oldest job that waits or runs.", labels=["kind"])
    active = [Job.State.WAITING, Job.State.RUNNING]
    ages = {
        name: kind._default_manager.filter(state__in=active).aggregate(n=Count("pk"), oldest=Min("requested_at"))
        for name, kind in JOBS.items()
    }
    running = JudgementImport.objects.filter(state=JudgementImport.State.RUNNING)
    ages["import"] = running.aggregate(n=Count("pk"), oldest=Min("created_at"))
    for name, found in ages.items():
        count.add_metric([name], found["n"])
        age.add_metric([name], (now - found["oldest"]).total_seconds() if found["oldest"] else 0.0)
    count.add_metric(["webhook"], WebhookDelivery.objects.filter(state=WebhookDelivery.State.WAITING).count())
    yield from (count, age)
    beat = UpdaterBeat.objects.order_by("-seen_at").values_list("seen_at", flat=True).first()
    if beat is not None:
        yield gauge("concord_updater_beat_seconds", "Seconds since an updater last ran.", (now - beat).total_seconds())
