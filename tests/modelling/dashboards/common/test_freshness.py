"""What pages say about how far the model is behind: waiting judgements, a running fit, failures."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string
from django.test import Client

from annotation import services
from annotation.models import EventHead, Judgement, Project, User, Worker
from annotation.services import Receipt
from modelling.dashboards.common.freshness import FitProgress, get_freshness
from modelling.models import ModelSnapshot, UpdateState
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db

STORED = {"what": "fitting", "iteration": 12, "share": 0.5, "change": 0.01}


@pytest.fixture
def version(project: Project) -> ModelSnapshot:
    return make_version(project, 3)


def test_the_page_shows_waiting_judgements_and_the_last_update(
    project: Project, owner: User, worker: Worker, judge: Callable[..., Receipt], log_in: Callable[[User], Client]
) -> None:
    judge(worker)
    snapshot = make_version(project, 1, last_sequence=1)
    UpdateState.objects.update(done_sequence=1)
    EventHead.objects.filter(project=project).update(sequence=1)
    for _ in range(2):
        judge(worker)
    assert Judgement.objects.count() == 3
    at = f"{snapshot.created_at:%H:%M} UTC"
    text = log_in(owner).get("/projects/pets/ranking/").text
    assert f"2 new judgements saved, not yet included; last update {at}." in text


def test_waiting_retractions_are_shown_and_skips_do_not_wait(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    known = [judge(worker).judgement for _ in range(2)]
    make_version(project, 1, last_sequence=2)
    UpdateState.objects.update(done_sequence=2)
    EventHead.objects.filter(project=project).update(sequence=2)
    judge(worker, "skip")
    undone = judge(worker).judgement
    for judgement in (*known, undone):
        services.retract(worker=worker, judgement=judgement.uuid, uuid=judgement.uuid)
    freshness = get_freshness(project)
    assert freshness.behind == 0
    assert freshness.status_lines[-1] == "2 retracted judgements are still included."


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ({"what": "fitting", "iteration": 3, "share": 0.12, "change": 0.4}, ["iteration 3", 'value="12"', "12 %"]),
        ({"what": "reading", "iteration": 0, "share": 0.0}, ["Reading the judgements", "<progress"]),
        ({"what": "fitting", "iteration": 25, "share": 7}, ["99 %"]),
    ],
)
def test_a_running_fit_shows_its_progress(
    project: Project,
    owner: User,
    version: ModelSnapshot,
    log_in: Callable[[User], Client],
    progress: dict,
    said: list[str],
) -> None:
    UpdateState.objects.update(progress=progress)
    text = log_in(owner).get("/projects/pets/ranking/?fragment=status").text
    for words in said:
        assert words in text


@pytest.mark.parametrize(
    ("condition", "said"), [("degraded", "Version 3 stays in use"), ("waiting", "One worker only.")]
)
def test_failures_are_shown_with_what_is_safe(
    owner: User, version: ModelSnapshot, log_in: Callable[[User], Client], condition: str, said: str
) -> None:
    UpdateState.objects.update(condition=condition, message="One worker only.")
    text = log_in(owner).get("/projects/pets/ranking/").text
    assert "One worker only." in text
    assert said in text


def test_a_status_that_has_not_changed_is_not_sent_again(
    project: Project, owner: User, version: ModelSnapshot, log_in: Callable[[User], Client]
) -> None:
    client, address = log_in(owner), "/projects/pets/ranking/?fragment=status"
    etag = client.get(address)["ETag"]
    assert client.get(address, headers={"if-none-match": etag}).status_code == 304
    UpdateState.objects.update(progress={"what": "fit", "share": 0.5})
    assert client.get(address, headers={"if-none-match": etag}).status_code == 200


@pytest.mark.parametrize(("processes", "shown"), [({}, False), ({"processes": 4}, True)])
def test_pages_say_by_how_many_processes_a_fit_is_computed(processes: dict[str, int], shown: bool) -> None:
    progress = FitProgress.parse(STORED | processes)
    page = render_to_string("modelling/common/_freshness.html", {"freshness": SimpleNamespace(progress=progress)})
    assert "Fitting the model, iteration 12" in page
    assert ("(computed by 4 processes)" in page) == shown
