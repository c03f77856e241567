"""Studies with given judgements, written directly to the event log."""

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from annotation.services import Receipt
from annotation.storage import event_log

Answer = tuple[int, int, int, str]  # worker, first item, second item; first, second, tie or skip
TEXTS = ("Cats purr.", "Dogs bark at night.", "Fish are quiet pets.", "Birds sing.", "Hamsters sleep.", "Mice hide.")


def make_study(
    slug: str,
    answers: Iterable[Answer] = (),
    texts: Iterable[str] = TEXTS,
    owner: User | None = None,
    features: Iterable[dict[str, object]] | None = None,
    **settings: object,
) -> Project:
    """An open study with these answers, updated after every answer."""
    project = services.create_project(
        owner=owner, slug=slug, title=slug, state="open", update_batch=1, model_settings=settings
    )
    texts = list(texts)
    columns = list(features or ({} for _ in texts))
    for number, (text, own) in enumerate(zip(texts, columns, strict=True)):
        Item.objects.create(project=project, key=f"item-{number}", text=text, group="one", features=own)
    answer(project, answers)
    return project


def answer(project: Project, answers: Iterable[Answer], at: datetime | None = None) -> list[Judgement]:
    """Append these answers to the log, each in its own round, so that pairs can be repeated."""
    answers = list(answers)
    items = list(Item.objects.filter(project=project).order_by("pk"))
    workers = list(Worker.objects.filter(project=project).order_by("pk"))
    missing = max((who for who, *_ in answers), default=-1) + 1 - len(workers)
    workers += [services.enrol(project=project) for _ in range(missing)]
    given = Judgement.objects.filter(project=project).count()
    rows = []
    for number, (who, first, second, choice) in enumerate(answers, start=given + 1):
        lo, hi = sorted((items[first], items[second]), key=lambda item: item.pk)
        side = {"first": "lo" if lo is items[first] else "hi", "second": "hi" if lo is items[first] else "lo"}
        rows.append(
            Judgement(
                uuid=uuid.uuid4(),
                project=project,
                worker=workers[who],
                item_lo=lo,
                item_hi=hi,
                round=number,
                choice=side.get(choice, choice),
                skip_reason="other" if choice == "skip" else "",
                source=Judgement.Source.SIMULATED,
                created_at=at or timezone.now(),
            )
        )
    with transaction.atomic():
        event_log.append(rows)
    return rows


def all_pairs(workers: int, choice: str = "first", items: int = len(TEXTS)) -> list[Answer]:
    """The same choice of each worker for each pair."""
    return [(who, a, b, choice) for who in range(workers) for b in range(items) for a in range(b)]


def make_crowd(project: Project, judge: Callable[..., Receipt], workers: int = 4, answers: int = 5) -> list[Worker]:
    """Workers with this many answers each, of all three kinds, in a study without a limit of answers per pair."""
    Project.objects.filter(pk=project.pk).update(redundancy=100)
    project.refresh_from_db()
    crowd = [services.enrol(project=project) for _ in range(workers)]
    for number, worker in enumerate(crowd):
        for turn in range(answers):
            judge(worker, ("left", "right", "tie")[(number + turn) % 3])
    return crowd
