"""A small study with a first version, and that version's estimator read from its arrays, not through the pages."""

from collections.abc import Callable

import pytest

from annotation import services
from annotation.models import Project, Worker
from annotation.services import Receipt
from modelling.models import ModelSnapshot
from modelling.training.snapshots import FittedModel, read_fitted_model
from modelling.updater import update
from tests.modelling.samples.cached_fits import cached_fits as cached_fits


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Four workers: one always prefers the first text, one the second, one alternates, one answers “equally good”."""
    Project.objects.filter(pk=project.pk).update(redundancy=10)
    project.refresh_from_db()
    workers = [services.enrol(project=project) for _ in range(4)]
    ways = ["left"] * 6, ["right"] * 6, ["left", "right"] * 3, ["tie"] * 6
    for worker, choices in zip(workers, ways, strict=True):
        Worker.objects.filter(pk=worker.pk).update(traits={"likes": "cats" if choices[0] == "left" else "dogs"})
        for choice in choices:
            judge(worker, choice)
    return workers


@pytest.fixture
def snapshot(crowd: list[Worker]) -> ModelSnapshot:
    made = update.update_one("test")
    assert made is not None
    return made


@pytest.fixture
def fitted(snapshot: ModelSnapshot) -> FittedModel:
    return read_fitted_model(snapshot.project, snapshot.checksum, snapshot.number)
