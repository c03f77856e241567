"""Versions leave out excluded workers, say so, and can be reproduced with them left out."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client

from annotation import services
from annotation.models import Project, User, Worker
from modelling.dashboards.workers.exclusion import exclusion_status
from modelling.exports.catalogue import build_export
from modelling.exports.points import resolve_point
from modelling.models import ModelSnapshot
from modelling.training.verification import find_problems
from modelling.training.votes import get_votes
from modelling.updater.update import update_one
from tests.modelling.exports.test_archive import reproduced
from tests.modelling.samples.histories import all_pairs, answer, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
LogIn = Callable[[User], Client]


def fit() -> ModelSnapshot:
    snapshot = update_one("test")
    assert snapshot is not None
    return snapshot


@pytest.fixture
def study(owner: User) -> Project:
    """Two workers prefer the first item of each pair, a third one the second."""
    return make_study("exclusions", [*all_pairs(2), *((2, a, b, "second") for _, a, b, _ in all_pairs(1))], owner=owner)


@pytest.fixture
def dissenter(study: Project) -> Worker:
    return Worker.objects.filter(project=study).order_by("pk")[2]


def test_the_next_version_leaves_out_the_worker_and_later_answers_until_they_are_included_again(
    study: Project, dissenter: Worker, owner: User
) -> None:
    included = [fit().included]
    services.exclude_worker(worker=dissenter, user=owner, reason="always disagrees")
    without = fit()
    included.append(without.included)
    assert (without.kind, without.excluded) == ("refit", {"excluded": 15})
    assert get_votes(without).items[without.scores.first().item_id].losses == 0
    (judgement, *_) = answer(study, [(2, 0, 1, "second"), (0, 1, 2, "first"), (2, 1, 2, "skip")])
    step = fit()
    included.append(step.included)
    assert (step.kind, step.excluded) == ("step", {"excluded": 16, "skipped": 1})
    services.retract(worker=dissenter, judgement=judgement.uuid, uuid=uuid4())
    answer(study, [(1, 1, 2, "first")])
    assert fit().excluded == {"excluded": 15, "skipped": 1, "retracted": 1}
    services.include_worker(worker=dissenter, user=owner)
    included.append(fit().included)
    assert included == [45, 30, 31, 47]
    assert list(find_problems(study)) == []


def test_pages_compare_the_versions_with_and_without_the_worker(
    study: Project, dissenter: Worker, owner: User, log_in: LogIn
) -> None:
    fit()
    services.exclude_worker(worker=dissenter, user=owner, reason="always disagrees")
    client = log_in(owner)
    page = client.get(f"/projects/exclusions/workers/{dissenter.code}/").content.decode()
    assert "15 judgements are kept but do not count." in page
    assert "The next version, which is being fitted, will leave them out." in page
    fit()
    status = exclusion_status(dissenter)
    assert status is not None
    assert (status.version_with, status.version_without) == (1, 2)
    page = client.get("/projects/exclusions/model/compare/?from=1&to=2").content.decode()
    assert "is left out of the newer version" in page
    assert "always disagrees" in page
    assert "always disagrees" in client.get("/projects/exclusions/workers/").content.decode()
    assert "by excluded workers" in client.get("/projects/exclusions/model/versions/2/").content.decode()


def test_exports_name_the_excluded_worker_and_their_judgements(study: Project, dissenter: Worker, owner: User) -> None:
    fit()
    services.exclude_worker(worker=dissenter, user=owner, reason="always disagrees")
    fit()

    def rows(what: str, version: int) -> list[dict[str, str]]:
        content = b"".join(build_export(resolve_point(study, version=version), what, "csv").open()).decode("utf-8-sig")
        return list(csv.DictReader(StringIO(content)))

    assert [row["exclusion_reason"] for row in rows("workers", 2)] == ["", "", "always disagrees"]
    assert sum(row["excluded"] in ("1", "true", "True") for row in rows("judgements", 2)) == 15
    assert {row["exclusion_reason"] for row in rows("workers", 1)} == {""}


def test_an_archive_is_reproduced_without_the_excluded_worker(
    study: Project, dissenter: Worker, owner: User, tmp_path: Path
) -> None:
    services.exclude_worker(worker=dissenter, user=owner, reason="always disagrees")
    fit()
    path = tmp_path / "archive.zip"
    path.write_bytes(b"".join(build_export(resolve_point(study), "archive").open()))
    assert reproduced(path, tmp_path / "folder").agrees
    assert ModelSnapshot.objects.get().excluded == {"excluded": 15}
