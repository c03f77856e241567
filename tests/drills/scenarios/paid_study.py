"""The drill of a paid study: participants from Prolific in two arms, of whom some decline, fail, leave or come back.

Everyone acts through the pages of a running server, many at a time. Afterwards the outcome, arm, answers and checks of
every participant, and the cost, are compared with what the participants did and saw.
"""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.load.installation import Installation
from tests.drills.scenarios.participants import (
    CODES,
    QUESTIONS,
    QUOTA,
    REWARD,
    SECRET,
    SLUG,
    STUDY,
    Participant,
    Step,
    StepLog,
)

COUNTED = ("", "finished", "no_work_left")  # outcomes of active and completed workers
REDUNDANCY = 50
ITEMS = {"plain": range(10), "kind": range(4, 14)}  # of each arm; six are in both


def prepare() -> None:
    """Create the study; runs in a process of the installation."""
    from annotation import services
    from annotation.models import Arm, Item, Project
    from annotation.services.participation.arms import change_arms
    from annotation.services.participation.preparation import change_gold, change_preparation
    from annotation.services.participation.recruitment import change_recruitment

    texts = {"title": "A paid study", "question": QUESTIONS["plain"], "consent": "We store answers."}
    settings = {"judgements_per_worker": QUOTA, "redundancy": REDUNDANCY, "attention_checks": 2, "lease_minutes": 600}
    project = services.create_project(owner=None, slug=SLUG, **texts, **settings)
    for number in range(14):
        Item.objects.create(project=project, key=f"item-{number}", text=f"Reason {number}.", group="one")
    change_arms(
        project=project,
        user=None,
        arms=[
            Arm(name="plain", keys=[f"item-{number}" for number in ITEMS["plain"]]),
            Arm(name="kind", question=QUESTIONS["kind"], keys=[f"item-{number}" for number in ITEMS["kind"]]),
        ],
    )
    check = {"question": "Whose view?", "choices": ["The experts'", "Mine"], "answer": 1}
    change_preparation(project=project, user=None, practice=[], comprehension=[check])
    gold = [{"better": f"Gold {number}.", "worse": f"Lead {number}."} for number in range(2)]
    change_gold(project=project, user=None, gold=gold, gold_checks=2, gold_limit=2, gold_consequence="flag")
    values = {"platform": "prolific", "codes": CODES, "webhook_secret": SECRET, "study_id": STUDY, "reward": REWARD}
    change_recruitment(project=project, user=None, changes=values)
    services.change_project(project=project, user=None, changes={"state": Project.State.OPEN})


def report() -> None:
    """Print what the server stored, as JSON; runs in a process of the installation."""
    from annotation.models import Assignment, Judgement, PlatformIdentity, Project
    from annotation.services.participation.arms import summarise_arms
    from annotation.services.participation.arrival import get_recruitment
    from annotation.services.participation.checks import CheckResult, list_results
    from annotation.services.participation.funnel import count_stages
    from annotation.services.participation.passport import get_passport, is_intact
    from annotation.services.participation.payment import summarise_payment
    from annotation.services.verification import find_problems

    project = Project.objects.get(slug=SLUG)
    results, passport = list_results(project), get_passport(project)
    rows = {}
    for identity in PlatformIdentity.objects.filter(project=project).select_related("worker__arm"):
        worker = identity.worker
        judged = Judgement.objects.not_retracted().filter(worker=worker)
        result = results.get(worker.pk, CheckResult())
        rows[identity.external_id] = {
            "arm": worker.arm.name,
            "outcome": worker.outcome,
            "answers": judged.count(),
            "keys": sorted({key for pair in judged.values_list("item_lo__key", "item_hi__key") for key in pair}),
            "attention_failed": result.attention_failed,
            "gold_wrong": result.gold_wrong,
            "flagged": result.flagged,
        }
    slots = Assignment.objects.filter(project=project, slot__isnull=False)
    held = Counter(slots.values_list("item_lo", "item_hi", "worker__arm"))
    facts = {
        "workers": rows,
        "stages": {stage.label: stage.count for stage in count_stages(project)},
        "arms": {
            row.name: [row.assigned, row.present, row.completed, row.judgements] for row in summarise_arms(project)
        },
        "spent": str(summarise_payment(project, get_recruitment(project)).spent),
        "judgements": Judgement.objects.filter(project=project).count(),
        "most_workers_per_pair_and_arm": max(held.values()),
        "passport": is_intact(passport.content, passport.frozen_at.isoformat(), passport.digest),
        "problems": [str(problem) for problem in find_problems(project)],
    }
    print(json.dumps(facts))  # noqa: T201


def drill(installation: Installation, *, participants: int, clients: int) -> dict[str, Any]:
    """Run the study on this empty installation and return the figures."""
    installation.create_tables()
    installation.run_python("from tests.drills.scenarios.paid_study import prepare; prepare()")
    log, began = StepLog(), time.perf_counter()
    with installation:
        installation.start()
        with ThreadPoolExecutor(clients) as pool:
            people = list(pool.map(lambda number: Participant(installation, number, log).play(), range(participants)))
        stored = json.loads(installation.run_python("from tests.drills.scenarios.paid_study import report; report()"))
    arms = {pid: row["arm"] for pid, row in stored["workers"].items()}
    differences = [*_compare(people, stored), *_replay(log.steps, arms)]
    present = {name: row[1] for name, row in stored["arms"].items()}
    completed = {name: row[2] for name, row in stored["arms"].items()}
    return {
        "drill": "a paid study",
        "database": "postgresql" if installation.database_url else "sqlite",
        "participants": participants,
        "outcomes": Counter(
            {None: "declined", "": "left"}.get(each.seen.outcome, each.seen.outcome) for each in people
        ),
        "completed": completed,
        "present": present,
        "difference": abs(present["plain"] - present["kind"]),
        "cost": stored["spent"],
        "seconds": round(time.perf_counter() - began, 1),
        "differences": differences,
        "passed": not differences,
    }


def _compare(people: list[Participant], stored: dict[str, Any]) -> list[str]:
    """Every way in which the rows differ from what the participants did and saw."""
    joined = [person for person in people if person.seen.outcome is not None]
    if {person.pid for person in joined} != set(stored["workers"]):
        return [f"workers: {len(joined)} joined, {len(stored['workers'])} stored"]
    wrong = [line for person in joined for line in _compare_row(person, stored["workers"][person.pid])]
    outcomes = Counter(person.seen.outcome for person in joined)
    totals = {
        "spent": str(REWARD * outcomes["finished"]),
        "judgements": sum(person.seen.answers for person in people),
        "passport": True,
        "problems": [],
    }
    stages = {
        "consented": len(joined),
        "finished": outcomes["finished"],
        "failed checks": outcomes["failed_checks"],
        "returned the task": outcomes["returned"],
        "stopped early": outcomes["stopped"],
    }
    wrong += [*_differences("study", stored, totals), *_differences("funnel", stored["stages"], stages)]
    for name in QUESTIONS:
        rows = [row for row in stored["workers"].values() if row["arm"] == name]
        counted = [len(rows), sum(row["outcome"] in COUNTED for row in rows)]
        counted += [sum(row["outcome"] == "finished" for row in rows), sum(row["answers"] for row in rows)]
        wrong += _differences("arms", stored["arms"], {name: counted})
    if stored["most_workers_per_pair_and_arm"] > REDUNDANCY:
        wrong.append("a pair was given to too many workers of an arm")
    return wrong


def _compare_row(person: Participant, row: dict[str, Any]) -> list[str]:
    seen, name = person.seen, f"participant {person.number}"
    expected = {
        "outcome": seen.outcome,
        "answers": seen.answers,
        "attention_failed": seen.attention_failed,
        "gold_wrong": seen.gold_wrong,
        "flagged": seen.gold_wrong >= 2,
    }
    wrong = _differences(name, row, expected)
    if seen.question and seen.question != QUESTIONS[row["arm"]]:
        wrong.append(f"{name} saw the question of another arm")
    if not set(row["keys"]) <= {f"item-{number}" for number in ITEMS[row["arm"]]}:
        wrong.append(f"{name} judged items of another arm")
    return wrong


def _differences(where: str, found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    return [
        f"{where}, {name}: {found.get(name)!r}, not {value!r}"
        for name, value in expected.items()
        if found.get(name) != value
    ]


def _replay(steps: list[Step], arms: dict[str, str]) -> list[str]:
    """Every assignment that did not go to the arm with the fewest completed and active workers at that moment."""
    present, known, wrong = Counter(plain=0, kind=0), set[str](), []
    for who, step, outcome in steps:
        arm = arms[who]
        if step == "joins":
            if who not in known and present[arm] > min(present.values()):
                wrong.append(f"{who} was assigned to {arm} with {dict(present)}")
            known.add(who)
            present[arm] += 1
        elif outcome not in COUNTED:
            present[arm] -= 1
    return wrong
