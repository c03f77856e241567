"""Pages of a study with arms: what the filter changes, and what stays the model's."""

import pytest
from django.http import QueryDict
from django.test import Client

from annotation.http.arm_filter import ArmFilter
from annotation.models import Arm, Judgement, Project, User, Worker
from annotation.services.participation.arms import change_arms
from modelling.dashboards.common.freshness import get_freshness
from modelling.dashboards.components import components_page
from modelling.dashboards.item import item_page
from modelling.dashboards.pairs import pairs_page
from modelling.dashboards.progress import progress_page
from modelling.dashboards.ranking import RankingQuery, ranking_page
from modelling.dashboards.reliability import ReliabilityPage, reliability_page
from modelling.dashboards.workers.listing import WorkersQuery, workers_page
from modelling.models import ModelSnapshot
from modelling.training.reliability import Estimate
from modelling.training.votes import training_judgements
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def arms(snapshot: ModelSnapshot) -> dict[str, ArmFilter]:
    """The two camps of the study as its arms, by name; "" for all."""
    project = snapshot.project
    change_arms(project=project, user=None, arms=[Arm(name="facts"), Arm(name="stories")])
    for arm in Arm.objects.filter(project=project):
        Worker.objects.filter(project=project, traits__camp=arm.name).update(arm=arm)
    return {name: ArmFilter.parse(project, QueryDict(f"arm={name}")) for name in ("", "facts", "stories", "unknown")}


def test_an_unknown_arm_shows_all(arms: dict[str, ArmFilter]) -> None:
    assert arms["unknown"].chosen is None
    assert arms["unknown"].names == ["facts", "stories"]


def test_progress_counts_the_judgements_of_an_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    freshness = get_freshness(snapshot.project)
    pages = {name: progress_page(freshness, arms[name]) for name in ("", "facts", "stories")}
    assert pages["facts"].judgements == Judgement.objects.answers().filter(worker__arm__name="facts").count()
    assert pages[""].judgements == pages["facts"].judgements + pages["stories"].judgements
    assert pages["facts"].agreement.between > pages[""].agreement.between, "a camp agrees more than the crowd"


def test_the_ranking_shows_the_votes_of_an_arm_beside_the_model(
    snapshot: ModelSnapshot, arms: dict[str, ArmFilter]
) -> None:
    query = RankingQuery(order="rank")
    everyone, facts, stories = (ranking_page(snapshot, query, arms[name]) for name in ("", "facts", "stories"))
    assert [row.score for row in facts.rows] == [row.score for row in everyone.rows], "the model's ranking stays"
    for row, one, other in zip(everyone.rows, facts.rows, stories.rows, strict=True):
        assert row.votes.wins == one.votes.wins + other.votes.wins
    assert [row.votes.bradley_terry_rank for row in facts.rows] != [
        row.votes.bradley_terry_rank for row in stories.rows
    ]


def test_the_order_by_votes_is_that_of_the_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    pages = [ranking_page(snapshot, RankingQuery(order="votes"), arms[name]) for name in ("facts", "stories")]
    for page in pages:
        ranks = [row.votes.bradley_terry_rank for row in page.rows]
        assert ranks == sorted(ranks)
    best, worst = ([row.item.text.split(",")[0] for row in page.rows[:3]] for page in pages)
    assert best.count("Evidence and numbers") > worst.count("Evidence and numbers")


def test_workers_and_judgements_can_be_filtered_by_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    page = workers_page(snapshot.project, snapshot, WorkersQuery(), arms["facts"])
    assert {row.arm for row in page.rows} == {"facts"}
    assert len(page.rows) == 8
    item = snapshot.project.items.filter(active=True).first()
    item.project = snapshot.project
    shown = item_page(snapshot, item, arms["stories"])
    assert {judgement.worker.arm.name for judgement in shown.judgements} == {"stories"}


def test_reliability_is_that_of_the_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    everyone, facts, stories = (reliability_page(snapshot, arms[name]) for name in ("", "facts", "stories"))
    n = [measure(page, "tie_rate").n for page in (everyone, facts, stories)]
    assert n[1] == training_judgements(snapshot).filter(worker__arm__name="facts").count()
    assert n[1] + n[2] == n[0]
    alpha = [measure(page, "alpha").value for page in (everyone, facts, stories)]
    assert min(alpha[1:]) > alpha[0]  # each camp agrees with itself more than with the other


def measure(page: ReliabilityPage, name: str) -> Estimate:
    found = next(each.estimate for each in page.measures if each.name == name)
    assert found is not None
    return found


def test_components_show_the_workers_of_an_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    everyone, facts = (components_page(snapshot, arms[name]) for name in ("", "facts"))
    assert facts.axes == everyone.axes
    shown = [each.worker for part in facts.components for _label, end in part.ends for each in end.workers]
    assert shown
    assert {Worker.objects.get(pk=worker.pk).arm.name for worker in shown} == {"facts"}


def test_pairs_count_the_judgements_of_an_arm(snapshot: ModelSnapshot, arms: dict[str, ArmFilter]) -> None:
    pages = {name: pairs_page(snapshot, [], "", None, arms[name]) for name in ("", "facts", "stories")}
    cells = {name: [cell for row in page.rows for cell in row.cells] for name, page in pages.items()}
    counts = {name: sum(cell.judgements for cell in found) for name, found in cells.items()}
    assert 0 < counts["facts"] < counts["facts"] + counts["stories"] == counts[""]
    assert [cell.probability for cell in cells["facts"]] == [cell.probability for cell in cells[""]]


@pytest.mark.parametrize(
    "page", ["progress", "ranking", "workers", "ranking/{item}", "reliability", "components", "pairs"]
)
def test_every_filter_page_says_which_arm_it_shows(
    page: str, snapshot: ModelSnapshot, arms: dict[str, ArmFilter], owner: User, client: Client
) -> None:
    client.force_login(owner)
    item = Judgement.objects.first().item_lo_id
    path = "activity" if page == "progress" else page.format(item=item)
    content = client.get(f"/projects/{snapshot.project.slug}/{path}/?arm=facts").content.decode()
    assert '<option value="facts" selected>facts</option>' in content


def test_the_ranking_says_what_the_filter_does(
    snapshot: ModelSnapshot, arms: dict[str, ArmFilter], owner: User, client: Client
) -> None:
    client.force_login(owner)
    content = client.get(f"/projects/{snapshot.project.slug}/ranking/?arm=facts").content.decode()
    assert "which learns from the answers of all arms" in content
    assert "which learns from" not in client.get(f"/projects/{snapshot.project.slug}/ranking/").content.decode()


def test_a_worker_page_shows_the_arm(
    snapshot: ModelSnapshot, arms: dict[str, ArmFilter], owner: User, client: Client
) -> None:
    client.force_login(owner)
    worker = Worker.objects.filter(arm__name="facts").first()
    content = client.get(f"/projects/{snapshot.project.slug}/workers/{worker.code}/").content.decode()
    assert "<bdi>facts</bdi>" in content


def test_a_study_without_arms_has_no_filter(snapshot: ModelSnapshot, project: Project) -> None:
    assert ArmFilter.parse(project, QueryDict("arm=facts")).names == []
