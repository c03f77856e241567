"""P19: twenty people answer, a model is fitted, files come and go, all at once; nobody is locked out.

Twenty answers a second, which is what the embedded profile promises (P39), for ten seconds; for five minutes with
DRILLS=long (`make drills`).
"""

import os
import threading
import time
import uuid
from collections.abc import Callable
from random import Random

import pytest
from django.core.management import call_command
from django.db import connection

from annotation import services
from annotation.importing.item_rows import Draft
from annotation.importing.items import import_items
from annotation.models import Item, Project, Worker
from modelling.models import ModelSnapshot
from tests.drills.crowd import percentile
from tests.drills.together import together
from tests.drills.updater import Updater, arrays_as_the_updater_keeps_them
from tests.drills.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SECONDS = 300 if os.environ.get("DRILLS") == "long" else 10
WRITERS, ITEMS = 20, 60
LOCKED = "database is locked"


@pytest.fixture
def study(transactional_db: None) -> Project:
    arrays_as_the_updater_keeps_them()
    project = services.create_project(
        owner=None, slug="busy", title="Busy", state="open", update_batch=5, redundancy=1000, judgements_per_worker=5000
    )
    Item.objects.bulk_create(
        Item(project=project, key=f"item-{n}", text=f"Argument {n}, {'really ' * (n % 5)}so.", group="one")
        for n in range(ITEMS)
    )
    return project


def test_nobody_is_locked_out_while_a_model_is_fitted_and_files_come_and_go(study: Project, tmp_path) -> None:
    workers = [services.enrol(project=study) for _ in range(WRITERS)]
    taken: list[float] = []
    for number, worker in enumerate(workers):
        judge_once(worker, Random(number), taken)
    with Updater() as updater:
        wait_until(ModelSnapshot.objects.exists, 60, "there was no first version")
        first, until = ModelSnapshot.objects.count(), time.monotonic() + SECONDS
        jobs: list[Callable[[], object]] = [lambda w=w, n=n: judge(w, n, until, taken) for n, w in enumerate(workers)]
        jobs += [lambda: import_again_and_again(study, until), lambda: export_again_and_again(tmp_path, until)]
        together(jobs)  # the first error, "database is locked" or any other, is raised here
        wait_until(lambda: ModelSnapshot.objects.count() > first, 60, "nothing was learned meanwhile")
        log = updater.log.read_text()
    assert LOCKED not in log
    assert percentile(sorted(taken), 0.99) <= 2.0
    assert study.judgements.count() == len(taken) >= 2 * WRITERS


def judge_once(worker: Worker, rng: Random, taken: list[float]) -> None:
    """The worker's next pair is answered as a POST answers it; how long that took is noted."""
    lease = services.lease_pairs(worker=worker, rng=rng)[0]
    began = time.perf_counter()
    services.record_judgement(
        worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice=rng.choice(["left", "right"])
    )
    taken.append(time.perf_counter() - began)


def judge(worker: Worker, seed: int, until: float, taken: list[float]) -> None:
    """One worker answers pair after pair, as a POST does, with a second of thought between them."""
    rng, pause = Random(100 + seed), threading.Event()
    while time.monotonic() < until:
        judge_once(worker, rng, taken)
        pause.wait(0.5 + rng.random())


def import_again_and_again(project: Project, until: float) -> None:
    number = 0
    while time.monotonic() < until:
        number += 1
        drafts = [Draft(n, f"new-{number}-{n}", f"A new argument {number}-{n}.", "two", {}, {}) for n in range(20)]
        import_items(project=project, user=None, rows=drafts)
        threading.Event().wait(1.0)


def export_again_and_again(folder, until: float) -> None:
    while time.monotonic() < until:
        if ModelSnapshot.objects.exists():
            call_command("export", "busy", "--output", str(folder / "busy.csv"))
        threading.Event().wait(0.5)
    connection.close()
