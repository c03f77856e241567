"""Working time, pay and cost, the pilot, and the lists for the platforms."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import Assignment, PlatformIdentity, Project, User, Worker, WorkerCheck
from annotation.models.workers import SIMULATED
from annotation.services.participation.funnel import count_others, count_stages, opening_checklist
from annotation.services.participation.outcomes import end_participation, finish
from annotation.services.participation.payment import summarise_payment
from tests.annotation.platforms.studies import CODES, join, link, recruit
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
Judge = Callable[..., services.Receipt]
ROUNDS = 10


def add_worker(project: Project, judge: Judge, number: int, outcome: str, minutes: float, **identity: Any) -> Worker:
    """A worker who joined this many minutes ago, judged a pair and ended now."""
    worker = services.enrol(project=project, platform="prolific", external_id=f"{number:024x}")
    PlatformIdentity.objects.filter(worker=worker).update(session_id=f"{number:024d}", **identity)
    judge(worker)
    if outcome:
        end_participation(worker=worker, outcome=outcome)
        Worker.objects.filter(pk=worker.pk).update(joined_at=timezone.now() - timedelta(minutes=minutes))
    worker.refresh_from_db()
    return worker


@pytest.fixture
def recruitment(project: Project, judge: Judge) -> Any:
    """Five workers: three finished after 10, 20 and 60 minutes, one failed checks, one is judging."""
    settings = {"reward": Decimal("2.00"), "currency": "GBP", "places": 10, "estimated_minutes": 10}
    row = recruit(project, **settings)
    for number, (outcome, minutes) in enumerate([("finished", 10), ("finished", 20), ("no_work_left", 60)]):
        add_worker(project, judge, number, outcome, minutes)
    failing = add_worker(project, judge, 8, "failed_checks", 3)
    for number in (1, 2):
        WorkerCheck.objects.create(
            project=project, worker=failing, number=number, expected="left", choice="right", answered_at=timezone.now()
        )
    add_worker(project, judge, 9, "", 5)
    return row


def test_minutes_pay_and_cost_come_from_those_who_finished(project: Project, recruitment: Any) -> None:
    payment = summarise_payment(project, recruitment)
    assert payment.n_timed == 3
    assert round(payment.median_minutes or 0) == 20
    assert round(payment.p90_minutes or 0) == 52
    assert payment.per_hour == pytest.approx(Decimal("6.00"), abs=Decimal("0.01"))
    assert (payment.spent, payment.total) == (Decimal("6.00"), Decimal("20.00"))


def test_before_anyone_ended_the_estimate_counts(project: Project) -> None:
    row = recruit(project, reward=Decimal("1.00"), currency="USD", estimated_minutes=10)
    payment = summarise_payment(project, row)
    assert payment.per_hour == Decimal("6.00")
    assert payment.too_low, "Prolific's minimum is 8 dollars"


@pytest.mark.parametrize(
    ("reward", "currency", "target", "minutes", "per_hour", "too_low"),
    [
        ("1.00", "USD", 0, [7.503], "7.99", True),  # 7.9968
        ("1.00", "USD", 0, [7.5], "8.00", False),
        ("1.00", "GBP", 0, [10, 10, 600], "6.00", False),  # the median ignores a long break
        ("1.00", "GBP", 7, [10], "6.00", True),  # below the researcher's own target
        ("1.00", "EUR", 0, [60], "1.00", False),  # Prolific has no minimum in this currency
        ("1.00", "GBP", 0, [0], "5.00", True),  # no time at all: the estimate of 12 minutes counts
        ("1.00", "GBP", 0, [-5], "5.00", True),  # a clock that was set back
    ],
)
def test_the_pay_per_hour_of_hand_computed_cases(
    project: Project,
    judge: Judge,
    reward: str,
    currency: str,
    target: int,
    minutes: list[float],
    per_hour: str,
    too_low: bool,
) -> None:
    Project.objects.update(redundancy=5)
    row = recruit(
        project, reward=Decimal(reward), currency=currency, hourly_target=Decimal(target), estimated_minutes=12
    )
    for number, each in enumerate(minutes):
        worker = add_worker(project, judge, number, "finished", 0)
        Worker.objects.filter(pk=worker.pk).update(joined_at=worker.ended_at - timedelta(minutes=each))
    payment = summarise_payment(project, row)
    assert (payment.per_hour, payment.too_low) == (Decimal(per_hour), too_low)


def test_a_low_pay_is_pointed_out_before_opening(project: Project, owner: User, log_in: Any) -> None:
    recruit(project, reward=Decimal("0.50"), estimated_minutes=10)
    Project.objects.update(state="draft")
    assert "The pay of 3.00 GBP per hour is below the minimum" in log_in(owner).get("/projects/pets/").content.decode()


def test_the_funnel_counts_every_stage(project: Project, recruitment: Any) -> None:
    assert [(stage.label, stage.count) for stage in count_stages(project)] == [
        ("consented", 5),
        ("prepared", 5),
        ("judged at least one pair", 5),
        ("finished", 2),
        ("dropped out", 0),
        ("failed checks", 1),
        ("no work left", 1),
    ]


def test_the_checklist_says_what_is_missing(project: Project, recruitment: Any) -> None:
    entries = opening_checklist(project, recruitment, summarise_payment(project, recruitment))
    assert [entry.text for entry in entries if not entry.done] == [
        "Consent text",
        "Instructions",
        "Enough pairs for 40 judgements per worker",
        "Number of workers: 400 judgements planned, 27 possible",
        "ID of the study on Prolific",
    ]


def test_missing_entries_lead_to_the_page_where_they_are_added(
    project: Project, recruitment: Any, owner: User, log_in: Any
) -> None:
    page = log_in(owner).get("/projects/pets/participants/").text
    assert '<a href="/projects/pets/settings/">Consent text</a>' in page
    assert '<a href="/projects/pets/recruitment/">ID of the study on Prolific</a>' in page
    assert ">Code for workers who finished</a>" not in page


def test_the_overview_says_that_no_one_can_join_after_the_pilot(
    project: Project, owner: User, log_in: Any, judge: Judge
) -> None:
    client = log_in(owner)
    recruit(project, pilot_workers=1)
    assert "The pilot has ended" not in client.get("/projects/pets/").text
    add_worker(project, judge, 1, "finished", 5)
    page = client.get("/projects/pets/").text
    assert "The pilot has ended" in page
    assert 'href="/projects/pets/recruitment/">Change the settings' in page
    assert "Workers who come from the platform can judge from now on." in page
    recruit(project, pilot_workers=0)
    assert "The pilot has ended" not in client.get("/projects/pets/").text


def test_imported_and_simulated_workers_are_no_participants(project: Project, judge: Judge) -> None:
    settings = {"reward": Decimal("2.00"), "places": 10, "pilot_workers": 1}
    row = recruit(project, "", **settings)
    simulated = services.enrol_once(project=project, code=f"{SIMULATED}abc")
    judge(simulated)
    end_participation(worker=simulated, outcome="finished")
    imported = Worker.objects.create(project=project)
    judge(imported)
    Worker.objects.filter(pk=imported.pk).update(state="finished", outcome="import")
    payment = summarise_payment(project, row)
    assert (payment.n_timed, payment.spent) == (0, 0)
    assert [stage.count for stage in count_stages(project)] == [0, 0, 0, 0, 0, 0]
    assert count_others(project) == 2
    pilot = opening_checklist(project, row, payment)[-1]
    assert (pilot.text, pilot.done) == ("Pilot: at least one worker has finished", False)
    assert Project.objects.get(pk=project.pk).state == "open", "the pilot waits for its first person"
    assert Client().post("/s/pets/join/").status_code == 302


def read_list(client: Client, name: str) -> list[str]:
    return client.get(f"/projects/pets/participants/{name}").content.decode().splitlines()


def test_the_lists_for_prolific(project: Project, recruitment: Any, owner: User, log_in: Any) -> None:
    client = log_in(owner)
    approved = [f"{number:024d}" for number in range(3)]
    assert read_list(client, "approve.csv") == approved
    assert read_list(client, "bonus.csv?amount=0.50") == [f"{number:024x},0.50" for number in range(3)]
    [rejected] = read_list(client, "reject.csv")
    assert rejected.startswith(f"{8:024d},")
    assert len(rejected) > 24 + 100, "Prolific wants a reason of at least 100 characters"
    assert client.get("/projects/pets/participants/bonus.csv").status_code == 404
    page = client.get("/projects/pets/participants/").content.decode()
    assert f"{8:024x}" in page


@pytest.mark.parametrize("status", ["RETURNED", "TIMED_OUT", "REJECTED"])
def test_a_submission_that_the_platform_does_not_pay_costs_nothing_and_is_on_no_list(
    project: Project, recruitment: Any, owner: User, log_in: Any, status: str
) -> None:
    PlatformIdentity.objects.filter(session_id__in=[f"{number:024d}" for number in (1, 8)]).update(status=status)
    client = log_in(owner)
    assert read_list(client, "approve.csv") == [f"{number:024d}" for number in (0, 2)]
    assert read_list(client, "bonus.csv?amount=0.50") == [f"{number:024x},0.50" for number in (0, 2)]
    assert read_list(client, "reject.csv") == []
    assert summarise_payment(project, recruitment).spent == Decimal("4.00")


@pytest.mark.parametrize("link_id", ["=HYPERLINK(A1)", "@SUM(1+1)", "+1-1", "-2+3"])
def test_an_id_from_a_link_cannot_become_a_formula_in_a_list(
    project: Project, owner: User, log_in: Any, link_id: str
) -> None:
    recruit(project, "generic", participant_parameter="id")
    visitor = Client()
    welcome = visitor.get("/s/pets/", {"id": link_id})
    visitor.post("/s/pets/join/", {"arrival": welcome.context["form"]["arrival"].value(), "consent": "on"})
    end_participation(worker=Worker.objects.get(), outcome="finished")
    assert read_list(log_in(owner), "approve.csv") == [f"'{link_id}"]
    assert read_list(log_in(owner), "bonus.csv?amount=0.50") == [f"'{link_id},0.50"]


def test_the_lists_for_mturk(project: Project, owner: User, log_in: Any) -> None:
    recruit(project, "mturk")
    worker = services.enrol(project=project, platform="mturk", external_id="A1")
    PlatformIdentity.objects.update(session_id="3ASSIGNMENT")
    end_participation(worker=worker, outcome="finished")
    assert read_list(log_in(owner), "approve.csv") == ["AssignmentId,WorkerId,Approve,Reject", "3ASSIGNMENT,A1,x,"]


def test_a_researcher_ends_a_participation_and_the_worker_gets_the_code(
    project: Project, owner: User, log_in: Any, client: Client
) -> None:
    recruit(project)
    join(client, link(project))
    worker = Worker.objects.get()
    log_in(owner).post(f"/projects/pets/participants/{worker.code}/end/", {"outcome": "error"})
    assert CODES["error"] in client.get("/s/pets/").content.decode()
    log_in(owner).post(f"/projects/pets/participants/{worker.code}/end/", {"outcome": "screened_out"})
    worker.refresh_from_db()
    assert worker.outcome == "error", "the first outcome stays"


def test_a_pilot_lets_the_first_workers_in_and_then_pauses(project: Project) -> None:
    recruit(project, "", pilot_workers=2)
    clients = [Client() for _ in range(3)]
    assert [client.post("/s/pets/join/").status_code for client in clients] == [302, 302, 409]
    for worker in Worker.objects.all():
        assert Project.objects.get(slug="pets").state == "open"
        end_participation(worker=worker, outcome="finished")
    assert Project.objects.get(slug="pets").state == "paused"


def test_a_pilot_without_codes_pauses_after_the_last_answer(project: Project, judge: Judge) -> None:
    recruit(project, "", codes={}, pilot_workers=2)
    Project.objects.update(judgements_per_worker=1)
    for stops in (False, True):
        assert Project.objects.get(slug="pets").state == "open"
        client = Client()
        client.post("/s/pets/join/")
        worker = Worker.objects.select_related("project").latest("pk")
        if stops:
            client.post("/s/pets/stop/")
        else:
            judge(worker)
    assert Project.objects.get(slug="pets").state == "paused"


def test_a_returned_task_frees_its_place_in_the_pilot(project: Project, client: Client) -> None:
    recruit(project, pilot_workers=1)
    join(client, link(project))
    end_participation(worker=Worker.objects.get(), outcome="returned")
    assert Project.objects.get(slug="pets").state == "open"
    assert [join(Client(), link(project, f"{number:024x}")).status_code for number in (1, 2)] == [302, 409]


def test_a_pilot_worker_who_joins_on_a_second_device_is_let_in(project: Project, client: Client) -> None:
    recruit(project, pilot_workers=1)
    second = Client()
    arrival = second.get(link(project)).context["form"]["arrival"].value()
    join(client, link(project))
    assert second.post("/s/pets/join/", {"arrival": arrival, "consent": "on"}).status_code == 302
    assert Worker.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_no_more_workers_than_the_pilot_allows_join_at_once(project: Project) -> None:
    recruit(project, "", pilot_workers=3)
    statuses = run_concurrently([lambda: Client().post("/s/pets/join/").status_code] * 10)
    assert sorted(statuses) == [302] * 3 + [409] * 7
    assert Worker.objects.count() == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_the_end_of_a_pilot_and_leasing_do_not_wait_for_each_other(project: Project) -> None:
    """The last worker of the pilot comes back late, while workers who returned the task get their expired pairs."""
    for _ in range(ROUNDS):
        Worker.objects.update(state="withdrawn", consented_at=None)
        Project.objects.update(state="open", redundancy=50)
        project.refresh_from_db()
        recruit(project, pilot_workers=1)
        last, *others = [services.enrol(project=project) for _ in range(4)]
        Worker.objects.filter(pk__in=[other.pk for other in others]).update(outcome="returned")
        services.lease_pairs(worker=last, rng=Random(1))
        past = timezone.now() - timedelta(hours=1)
        Assignment.objects.filter(closed_at=None).update(issued_at=past - timedelta(hours=1), expires_at=past)
        calls: list[Callable[[], Any]] = [lambda last=last: finish(worker=last, has_pairs=False)]
        calls += [lambda other=other: services.lease_pairs(worker=other, rng=Random(2)) for other in others]
        ended, *leased = run_concurrently(calls)
        assert ended.outcome == "no_work_left"
        assert all(leased)
        project.refresh_from_db()
        assert project.state == "paused"
