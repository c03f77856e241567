"""`simulate_crowd` stores what its ledger says, marks everything as simulated and stays on this machine."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.handlers.wsgi import WSGIHandler

from annotation.models import Judgement, Project, Worker
from modelling.simulation.http_client import InProcessClient
from modelling.simulation.workers import ATTENTIVE, LEFT, NO_TIME, RANDOM, CrowdParameters, CrowdRun, build_crowd
from tests.conftest import make_items
from tests.helpers.commands import CommandLine
from tests.helpers.serving import serving

TEXTS = [f"{first} {second}." for first in ("Cats", "Dogs", "Birds", "Fish") for second in ("purr", "run", "eat")]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def study(project: Project) -> Project:
    """Nineteen texts, 66 pairs among the twelve of one group."""
    make_items(project, TEXTS, "animals")
    return project


def stored() -> dict[str, tuple[str, str]]:
    rows = Judgement.objects.select_related("assignment")
    return {str(row.uuid): (str(row.assignment.public_id), row.choice_shown) for row in rows}


def ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.django_db(transaction=True)
def test_a_running_server_stores_exactly_what_the_ledger_says(study: Project, run: CommandLine, tmp_path: Path) -> None:
    with serving() as port:
        arguments = ["--url", f"http://127.0.0.1:{port}", "--workers", 5, "--judgements", 60, "--careless", 0.4]
        ended = run("simulate_crowd", "pets", *arguments, "--ledger", tmp_path / "book.jsonl", "--json")
    assert (ended.code, ended.facts["stored"], ended.facts["refused"]) == (0, 60, 0), ended.err
    entries = ledger(tmp_path / "book.jsonl")
    assert stored() == {entry["uuid"]: (entry["assignment"], entry["choice"]) for entry in entries}
    assert ended.facts["choices"] == dict(Counter(entry["choice"] for entry in entries))
    assert ended.facts["careless"] == {"random": 1, "always_left": 1}
    assert {entry["choice"] for entry in entries if entry["kind"] == LEFT} == {"left"}
    assert set(Judgement.objects.values_list("source", flat=True)) == {"simulated"}
    assert all(worker.simulated for worker in Worker.objects.all())
    assert run("verify", "pets").code == 0


@pytest.mark.django_db
def test_without_a_url_the_crowd_judges_in_process_and_the_study_is_marked(study: Project, run: CommandLine) -> None:
    ended = run("simulate_crowd", "pets", "--workers", 3, "--judgements", 12, "--json")
    assert (ended.code, Judgement.objects.filter(source="simulated").count()) == (0, 12), ended.err
    assert (ended.facts["workers"], Worker.objects.count()) == (3, 3)
    study.refresh_from_db()
    assert study.simulated
    assert "simulated a crowd" in [entry.action for entry in study.audit.all()]


@pytest.mark.django_db
def test_ties_are_given_only_if_offered_and_running_out_of_pairs_is_reported(
    project: Project, run: CommandLine
) -> None:
    Project.objects.update(ties_allowed=False)
    ended = run("simulate_crowd", "pets", "--workers", 2, "--judgements", 100, "--ties", 0.9, "--json")
    assert (ended.code, ended.facts["ended"], ended.facts["stored"]) == (1, "no pairs are left", 18)
    assert set(ended.facts["choices"]) <= {"left", "right"}


@pytest.mark.django_db
def test_a_run_keeps_to_its_rate_and_time_limit(project: Project) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    application, crowd = WSGIHandler(), build_crowd(CrowdParameters(), 2)
    run = CrowdRun(
        crowd,
        "pets",
        lambda: InProcessClient(application, "localhost", secure=False),
        clock=lambda: now[0],
        pause=pause,
    )
    assert run.run(9, rate=0.5, seconds=5.0) == NO_TIME
    assert (Judgement.objects.count(), now[0]) == (3, 6.0)


BAD: dict[str, tuple[str, int, str]] = {
    "another machine": ("pets --url http://203.0.113.7:8000", 2, "203.0.113.7 is another machine"),
    "a name of another machine": ("pets --url https://concord.example", 2, "add --yes-really"),
    "a name that begins with a loopback address": ("pets --url http://127.0.0.1.example", 2, "another machine"),
    "a loopback address as user name": ("pets --url http://127.0.0.1@concord.example", 2, "concord.example is another"),
    "no address": ("pets --url file:///etc", 2, "is not an address such as http://127.0.0.1:8000"),
    "no port": ("pets --url http://127.0.0.1:many", 2, "is not an address such as"),
    "too many": ("pets --judgements 1000000", 2, "--judgements must be from 1 to 100,000"),
    "no workers": ("pets --workers 0", 2, "--workers must be from 1 to 500"),
    "not a share": ("pets --careless nan", 2, "--careless must be from 0 to 1"),
    "no folder": ("pets --ledger /nowhere/at/all.jsonl", 2, "There is no folder /nowhere/at"),
    "no project": ("pots", 2, "There is no project called pots."),
    "a study that is not open": ("elsewhere", 1, "elsewhere is draft. Open it first"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD)
def test_invalid_options_are_refused_and_nothing_is_judged(
    name: str, project: Project, stranger: object, run: CommandLine
) -> None:
    arguments, code, message = BAD[name]
    ended = run("simulate_crowd", *arguments.split())
    assert (ended.code, message in ended.err) == (code, True), ended.err
    assert (Judgement.objects.count(), Worker.objects.count()) == (0, 0)


@pytest.mark.django_db
def test_a_study_with_judgements_of_people_needs_yes_really(
    project: Project, worker: Worker, judge: Any, run: CommandLine
) -> None:
    judge(worker)
    ended = run("simulate_crowd", "pets", "--judgements", 1)
    assert (ended.code, "has 1 judgements by real people" in ended.err) == (2, True)
    assert run("simulate_crowd", "pets", "--judgements", 1, "--workers", 1, "--yes-really").code == 0
    assert Counter(Judgement.objects.values_list("source", flat=True)) == {"browser": 1, "simulated": 1}


@pytest.mark.django_db(transaction=True)
def test_an_unreachable_server_and_a_missing_study_are_reported(
    project: Project, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelling.simulation.workers.PATIENCE", 0.01)
    away = run("simulate_crowd", "pets", "--url", "http://127.0.0.1:1")
    assert (away.code, "did not respond for 0.01 seconds. 0 simulated" in away.err) == (1, True)
    Project.objects.update(state="paused")
    with serving() as port:
        missing = run("simulate_crowd", "pots", "--url", f"http://127.0.0.1:{port}")
        paused = run("simulate_crowd", "pets", "--url", f"http://127.0.0.1:{port}")
    assert (missing.code, "there is no study at /s/pots/" in missing.err) == (2, True)
    assert (paused.code, "is the study open?" in paused.err) == (1, True)


# Simulated workers ----------------------------------------------------------------------------------------------


def agreement(one: Any, other: Any) -> float:
    """How often two workers prefer the same text, without noise."""
    pairs = [(a, b) for a in TEXTS for b in TEXTS if a < b]
    return float(
        np.mean([(one.utility(a) > one.utility(b)) == (other.utility(a) > other.utility(b)) for a, b in pairs])
    )


def test_the_seed_determines_the_crowd() -> None:
    parameters = CrowdParameters(seed=3, careless=0.5)
    first, again = build_crowd(parameters, 6), build_crowd(parameters, 6)
    other = build_crowd(CrowdParameters(seed=4, careless=0.5), 6)
    assert [p.kind for p in first] == [p.kind for p in again]
    assert Counter(p.kind for p in first) == {RANDOM: 2, LEFT: 1, ATTENTIVE: 3}
    pairs = [(a, b) for a in TEXTS for b in TEXTS if a < b]
    answers = [[p.choose(a, b, tie_offered=True) for p in crowd for a, b in pairs] for crowd in (first, again, other)]
    assert answers[0] == answers[1] != answers[2]


def test_workers_agree_without_tastes_and_differ_with_them() -> None:
    alike, apart = build_crowd(CrowdParameters(tastes=0), 2), build_crowd(CrowdParameters(tastes=3), 12)
    assert agreement(*alike) == 1.0
    others = [agreement(apart[0], other) for other in apart[1:]]
    assert 0.5 < np.mean(others) < 0.95


def test_noise_causes_errors_and_ties_are_about_as_frequent_as_requested() -> None:
    texts = [f"word{n} word{n + 1} word{n + 2}" for n in range(0, 600, 3)]
    pairs = list(zip(texts[:100], texts[100:], strict=True))
    steady, guessing = (build_crowd(CrowdParameters(tastes=0, noise=noise, ties=0.0), 1)[0] for noise in (0.0, 100.0))
    sure = [steady.choose(a, b, tie_offered=True) for a, b in pairs]
    assert sure == ["left" if steady.utility(a) > steady.utility(b) else "right" for a, b in pairs]
    assert (
        0.3
        < np.mean([guessing.choose(a, b, tie_offered=True) == s for (a, b), s in zip(pairs, sure, strict=True)])
        < 0.7
    )
    crowd = build_crowd(CrowdParameters(ties=0.2), 20)
    choices = Counter(p.choose(a, b, tie_offered=True) for p in crowd for a, b in pairs)
    assert 0.15 < choices["tie"] / choices.total() < 0.25
