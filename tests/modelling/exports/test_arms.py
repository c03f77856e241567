"""The arm of each worker is in every export about workers."""

import io
import json
import zipfile

import pytest

from annotation.models import Arm, Project, Worker
from annotation.services.participation.arms import change_arms
from modelling.dashboards.workers import listing, worker
from modelling.exports import interchange
from modelling.exports.catalogue import ARCHIVE
from tests.modelling.exports.samples import csv_rows, export_bytes, fit, odd_study
from tests.modelling.samples.two_camps import make_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Project:
    """Two workers in each arm; one arm asks a question of its own."""
    project = odd_study()
    change_arms(project=project, user=None, arms=[Arm(name="plain"), Arm(name="kind", question="Which is kinder?")])
    plain, kind = Arm.objects.filter(project=project)
    for number, one in enumerate(Worker.objects.filter(project=project).order_by("pk")):
        Worker.objects.filter(pk=one.pk).update(arm=(plain, kind)[number % 2])
    fit(project)
    return project


def arms(project: Project) -> dict[str, str]:
    return Worker.objects.filter(project=project).arm_names("code")


@pytest.mark.both_databases
@pytest.mark.parametrize("what", ["judgements", "workers", "worker_ids", "utilities", "crowd-kit"])
def test_every_row_about_a_worker_has_their_arm(study: Project, what: str) -> None:
    rows = csv_rows(export_bytes(study, what, "csv"))
    assert rows
    assert {(row["worker"], row["arm"]) for row in rows} == set(arms(study).items())


def test_checks_have_the_arm_of_their_worker(study: Project) -> None:
    rows = csv_rows(export_bytes(study, "checks", "csv"))
    assert rows
    assert {(row["worker"], row["arm"]) for row in rows} <= set(arms(study).items())


def test_assessments_have_the_arm_of_their_worker(project: Project) -> None:
    workers = make_study(project)
    change_arms(project=project, user=None, arms=[Arm(name="plain"), Arm(name="kind")])
    Worker.objects.filter(pk__in=[worker.pk for worker in workers]).update(arm=Arm.objects.get(name="kind"))
    fit(project)
    rows = csv_rows(export_bytes(project, "assessments", "csv"))
    assert {row["worker"] for row in rows} <= {worker.code for worker in workers}
    assert {row["arm"] for row in rows} == {"kind"}


def test_the_fit_of_each_worker_has_their_arm(study: Project) -> None:
    rows = [row for row in csv_rows(export_bytes(study, "reliability", "csv")) if row["worker"]]
    assert {(row["worker"], row["arm"]) for row in rows} == set(arms(study).items())


def test_comparisons_of_other_programs_have_the_arm_and_its_question(study: Project) -> None:
    battles = json.loads(export_bytes(study, "arena"))
    assert {(battle["judge"], battle["arm"]) for battle in battles} == set(arms(study).items())
    for battle in battles:
        expected = "Which is kinder?" if battle["arm"] == "kind" else study.question
        assert battle["conversation_a"][0]["content"].endswith(expected)
    assert {row["arm"] for row in csv_rows(export_bytes(study, "evalica"))} == {"plain", "kind"}
    tasks = json.loads(export_bytes(study, "label-studio"))
    assert {each["meta"]["arm"] for task in tasks for each in task["annotations"]} == {"plain", "kind"}
    preferences = [json.loads(line) for line in export_bytes(study, "trl").splitlines()]
    assert {row["arm"] for row in preferences} == {"plain", "kind"}


def test_the_archive_has_the_arms_and_the_arm_of_each_worker(study: Project) -> None:
    with zipfile.ZipFile(io.BytesIO(export_bytes(study, ARCHIVE))) as archive:
        workers = [json.loads(line) for line in archive.read("workers.jsonl").splitlines()]
        manifest = json.loads(archive.read("manifest.json"))
    assert {row["code"]: row["arm"] for row in workers} == arms(study)
    assert manifest["arms"] == [{"name": "plain"}, {"name": "kind", "question": "Which is kinder?"}]


def test_tables_of_pages_have_the_arm(study: Project) -> None:
    snapshot = study.snapshots.get()
    rows = [dict(zip(listing.COLUMNS, row, strict=True)) for row in listing.export_rows(snapshot)]
    assert {row["worker"]: row["arm"] for row in rows} == arms(study)
    one = Worker.objects.filter(project=study, arm__name="kind").first()
    answers = [dict(zip(worker.COLUMNS, row, strict=True)) for row in worker.judgement_rows(snapshot, one)]
    assert {row["arm"] for row in answers} == {"kind"}


def test_a_study_without_arms_leaves_the_formats_of_others_unchanged() -> None:
    comparison = interchange.Comparison("u", "w", *[interchange.NamedItem("a", "A", "")] * 2, "left", "", None, "Q?")
    assert comparison.condition == {}
