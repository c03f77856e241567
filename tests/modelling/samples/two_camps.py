"""A study with known preferences: one half of the workers prefers evidence, the other half stories."""

from uuid import uuid4

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from annotation.storage import event_log
from benchmarks.simulated_crowds import draw_labels
from modelling.crowdgppl import CrowdGPPL
from modelling.models import ModelSnapshot
from modelling.training.snapshots import FittedModel
from modelling.training.storage import array_store
from modelling.updater.update import update_one
from tests.modelling.samples.cached_fits import shared_fits

KINDS = ("Evidence and numbers", "Stories of people", "Plain words")
CHOICES = {1.0: "lo", 0.0: "hi", 0.5: "tie"}
LEANING = np.array([1.0, -1.0, 0.0])  # of each kind of text
STRENGTH = 1.5  # of the preference for texts of the own camp


def make_study(
    project: Project, n_items: int = 18, n_workers: int = 16, n_labels: int = 640, seed: int = 1, n_tastes: int = 1
) -> list[Worker]:
    """Replace the project's items by texts of three kinds, judged by workers in two camps.

    With two tastes, every other worker of a camp likes the texts with an odd number more.
    """
    Item.objects.filter(project=project).update(active=False)
    items = [
        Item.objects.create(project=project, key=f"text-{n:03d}", text=f"{KINDS[n % 3]}, reason {n}.", group="texts")
        for n in range(n_items)
    ]
    workers = [
        services.enrol(project=project, traits={"camp": ("facts", "stories")[n % 2], "age": 20 + n})
        for n in range(n_workers)
    ]
    event_log.append(_judgements(project, items, workers, n_labels, seed, n_tastes))
    return workers


def _judgements(
    project: Project, items: list[Item], workers: list[Worker], n_labels: int, seed: int, n_tastes: int
) -> list[Judgement]:
    rng = np.random.default_rng(seed)
    quality, camp = rng.standard_normal(len(items)), np.where(np.arange(len(workers)) % 2, -1.0, 1.0)
    leaning = LEANING[np.arange(len(items)) % 3]
    utilities = quality[:, None] + STRENGTH * np.outer(leaning, camp)
    if n_tastes == 2:
        odd = np.where(np.arange(len(items)) % 2, 1.0, -1.0)
        utilities += STRENGTH * np.outer(odd, np.where(np.arange(len(workers)) // 2 % 2, -1.0, 1.0))
    labels = draw_labels(rng, utilities, n_labels, tie_margin=0.1)
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


def load_estimator(snapshot: ModelSnapshot) -> tuple[CrowdGPPL, array_store.Arrays]:
    """The estimator restored from a version's arrays, and the arrays."""
    stored = array_store.load(snapshot.project, snapshot.checksum)
    return FittedModel.from_arrays(stored, snapshot.number).model, stored


def make_larger_study(project: Project, owner: User) -> Project:
    """A fitted study with three times the items, workers and judgements."""
    twin = services.create_project(owner=owner, slug="twin", title="Twin", state="open", update_batch=1)
    make_fitted_study(twin, n_items=54, n_workers=48, n_labels=1920)
    return twin


def count_queries(client: Client, address: str) -> int:
    """The number of queries of the second request; the first fills the caches."""
    assert client.get(address).status_code == 200
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def make_fitted_study(project: Project, **sizes: int) -> ModelSnapshot:
    """Fit the first version of such a study."""
    make_study(project, **sizes)
    with shared_fits():
        snapshot = update_one("test")
    assert snapshot is not None
    return snapshot


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    """The first version of such a study; import it in a test module to use it there."""
    return make_fitted_study(project)
