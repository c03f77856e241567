"""Studies as rows in a temporary database, for the benchmarks of the updater and the pages."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.paper.ukpconvarg import read_corpus
from benchmarks.simulated_crowds import draw_crowd
from modelling.crowdgppl import PairwiseLabels

if TYPE_CHECKING:
    from annotation.models import Item, Project, Worker

WORDS = ("sea", "tree", "stone", "river", "because", "always", "never", "people", "should", "think", "cost", "free")


@dataclass(frozen=True)
class Source:
    """Texts and labels of a study, labels in the order in which they were given."""

    name: str
    texts: tuple[str, ...]
    labels: PairwiseLabels


def from_folder(folder: Path, seed: int = 0) -> Source:
    """Read UKPConvArgCrowdSample, with its judgements in a random order."""
    corpus = read_corpus(folder)
    order = np.random.default_rng(seed).permutation(len(corpus.labels))
    return Source("UKPConvArg", corpus.texts, corpus.labels.take(order))


def simulated(n_items: int, n_workers: int, n_labels: int, seed: int = 0) -> Source:
    """Draw a crowd from the paper's model with three components, on generated texts unrelated to the scores."""
    rng = np.random.default_rng(seed)
    crowd = draw_crowd(
        rng, n_users=n_workers, n_items=n_items, n_labels=n_labels, n_components=3, s_t=1.0, s_v=1.0, tie_margin=0.2
    )
    texts = tuple(" ".join(rng.choice(WORDS, size=rng.integers(8, 40))) + f" {n}." for n in range(n_items))
    return Source("simulated", texts, crowd.labels)


@contextmanager
def database() -> Iterator[None]:
    """Set up an embedded Concord in a temporary folder; inside a test, use the test's database."""
    from django.conf import settings

    if settings.configured:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="concord-bench-") as folder:
        open_database(Path(folder))
        from django.utils.module_loading import import_string

        import_string(settings.COLLECT_STATIC)()
        yield


def open_database(folder: Path) -> None:
    """Set up an embedded Concord with its data in this folder."""
    os.environ |= {"CONCORD_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "config.settings.embedded"}
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


@dataclass
class Study:
    """A project to which judgements are added in batches."""

    project: Project
    items: list[Item]
    workers: list[Worker]

    def add_judgements(self, labels: PairwiseLabels) -> None:
        """Append these labels to the event log as judgements."""
        from django.db import transaction

        from annotation.storage import event_log

        with transaction.atomic():
            event_log.append(
                [self._judgement(*each) for each in zip(labels.u, labels.a, labels.b, labels.y, strict=True)]
            )

    def _judgement(self, u: int, a: int, b: int, y: float) -> Any:
        from django.utils import timezone

        from annotation.models import Judgement

        lo, hi = sorted((self.items[a], self.items[b]), key=lambda item: item.pk)
        won = y if lo is self.items[a] else 1.0 - y
        self.n_judgements += 1
        return Judgement(
            uuid=uuid.uuid4(),
            project=self.project,
            worker=self.workers[u],
            item_lo=lo,
            item_hi=hi,
            round=self.n_judgements,
            choice={1.0: "lo", 0.0: "hi", 0.5: "tie"}[float(won)],
            source=Judgement.Source.SIMULATED,
            created_at=timezone.now(),
        )

    n_judgements: int = 0


def make_study(source: Source, slug: str, **settings: Any) -> Study:
    """Create an open project with these texts and workers and without judgements."""
    from annotation import services
    from annotation.models import Item, Worker

    project = services.create_project(
        owner=None, slug=slug, title=source.name, state="open", update_batch=1, model_settings=settings
    )
    rows = [Item(project=project, key=f"item-{n}", text=text, group="one") for n, text in enumerate(source.texts)]
    Item.objects.bulk_create(rows, batch_size=500)
    people = [Worker(project=project) for _ in range(int(source.labels.u.max()) + 1)]
    Worker.objects.bulk_create(people, batch_size=500)
    items = list(Item.objects.filter(project=project).order_by("pk"))
    return Study(project, items, list(Worker.objects.filter(project=project).order_by("pk")))
