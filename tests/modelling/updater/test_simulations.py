"""Simulations of planned studies: one crowd at a time, cancellable, bounded, kept in passport and archive."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from annotation.models import Project, User
from annotation.services.participation.passport import freeze, get_passport, list_changes
from modelling.exports.archive import build_manifest
from modelling.models import StudySimulation
from modelling.planning import designer
from modelling.updater import leases, simulations
from modelling.updater.loop import run_once
from modelling.updater.simulations import cancel_simulation, request_simulation, simulate_one
from tests.modelling.planning.test_designer import PLAN
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db
PAY = {"per_judgement": 0.08, "currency": "GBP"}
FORM = {
    "n_items": 8, "n_workers": 6, "judgements_each": 20, "redundancy": 10, "policy": "order", "random_share": 20,
    "top_k": 3, "self_agreement": 90, "agreement": 85, "crowds": 3, "pay_kind": "judgement", "pay": "0.08",
    "seconds": "", "currency": "GBP",
}  # fmt: skip
PAGE = "/projects/pets/designer/"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Curves without a fit."""

    def rows(plan: designer.StudyPlan, seed: int) -> list[designer.Row]:
        half = plan.n_judgements // 2
        return [(half, 0.5 + 0.01 * seed, 0.5, 4.0), (plan.n_judgements, 0.82 + 0.01 * seed, 0.9, 2.0)]

    monkeypatch.setattr(simulations, "simulate_plan", rows)


def run_all() -> int:
    n = 0
    while simulate_one("test"):
        n += 1
    return n


@pytest.mark.both_databases
@pytest.mark.usefixtures("quick")
def test_each_claim_simulates_one_crowd(project: Project, owner: User) -> None:
    assert request_simulation(project=project, user=owner, plan=PLAN, pay=PAY)
    assert not request_simulation(project=project, user=owner, plan=PLAN, pay=PAY)
    assert simulate_one("test")
    job = StudySimulation.objects.get()
    assert (job.state, len(job.crowds), job.progress["crowds"], job.owner) == ("running", 1, 1, "")
    assert run_all() == 2
    job.refresh_from_db()
    assert (job.state, len(job.crowds), job.progress) == ("done", 3, {})
    assert not simulate_one("test")


def test_a_real_simulation_runs_in_the_loop_of_the_updater(project: Project) -> None:
    request_simulation(project=project, user=None, plan=PLAN, pay={})
    while run_once("test").worked:
        pass
    job = StudySimulation.objects.get()
    assert (job.state, job.message) == ("done", "")
    assert job.seconds > 0
    assert all(0.0 <= value <= 1.0 for crowd in job.crowds for value in crowd["recall"])


@pytest.mark.both_databases
def test_cancelling_takes_the_lease_from_the_running_process(
    project: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulations, "REPORT_SECONDS", 0.0)
    request_simulation(project=project, user=owner, plan=PLAN, pay={})
    rounds = []

    def meanwhile() -> None:
        rounds.append(cancel_simulation(project=project, user=owner))

    assert simulate_one("test", meanwhile)
    job = StudySimulation.objects.get()
    assert (job.state, job.crowds, rounds) == ("cancelled", [], [True])
    assert project.audit.filter(action="cancelled the simulation of the study").count() == 1
    assert not cancel_simulation(project=project, user=owner)
    assert not simulate_one("test")


@pytest.mark.usefixtures("quick")
def test_a_killed_process_loses_at_most_one_crowd(project: Project) -> None:
    request_simulation(project=project, user=None, plan=PLAN, pay={})
    simulate_one("first")
    job = StudySimulation.objects.get()
    StudySimulation.objects.update(owner="killed", lease_until=timezone.now() - job.lease_duration)
    assert run_all() == 2
    assert len(StudySimulation.objects.get().crowds) == 3


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("done", "state"), [(0, "failed"), (3, "done")])
def test_a_simulation_ends_when_its_time_is_over(
    project: Project, done: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = designer.StudyPlan(**{**PLAN.as_dict(), "crowds": 10})
    request_simulation(project=project, user=None, plan=plan, pay={})
    for _ in range(done):
        simulate_one("test")
    monkeypatch.setattr(simulations, "MAX_SECONDS", -1.0)
    simulate_one("test")
    job = StudySimulation.objects.get()
    assert (job.state, len(job.crowds)) == (state, done)
    assert "ten minutes of computing" in job.message


def test_an_unexpected_error_fails_the_job(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulations, "simulate_plan", lambda plan, seed: 1 / 0)
    request_simulation(project=project, user=None, plan=PLAN, pay={})
    assert simulate_one("test")
    assert StudySimulation.objects.get().state == "failed"


@pytest.mark.usefixtures("quick")
def test_the_result_is_in_the_passport_and_in_the_archive(project: Project, owner: User) -> None:
    request_simulation(project=project, user=owner, plan=PLAN, pay=PAY)
    run_all()
    summary = get_passport(project).simulation
    assert (summary["judgements"], summary["crowds"], summary["pay"]) == (120, 3, PAY)
    assert summary["result"]["tau"][0] == pytest.approx(0.83)
    freeze(project)
    assert get_passport(project).content["simulation"] == summary
    archived = build_manifest(make_version(project, 1), "")["simulation"]
    assert (archived["plan"], len(archived["crowds"])) == (PLAN.as_dict(), 3)
    later = designer.StudyPlan(**{**PLAN.as_dict(), "n_workers": 7})
    request_simulation(project=project, user=owner, plan=later, pay=PAY)
    run_all()
    assert [change.name for change in list_changes(get_passport(project))] == ["simulation"]


def test_old_simulations_are_deleted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulations, "KEPT", 2)
    for _ in range(4):
        request_simulation(project=project, user=None, plan=PLAN, pay={})
        cancel_simulation(project=project, user=None)
    assert StudySimulation.objects.count() == 2


# The page


@pytest.fixture
def olga(client: Client, owner: User) -> Client:
    client.force_login(owner)
    return client


@pytest.mark.usefixtures("quick")
def test_the_page_starts_shows_and_keeps_simulations(olga: Client, project: Project) -> None:
    assert "No simulation yet." in olga.get(PAGE).text
    started = olga.post(f"{PAGE}simulate/", FORM, follow=True)
    assert "The simulation has started." in started.text
    assert "Cancel the simulation" in started.text
    simulate_one("test")
    assert "1 of 3 crowds simulated" in olga.get(PAGE).text
    run_all()
    page = olga.get(PAGE).text
    [(judgements, cost)] = re.findall(r"tau of 0\.8: about (\d+) judgements \(([\d.]+) GBP\)", page)
    assert 110 < int(judgements) <= 120
    assert float(cost) == pytest.approx(0.08 * int(judgements))
    assert "tau of 0.9: not reached." in page
    assert 'value="90"' in page  # the form remembers the last plan
    csv = olga.get(f"{PAGE}?csv=accuracy")
    assert csv.status_code == 200
    assert "9.60 GBP" in csv.text
    assert "simulation" in olga.get("/projects/pets/passport/").text.lower()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_items": 2}, "A study needs at least 3 items."),
        ({"n_items": 201}, "Choose a whole number from 3 to 200."),
        ({"n_items": 5, "judgements_each": 11}, "5 items form only 10 pairs, and a worker judges a pair at most once."),
        ({"n_items": 5, "judgements_each": 10, "redundancy": 1}, "60 judgements, but 10 pairs allow only 10"),
        ({"n_items": 200, "n_workers": 500}, "That is 10,000 judgements; at most 5,000 are possible."),
        ({"top_k": 8}, "Choose fewer top items than there are items."),
        ({"agreement": 95}, "Two workers cannot agree more often than a worker repeats an answer."),
        ({"pay": ""}, "Enter an amount, or choose “no pay”."),
        ({"pay_kind": "hour"}, "Enter how many seconds a judgement takes."),
        ({"policy": "magic"}, "magic"),
        ({"n_workers": "many"}, "Choose a whole number from 1 to 500."),
    ],
)
def test_impossible_plans_are_refused_with_a_reason(
    olga: Client, project: Project, changes: dict[str, Any], message: str
) -> None:
    refused = olga.post(f"{PAGE}simulate/", FORM | changes)
    assert refused.status_code == 422
    assert message in refused.text
    assert not StudySimulation.objects.exists()


def test_pay_per_hour_becomes_a_cost_per_judgement(olga: Client, project: Project) -> None:
    olga.post(f"{PAGE}simulate/", FORM | {"pay_kind": "hour", "pay": "9", "seconds": "20"})
    assert StudySimulation.objects.get().pay == {"per_judgement": 0.05, "currency": "GBP"}


def test_viewers_see_results_but_cannot_simulate(client: Client, project: Project, viewer: User) -> None:
    client.force_login(viewer)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "Plan a study" not in page.text
    assert client.post(f"{PAGE}simulate/", FORM).status_code == 403
    assert client.post(f"{PAGE}cancel/").status_code == 403


def test_a_cancelled_simulation_is_named(olga: Client, project: Project) -> None:
    olga.post(f"{PAGE}simulate/", FORM)
    assert "The simulation was cancelled." in olga.post(f"{PAGE}cancel/", follow=True).text
    assert "Cancelled." in olga.get(PAGE).text
    assert leases.RELEASED["owner"] == StudySimulation.objects.get().owner
