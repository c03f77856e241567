"""Load the demo study through the same services as a real study."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
from django.db import transaction
from django.utils import timezone

from annotation.importing.item_files import read_items
from annotation.importing.items import import_items
from annotation.models import Item, Judgement, Project, User, Worker
from annotation.services import add_load, audit, create_project, enrol, to_canonical
from annotation.storage import event_log
from modelling.simulation.demo_crowd import (
    ARGUMENTS,
    DAYS,
    QUESTIONS,
    DemoCrowd,
    draw_demo_crowd,
    read_arguments,
    read_truth,
)

SLUG = "demo"
SEED = 20
PLATFORM = "simulated"  # the platform in the workers' platform identities
CHOICES = {1.0: "left", 0.5: "tie", 0.0: "right"}
WORKERS_PER_PAIR = 50  # so that visitors do not run out of pairs

TITLE = "Demo: small debates of everyday life"
QUESTION = "Which argument is more convincing?"
INSTRUCTIONS = """You will see two arguments for the same side of a small debate. \
Choose the one that convinces you more.

It does not matter whether you share the opinion, and there is no right answer: we want to know what you think. \
If both convince you equally, say so. Most people need about twenty seconds for a pair."""
CONSENT = """This is a demonstration of Concord. \
Its arguments were written for it, and its first judgements come from a simulated crowd.

Your answers are kept in the database of this installation, under a random code and without your name. \
You may stop at any time by closing the page."""


@dataclass(frozen=True)
class Counts:
    debates: int
    arguments: int
    workers: int
    judgements: int
    simulated: int


def find_demo() -> Project | None:
    return Project.objects.filter(slug=SLUG).first()


@transaction.atomic
def load_demo(owner: User) -> Project:
    """Create the demo study with its arguments, workers and judgements, in one transaction."""
    arguments = read_arguments()
    crowd = draw_demo_crowd(np.random.default_rng(SEED), arguments, read_truth(arguments))
    project = _create(owner)
    import_items(project=project, user=owner, rows=read_items(ARGUMENTS))
    by_key = {item.key: item for item in Item.objects.filter(project=project)}
    workers = [
        enrol(project=project, traits=traits, platform=PLATFORM, external_id=name)
        for name, traits in zip(crowd.names, crowd.traits, strict=True)
    ]
    began = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS)
    judgements = _judgements(project, [by_key[argument.key] for argument in arguments], workers, crowd, began)
    event_log.append(judgements)
    add_load((judgement.item_lo_id, judgement.item_hi_id) for judgement in judgements)
    _finish_workers(workers, judgements)
    audit(project, owner, "simulated a crowd", {"workers": len(workers), "judgements": len(crowd.labels), "seed": SEED})
    return project


def count(project: Project) -> Counts:
    """Count the demo study's rows, including visitors' judgements."""
    items = Item.objects.filter(project=project, active=True)
    return Counts(
        debates=items.order_by().values("group").distinct().count(),
        arguments=items.count(),
        workers=project.workers.count(),
        judgements=project.judgements.count(),
        simulated=project.judgements.filter(source=Judgement.Source.SIMULATED).count(),
    )


def _create(owner: User) -> Project:
    return create_project(
        owner=owner,
        slug=SLUG,
        title=TITLE,
        question=QUESTION,
        instructions=INSTRUCTIONS,
        consent=CONSENT,
        state=Project.State.OPEN,
        listed=True,
        ties_allowed=True,
        redundancy=WORKERS_PER_PAIR,
        pairs=Project.Pairs.WITHIN_GROUP,
        group_shown=True,
        questionnaire=[
            {"name": question.name, "label": question.label, "choices": list(question.choices)}
            for question in QUESTIONS
        ],
        simulated=True,
    )


def _finish_workers(workers: Sequence[Worker], judgements: Sequence[Judgement]) -> None:
    """Mark the workers as finished, and as joined when they began to read their first pair."""
    for judgement in reversed(judgements):
        judgement.worker.joined_at = judgement.created_at - timedelta(milliseconds=judgement.response_ms or 0)
    for worker in workers:
        worker.state = Worker.State.FINISHED
    Worker.objects.bulk_update(workers, ["joined_at", "state"])


def _judgements(
    project: Project, items: Sequence[Item], workers: Sequence[Worker], crowd: DemoCrowd, began: datetime
) -> list[Judgement]:
    """One unsaved row per answer, in chronological order."""
    labels = crowd.labels
    answers = zip(labels.u, labels.a, labels.b, labels.y, crowd.response_ms, crowd.seconds, strict=True)
    return [
        _judgement(
            project=project,
            worker=workers[u],
            left=items[a],
            right=items[b],
            choice=CHOICES[float(y)],
            response_ms=int(milliseconds),
            created_at=began + timedelta(seconds=float(seconds)),
        )
        for u, a, b, y, milliseconds, seconds in answers
    ]


def _judgement(*, project: Project, worker: Worker, left: Item, right: Item, choice: str, **details: Any) -> Judgement:
    """The unsaved row of one simulated answer."""
    lo_is_left = left.pk < right.pk
    lo, hi = (left, right) if lo_is_left else (right, left)
    return Judgement(
        uuid=uuid4(),
        project=project,
        worker=worker,
        item_lo=lo,
        item_hi=hi,
        choice=to_canonical(choice, lo_is_left=lo_is_left),
        lo_was_left=lo_is_left,
        source=Judgement.Source.SIMULATED,
        **details,
    )
