"""The progress page, compared with independent counts, and the public ranking."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import combinations

import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from annotation.services import Receipt
from modelling.dashboards.common.freshness import get_freshness
from modelling.dashboards.progress import compute_agreement, next_step, progress_page, time_figure
from modelling.models import ModelSnapshot, UpdateState

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_agreement_is_the_share_of_equal_choices_among_all_pairs_of_judgements(snapshot: ModelSnapshot) -> None:
    shares = []
    answers = list(Judgement.objects.values_list("item_lo", "item_hi", "choice"))
    for pair in {answer[:2] for answer in answers}:
        given = [choice for lo, hi, choice in answers if (lo, hi) == pair]
        if met := list(combinations(given, 2)):
            shares.append(sum(a == b for a, b in met) / len(met))
    agreement = compute_agreement(snapshot)
    assert agreement.between == pytest.approx(sum(shares) / len(shares))
    assert (agreement.pairs, agreement.within, agreement.repeats) == (len(shares), None, 0)


def test_counts_exclude_skipped_and_retracted_judgements(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    _kept, undone = (judge(worker, "left").judgement for _ in range(2))
    judge(worker, "skip")
    services.retract(worker=worker, judgement=undone.uuid, uuid=undone.uuid)
    page = progress_page(get_freshness(project))
    assert page.judgements == 1
    assert page.per_item == pytest.approx(2 / 7)
    per_item = page.figures[1].table
    assert per_item.rows == [["0", 5], ["1", 2]]


def test_judgements_of_one_minute_get_an_axis_of_minutes(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judge(worker, "left")
    figure = progress_page(get_freshness(project)).figures[0]
    [at] = (datetime.fromisoformat(time) for time in figure.traces[0]["x"])
    first, last = (datetime.fromisoformat(time) for time in figure.layout["xaxis"]["range"])
    assert (at - first, last - at) == (timedelta(minutes=3), timedelta(minutes=3))
    assert figure.traces[0]["width"] == 54_000


def test_judgements_are_grouped_by_hour_or_day_over_longer_times() -> None:
    of_two_days = time_figure(Counter({"2026-03-01 09:05": 2, "2026-03-01 09:59": 1, "2026-03-02 10:00": 4}))
    assert of_two_days.table.rows == [["2026-03-01T09:00:00+00:00", 3, 3], ["2026-03-02T10:00:00+00:00", 4, 7]]
    assert of_two_days.traces[0]["name"] == "per hour"
    of_a_week = time_figure(Counter({"2026-03-01 23:59": 2, "2026-03-08 00:00": 1}))
    assert of_a_week.table.rows == [["2026-03-01T00:00:00+00:00", 2, 2], ["2026-03-08T00:00:00+00:00", 1, 3]]
    assert time_figure(Counter()).table.rows == []


def test_the_next_step_names_what_is_missing(project: Project) -> None:
    assert "fewer than 10 judgements; about 24 more" in next_step(project, [10, 0, 3, 0, 4, 5, 0])
    project.state = "paused"
    assert "not open" in next_step(project, [0])
    assert "Import items" in next_step(project, [])


def test_the_table_of_a_figure_can_be_downloaded(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    answer = client.get("/projects/pets/activity/?csv=per-worker")
    assert answer["Content-Disposition"] == 'attachment; filename="pets-per-worker-v1.csv"'
    assert answer.content.decode().splitlines()[-1] == "6,4"
    assert client.get("/projects/pets/activity/?csv=nothing").status_code == 404
    details = {"figure": "per-worker", "version": 1, "page": "/projects/pets/activity/"}
    assert (
        AuditEntry.objects.filter(action="exported the numbers of a figure", user=owner, details=details).count() == 1
    )


def test_viewers_cannot_download_tables(
    snapshot: ModelSnapshot, viewer: User, client: Client, log_in: Callable[[User], Client]
) -> None:
    looking = log_in(viewer)
    page = looking.get("/projects/pets/activity/")
    assert page.context["page"].figures
    assert "csv=" not in page.text
    for address in ("?csv=per-worker", "?csv=per-worker&fragment=1", "?csv="):
        assert looking.get(f"/projects/pets/activity/{address}").status_code == 403
    Project.objects.update(ranking_public=True)
    assert "csv=" not in client.get("/r/pets/").text


def test_a_public_ranking_needs_no_login_and_names_no_worker(
    snapshot: ModelSnapshot, client: Client, crowd: list[Worker]
) -> None:
    assert client.get("/r/pets/").status_code == 404
    Project.objects.update(ranking_public=True)
    page = client.get("/r/pets/").content.decode()
    assert "Cats purr." in page
    assert not any(worker.code in page for worker in crowd)
    assert "/projects/" not in page


def test_the_public_ranking_shows_neither_item_keys_nor_failures_of_the_updater(
    snapshot: ModelSnapshot, client: Client
) -> None:
    Project.objects.update(ranking_public=True)
    UpdateState.objects.update(
        condition=UpdateState.Condition.DEGRADED, message="The disk is full.", progress={"what": "reading"}
    )
    page = client.get("/r/pets/").text
    assert "Version 1, from 24 judgements." in page
    assert "The most divisive item is " in page
    for private in ("The disk is full.", "not up to date", "Reading the judgements", "cats-", "dogs-"):
        assert private not in page
    assert "No item matches." in client.get("/r/pets/?q=cats-1").text
    UpdateState.objects.update(current=None)
    assert "within a minute" not in client.get("/r/pets/").text
