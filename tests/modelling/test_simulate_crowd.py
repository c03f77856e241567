"""`simulate_crowd`: what its ledger says is stored, nobody takes it for people, and it stays where it may be."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotation.doors import InProcessDoor
from annotation.models import Judgement, Project, Worker
from modelling.simulated_workers import ATTENTIVE, LEFT, NO_TIME, RANDOM, Sitting, Temper, personas
from tests.commands import CommandLine
from tests.conftest import make_items
from tests.drills.serving import serving

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
        words = ["--url", f"http://127.0.0.1:{port}", "--workers", 5, "--judgements", 60, "--careless", 0.4]
        ended = run("simulate_crowd", "pets", *words, "--ledger", tmp_path / "book.jsonl", "--json")
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
def test_without_a_server_the_application_itself_is_asked_and_the_study_is_marked(
    study: Project, run: CommandLine
) -> None:
    ended = run("simulate_crowd", "pets", "--workers", 3, "--judgements", 12, "--json")
    assert (ended.code, Judgement.objects.filter(source="simulated").count()) == (0, 12), ended.err
    assert (ended.facts["workers"], Worker.objects.count()) == (3, 3)
    study.refresh_from_db()
    assert study.simulated
    assert "simulated a crowd" in [entry.action for entry in study.audit.all()]


@pytest.mark.django_db
def test_ties_are_given_only_where_they_are_offered_and_pairs_that_run_out_are_said(
    project: Project, run: CommandLine
) -> None:
    Project.objects.update(ties_allowed=False)
    ended = run("simulate_crowd", "pets", "--workers", 2, "--judgements", 100, "--ties", 0.9, "--json")
    assert (ended.code, ended.facts["ended"], ended.facts["stored"]) == (1, "no pairs are left", 18)
    assert set(ended.facts["choices"]) <= {"left", "right"}


@pytest.mark.django_db
def test_it_keeps_to_its_rate_and_stops_when_its_time_is_up(project: Project) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    crowd, door = personas(Temper(), 2), lambda: InProcessDoor("localhost", secure=False)
    sitting = Sitting(crowd, "pets", door, clock=lambda: now[0], pause=pause)
    assert sitting.run(9, rate=0.5, seconds=5.0) == NO_TIME
    assert (Judgement.objects.count(), now[0]) == (3, 6.0)


BAD: dict[str, tuple[str, int, str]] = {
    "another machine": ("pets --url http://203.0.113.7:8000", 2, "203.0.113.7 is another machine"),
    "a name of another machine": ("pets --url https://concord.example", 2, "add --yes-really"),
    "a name that begins like ours": ("pets --url http://127.0.0.1.example", 2, "another machine"),
    "a user that looks like ours": ("pets --url http://127.0.0.1@concord.example", 2, "concord.example is another"),
    "no address": ("pets --url file:///etc", 2, "An address such as http://127.0.0.1:8000 is wanted"),
    "no port": ("pets --url http://127.0.0.1:many", 2, "An address such as"),
    "too many": ("pets --judgements 1000000", 2, "--judgements must be from 1 to 100,000"),
    "nobody": ("pets --workers 0", 2, "--workers must be from 1 to 500"),
    "no share": ("pets --careless nan", 2, "--careless must be from 0 to 1"),
    "no folder": ("pets --ledger /nowhere/at/all.jsonl", 2, "There is no folder /nowhere/at"),
    "no project": ("pots", 2, "There is no project called pots."),
    "a study that is not open": ("elsewhere", 1, "elsewhere is draft, so nobody can judge. Open it first"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD)
def test_what_may_not_be_is_refused_and_nobody_has_judged(
    name: str, project: Project, stranger: object, run: CommandLine
) -> None:
    words, code, said = BAD[name]
    ended = run("simulate_crowd", *words.split())
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert (Judgement.objects.count(), Worker.objects.count()) == (0, 0)


@pytest.mark.django_db
def test_a_study_of_people_is_left_alone_unless_that_is_really_meant(
    project: Project, worker: Worker, judge: Any, run: CommandLine
) -> None:
    judge(worker)
    ended = run("simulate_crowd", "pets", "--judgements", 1)
    assert (ended.code, "holds 1 judgements of real people" in ended.err) == (2, True)
    assert run("simulate_crowd", "pets", "--judgements", 1, "--workers", 1, "--yes-really").code == 0
    assert Counter(Judgement.objects.values_list("source", flat=True)) == {"browser": 1, "simulated": 1}


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_away_or_has_no_such_study_is_said(
    project: Project, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelling.simulated_workers.PATIENCE", 0.01)
    away = run("simulate_crowd", "pets", "--url", "http://127.0.0.1:1")
    assert (away.code, "was not answered for 0.01 seconds. 0 simulated" in away.err) == (1, True)
    Project.objects.update(state="paused")
    with serving() as port:
        missing = run("simulate_crowd", "pots", "--url", f"http://127.0.0.1:{port}")
        paused = run("simulate_crowd", "pets", "--url", f"http://127.0.0.1:{port}")
    assert (missing.code, "there is no study at /s/pots/" in missing.err) == (2, True)
    assert (paused.code, "is the study open?" in paused.err) == (1, True)


# The workers themselves ----------------------------------------------------------------------------------------------


def agreement(one: Any, other: Any) -> float:
    """How often two workers prefer the same of two texts, felt without noise."""
    pairs = [(a, b) for a in TEXTS for b in TEXTS if a < b]
    return float(
        np.mean([(one.utility(a) > one.utility(b)) == (other.utility(a) > other.utility(b)) for a, b in pairs])
    )


def test_the_same_seed_is_the_same_crowd_and_another_seed_another() -> None:
    temper = Temper(seed=3, careless=0.5)
    first, again, other = personas(temper, 6), personas(temper, 6), personas(Temper(seed=4, careless=0.5), 6)
    assert [p.kind for p in first] == [p.kind for p in again]
    assert Counter(p.kind for p in first) == {RANDOM: 2, LEFT: 1, ATTENTIVE: 3}
    asked = [(a, b) for a in TEXTS for b in TEXTS if a < b]
    said = [[p.choose(a, b, tie_offered=True) for p in crowd for a, b in asked] for crowd in (first, again, other)]
    assert said[0] == said[1] != said[2]


def test_without_tastes_everybody_agrees_and_with_tastes_they_differ() -> None:
    alike, apart = personas(Temper(tastes=0), 2), personas(Temper(tastes=3), 12)
    assert agreement(*alike) == 1.0
    others = [agreement(apart[0], other) for other in apart[1:]]
    assert 0.5 < np.mean(others) < 0.95


def test_noise_makes_workers_err_and_ties_come_about_as_often_as_asked() -> None:
    texts = [f"word{n} word{n + 1} word{n + 2}" for n in range(0, 600, 3)]
    pairs = list(zip(texts[:100], texts[100:], strict=True))
    steady, guessing = (personas(Temper(tastes=0, noise=noise, ties=0.0), 1)[0] for noise in (0.0, 100.0))
    sure = [steady.choose(a, b, tie_offered=True) for a, b in pairs]
    assert sure == ["left" if steady.utility(a) > steady.utility(b) else "right" for a, b in pairs]
    assert (
        0.3
        < np.mean([guessing.choose(a, b, tie_offered=True) == s for (a, b), s in zip(pairs, sure, strict=True)])
        < 0.7
    )
    crowd = personas(Temper(ties=0.2), 20)
    said = Counter(p.choose(a, b, tie_offered=True) for p in crowd for a, b in pairs)
    assert 0.15 < said["tie"] / said.total() < 0.25
