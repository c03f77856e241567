"""How the study goes, counted again by other means; and the ranking that an owner has opened to everybody."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import combinations

import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from annotation.services import Receipt
from modelling.dashboards.activity import activity_page, advice, agreement_of, over_time
from modelling.dashboards.freshness import freshness_of
from modelling.models import ModelSnapshot, UpdateState

pytestmark = pytest.mark.django_db


def test_agreement_is_the_share_of_equal_answers_among_all_that_meet(snapshot: ModelSnapshot) -> None:
    shares = []
    answers = list(Judgement.objects.values_list("item_lo", "item_hi", "choice"))
    for pair in {answer[:2] for answer in answers}:
        given = [choice for lo, hi, choice in answers if (lo, hi) == pair]
        if met := list(combinations(given, 2)):
            shares.append(sum(a == b for a, b in met) / len(met))
    agreement = agreement_of(snapshot)
    assert agreement.between == pytest.approx(sum(shares) / len(shares))
    assert (agreement.pairs, agreement.within, agreement.repeats) == (len(shares), None, 0)


def test_counts_leave_out_what_was_skipped_or_taken_back(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    _kept, undone = (judge(worker, "left").judgement for _ in range(2))
    judge(worker, "skip")
    services.retract(worker=worker, judgement=undone.uuid, uuid=undone.uuid)
    page = activity_page(freshness_of(project))
    assert page.judgements == 1
    assert page.per_item == pytest.approx(2 / 7)
    per_item = page.pictures[1].table
    assert per_item.rows == [["0", 5], ["1", 2]]


def test_answers_of_one_minute_stand_on_an_axis_of_minutes(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judge(worker, "left")
    picture = activity_page(freshness_of(project)).pictures[0]
    [at] = (datetime.fromisoformat(time) for time in picture.traces[0]["x"])
    first, last = (datetime.fromisoformat(time) for time in picture.layout["xaxis"]["range"])
    assert (at - first, last - at) == (timedelta(minutes=3), timedelta(minutes=3))
    assert picture.traces[0]["width"] == 54_000


def test_answers_of_days_are_put_together_by_the_hour_and_of_weeks_by_the_day() -> None:
    of_two_days = over_time(Counter({"2026-03-01 09:05": 2, "2026-03-01 09:59": 1, "2026-03-02 10:00": 4}))
    assert of_two_days.table.rows == [["2026-03-01T09:00:00+00:00", 3, 3], ["2026-03-02T10:00:00+00:00", 4, 7]]
    assert of_two_days.traces[0]["name"] == "per hour"
    of_a_week = over_time(Counter({"2026-03-01 23:59": 2, "2026-03-08 00:00": 1}))
    assert of_a_week.table.rows == [["2026-03-01T00:00:00+00:00", 2, 2], ["2026-03-08T00:00:00+00:00", 1, 3]]
    assert over_time(Counter()).table.rows == []


def test_the_advice_names_what_is_missing(project: Project) -> None:
    assert "fewer than 10 answers; about 24 more" in advice(project, [10, 0, 3, 0, 4, 5, 0])[0]
    project.state = "paused"
    assert "not open" in advice(project, [0])[0]
    assert "Import items" in advice(project, [])[0]


def test_the_numbers_of_a_picture_can_be_taken_home(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    answer = client.get("/projects/pets/activity/?csv=per-worker")
    assert answer["Content-Disposition"] == 'attachment; filename="pets-per-worker-v1.csv"'
    assert answer.content.decode().splitlines()[-1] == "6,4"
    assert client.get("/projects/pets/activity/?csv=nothing").status_code == 404
    told = {"picture": "per-worker", "version": 1, "page": "/projects/pets/activity/"}
    assert AuditEntry.objects.filter(action="exported the numbers of a picture", user=owner, details=told).count() == 1


def test_who_may_only_look_takes_no_numbers_home(
    snapshot: ModelSnapshot, viewer: User, client: Client, log_in: Callable[[User], Client]
) -> None:
    looking = log_in(viewer)
    page = looking.get("/projects/pets/activity/")
    assert page.context["page"].pictures
    assert "csv=" not in page.text
    for address in ("?csv=per-worker", "?csv=per-worker&fragment=1", "?csv="):
        assert looking.get(f"/projects/pets/activity/{address}").status_code == 403
    Project.objects.update(ranking_public=True)
    assert "csv=" not in client.get("/r/pets/").text


def test_an_opened_ranking_is_read_by_everybody_and_names_no_worker(
    snapshot: ModelSnapshot, client: Client, crowd: list[Worker]
) -> None:
    assert client.get("/r/pets/").status_code == 404
    Project.objects.update(ranking_public=True)
    page = client.get("/r/pets/").content.decode()
    assert "Cats purr." in page
    assert not any(worker.code in page for worker in crowd)
    assert "/projects/" not in page


def test_strangers_read_neither_the_keys_of_items_nor_the_troubles_of_the_model(
    snapshot: ModelSnapshot, client: Client
) -> None:
    Project.objects.update(ranking_public=True)
    UpdateState.objects.update(
        condition=UpdateState.Condition.DEGRADED, words="The disk is full.", progress={"what": "reading"}
    )
    page = client.get("/r/pets/").text
    assert "Version 1, from 24 judgements." in page
    assert "Divides people most: " in page
    for inner in ("The disk is full.", "could not be learned", "Reading the judgements", "cats-", "dogs-"):
        assert inner not in page
    assert "No item matches." in client.get("/r/pets/?q=cats-1").text
    UpdateState.objects.update(current=None)
    assert "within a minute" not in client.get("/r/pets/").text
