"""Fixtures shared by the tests of modelling."""

from collections.abc import Callable

import pytest

from annotation import services
from annotation.models import Project, Worker
from annotation.services import Receipt


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Three workers with five judgements each: one always left, one right, one tie."""
    workers = [services.enrol(project=project) for _ in range(3)]
    for worker, choice in zip(workers, ("left", "right", "tie"), strict=True):
        for _ in range(5):
            judge(worker, choice)
    return workers
