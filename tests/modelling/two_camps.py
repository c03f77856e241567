"""A small study with a known truth: texts with evidence or a story, and a crowd in which one half likes each."""

from uuid import uuid4

import numpy as np
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation import ledger, services
from annotation.models import Item, Judgement, Project, User, Worker
from modelling import arrays
from modelling.crowdgppl import CrowdGPPL
from modelling.models import ModelSnapshot
from modelling.simulation import draw_labels
from modelling.updating import run_one

KINDS = ("Evidence and numbers", "Stories of people", "Plain words")
CHOICES = {1.0: "lo", 0.0: "hi", 0.5: "tie"}
LEANING = np.array([1.0, -1.0, 0.0])  # of each kind of text
STRENGTH = 1.5  # how much more a worker likes the texts of their camp


def make_study(
    project: Project, n_items: int = 18, n_workers: int = 16, n_labels: int = 640, seed: int = 1
) -> list[Worker]:
    """The project's items are `n_items` texts of three kinds; `n_workers` in two camps have judged pairs of them."""
    Item.objects.filter(project=project).update(active=False)
    items = [
        Item.objects.create(project=project, key=f"text-{n:03d}", text=f"{KINDS[n % 3]}, reason {n}.", group="texts")
        for n in range(n_items)
    ]
    workers = [
        services.enrol(project=project, traits={"camp": ("facts", "stories")[n % 2], "age": 20 + n})
        for n in range(n_workers)
    ]
    ledger.append(_judgements(project, items, workers, n_labels, seed))
    return workers


def _judgements(
    project: Project, items: list[Item], workers: list[Worker], n_labels: int, seed: int
) -> list[Judgement]:
    rng = np.random.default_rng(seed)
    quality, camp = rng.standard_normal(len(items)), np.where(np.arange(len(workers)) % 2, -1.0, 1.0)
    leaning = LEANING[np.arange(len(items)) % 3]
    labels = draw_labels(rng, quality[:, None] + STRENGTH * np.outer(leaning, camp), n_labels, tie_margin=0.1)
    times = rng.integers(2000, 20_000, n_labels)
    rounds: dict[tuple[int, int, int], int] = {}
    rows = []
    for u, a, b, y, milliseconds in zip(labels.u, labels.a, labels.b, labels.y, times, strict=True):
        lo, hi, said = (a, b, y) if a < b else (b, a, 1.0 - y)
        seen = rounds[u, lo, hi] = rounds.get((u, lo, hi), 0) + 1
        rows.append(
            Judgement(
                uuid=uuid4(), project=project, worker=workers[u], item_lo=items[lo], item_hi=items[hi], round=seen,
                choice=CHOICES[float(said)], lo_was_left=True, source="simulated", response_ms=int(milliseconds),
                created_at=timezone.now(),
            )
        )  # fmt: skip
    return rows


def estimator_of(snapshot: ModelSnapshot) -> tuple[CrowdGPPL, arrays.Arrays]:
    """The estimator by its arrays alone, and the arrays."""
    stored = arrays.load(snapshot.project, snapshot.checksum)
    state = {name.removeprefix("model."): value for name, value in stored.items() if name.startswith("model.")}
    return CrowdGPPL.from_state(state), stored


def grown_twin(project: Project, owner: User) -> Project:
    """Another study of the same kind with three times the items, workers and judgements, fitted."""
    twin = services.create_project(owner=owner, slug="twin", title="Twin", state="open", update_batch=1)
    fitted_study(twin, n_items=54, n_workers=48, n_labels=1920)
    return twin


def statements(client: Client, address: str) -> int:
    """How many statements the second visit takes: the first one fills what is kept between visits."""
    assert client.get(address).status_code == 200
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def fitted_study(project: Project, **sizes: int) -> ModelSnapshot:
    """The first version of such a study."""
    make_study(project, **sizes)
    snapshot = run_one("test")
    assert snapshot is not None
    return snapshot
