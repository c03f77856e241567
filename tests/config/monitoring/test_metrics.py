"""/metrics: only with the token, right for several web processes, and while the database is away."""

import json
import logging
import os
import re
import signal
import stat
import urllib.request
from pathlib import Path

import pytest
from django.db import DatabaseError
from django.test import Client

from annotation.models import Project, Worker
from benchmarks.load.client import LoadClient
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import ROOT, Installation, descendants
from benchmarks.load.waiting import wait_until
from config.monitoring.process_metrics import ErrorCounter, measure_request, request_kind
from modelling.management.commands import serve
from modelling.models import ExportJob
from modelling.updater.leases import record_heartbeat
from modelling.web import metrics
from tests.browser.helpers.remote_server import RemoteServer, server_profile
from tests.modelling.samples.studies import make_version

TOKEN = "a long token"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"


def scrape(text: str) -> dict[str, float]:
    """The samples by name with labels, as in the text format."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_counts_are_shared_in_memory_so_that_a_full_disk_kills_no_process(
    settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped file that grows on a full disk ends its process with SIGBUS."""
    settings.DATA_DIR = tmp_path
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    monkeypatch.setattr(serve, "MEMORY_FOLDER", str(tmp_path / "memory"))
    (tmp_path / "memory").mkdir()
    folders = []
    for _ in range(2):
        serve.share_metrics()
        folders.append(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
        (folders[-1] / "counter_1.db").touch()
    assert [folder.parent.name for folder in folders] == ["memory", "memory"]
    assert [folder.exists() for folder in folders] == [False, True], "the next start removes what the last one left"
    assert stat.S_IMODE(folders[1].stat().st_mode) == 0o700
    monkeypatch.setattr(serve, "MEMORY_FOLDER", str(tmp_path / "none"))
    serve.share_metrics()
    assert Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).parent == tmp_path


def get(client: Client) -> dict[str, float]:
    return scrape(client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text)


@pytest.mark.django_db
@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"bearer {TOKEN} "])
def test_metrics_need_the_token(client: Client, settings, sent: str) -> None:
    assert client.get("/metrics", headers={"authorization": "Bearer "}).status_code == 404, "no token is configured"
    settings.METRICS_TOKEN = TOKEN
    refused = client.get("/metrics", headers={"authorization": sent})
    assert refused.status_code == 401
    assert b"concord_" not in refused.content


@pytest.mark.django_db
@pytest.mark.both_databases
def test_metrics_tell_how_far_the_model_is_behind(
    client: Client, settings, project: Project, worker: Worker, judge
) -> None:
    settings.METRICS_TOKEN = TOKEN
    make_version(project, 3)
    learned = get(client)['concord_events_total{project="pets"}']
    for _ in range(2):
        judge(worker)
    ExportJob.objects.create(project=project, what="judgements", format="csv", sequence=1)
    record_heartbeat()
    found = get(client)
    assert found['concord_events_total{project="pets"}'] == learned + 2
    assert found['concord_model_lag_events{project="pets"}'] == 2
    assert 0 <= found['concord_model_waiting_seconds{project="pets"}'] < 600
    assert found['concord_version{project="pets"}'] == 3
    assert found['concord_update_seconds{project="pets"}'] > 0
    assert found['concord_update_failures{project="pets"}'] == 0
    assert found['concord_jobs_waiting{kind="export"}'] == 1
    assert 0 <= found["concord_updater_beat_seconds"] < 600
    assert found["concord_database_up"] == 1


@pytest.mark.django_db
def test_without_the_database_only_its_absence_is_reported(
    client: Client, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(now: object) -> None:
        raise DatabaseError

    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(metrics, "studies", fail)
    found = get(client)
    assert found["concord_database_up"] == 0
    assert not any(name.startswith("concord_version") for name in found)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/healthz", "health"), ("/s/a/judgements/", "judgement"), ("/s/a/task/", "task"), ("/s/a/join/", "join"),
        ("/api/v1/projects/a/judgements/", "api"), ("/static/concord.css", "static"), ("/projects/a/ranking/", "page"),
    ],
)  # fmt: skip
def test_requests_are_grouped_by_kind(path: str, kind: str) -> None:
    assert request_kind(path) == kind


@pytest.mark.django_db
def test_requests_and_errors_are_counted(client: Client, settings) -> None:
    settings.METRICS_TOKEN = TOKEN
    name = 'concord_request_seconds_count{kind="join",status="302"}'
    before = get(client).get(name, 0)
    with measure_request("/s/pets/join/") as measurement:
        measurement.status = 302
        assert get(client)['concord_requests_in_progress{kind="join"}'] == 1
    ErrorCounter().emit(logging.LogRecord("concord.test", logging.ERROR, __file__, 1, "x", (), None))
    found = get(client)
    assert found[name] == before + 1
    assert found['concord_requests_in_progress{kind="join"}'] == 0
    assert found['concord_log_errors_total{logger="concord.test"}'] == 1


class MeasuredServer(RemoteServer):
    def environment(self) -> dict[str, str]:
        return super().environment() | {"ALLOWED_HOSTS": "127.0.0.1", "METRICS_TOKEN": TOKEN}

    is_ready = Installation.is_ready

    def scrape(self) -> dict[str, float]:
        asked = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, timeout=60) as response:
            return scrape(response.read().decode())


@pytest.mark.slow
def test_several_web_processes_are_counted_together(tmp_path: Path) -> None:
    with server_profile(tmp_path, MeasuredServer) as server, server:
        server.run_python("from benchmarks.load.study import make_study; make_study('drill', items=20)")
        server.start("--no-updater", "--workers", "3")
        crowd = Crowd(server, "drill", 6, seed=1)
        crowd.join()
        crowd.run(40)
        stored = 'concord_request_seconds_count{kind="judgement",status="201"}'
        assert {server.scrape()[stored] for _ in range(9)} == {40}, "whichever process answers"
        victim = max(descendants(server.process.pid))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(live_gauges(server)) and victim not in live_gauges(server), 120, "the dead still count")
        LoadClient(server.port, "drill", server.headers, seed=9).join()
        assert server.scrape()[stored] == 40, "what the killed process had counted is still there"
        assert server.scrape()['concord_events_total{project="drill"}'] == 40


def live_gauges(server: MeasuredServer) -> set[int]:
    server.scrape()
    return {int(path.stem.rsplit("_", 1)[1]) for path in (server.folder / "metrics").glob("gauge_live*")}


@pytest.mark.django_db
def test_the_dashboard_asks_only_for_metrics_that_exist(client: Client, settings, project: Project) -> None:
    settings.METRICS_TOKEN = TOKEN
    make_version(project, 1)
    record_heartbeat()
    with measure_request("/"):
        pass
    text = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    asked = set(re.findall(r"\bconcord_\w+", " ".join(expressions)))
    assert len(panels) >= 10
    assert {name for name in asked if f"# TYPE {re.sub('_(bucket|count|sum)$', '', name)} " not in text} == set()
