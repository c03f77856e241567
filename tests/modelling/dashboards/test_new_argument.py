"""A text that nobody has judged, and pairs of items: what the pages say is what the estimator says."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling.dashboards.new_argument import new_argument_page
from modelling.dashboards.pairs import pairs_page
from modelling.dashboards.pictures import ranks_axis
from modelling.information import expected_information
from modelling.models import ModelSnapshot
from modelling.questions import PairsForm
from modelling.snapshots import Fitted
from tests.modelling.two_camps import fitted_study, grown_twin, statements

pytestmark = pytest.mark.django_db

TEXT = "Cats purr at night and keep the mice away."


def test_the_expected_score_is_the_estimators(snapshot: ModelSnapshot, fitted: Fitted) -> None:
    page = new_argument_page(snapshot, TEXT, "")
    X = fitted.features.transform([TEXT])
    both = np.append(np.arange(fitted.model.n_items_), fitted.model.n_items_)
    mean, cov = fitted.model.predict_consensus(items=both, X_items=X, return_cov=True)
    from_the_others = np.append(np.full(len(mean) - 1, -1.0 / (len(mean) - 1)), 1.0)
    sd = np.sqrt(from_the_others @ cov @ from_the_others)
    assert (page.expected.mean, page.expected.sd) == (pytest.approx(mean[-1]), pytest.approx(sd))
    better = sum(fitted.model.predict_consensus() > mean[-1])
    assert page.expected.rank == 1 + better
    assert page.expected.rank_low <= page.expected.rank <= page.expected.rank_high <= 8


def test_a_text_that_is_already_there_is_its_own_nearest_neighbour(snapshot: ModelSnapshot) -> None:
    score = snapshot.scores.get(item__key="dogs-2")
    page = new_argument_page(snapshot, score.item.text, "")
    assert page.neighbours[0].score == score
    assert page.neighbours[0].similarity == pytest.approx(1.0)
    assert page.expected.mean == pytest.approx(score.mean, abs=1e-6)


def test_among_a_group_only_its_items_are_compared(snapshot: ModelSnapshot) -> None:
    page = new_argument_page(snapshot, TEXT, "dogs")
    assert page.expected.n_items == 3
    assert {opponent.score.item.group for opponent in page.opponents} == {"dogs"}
    assert new_argument_page(snapshot, TEXT, "birds") is None


def test_an_answer_tells_most_where_nothing_is_known() -> None:
    bits = expected_information(np.array([0.0, 0.0, 3.0, 0.0]), np.array([0.0, 1.0, 1.0, 100.0]))
    assert bits[0] == pytest.approx(0.0, abs=1e-9)
    assert bits[2] < bits[1] < bits[3] < 1.0


def test_a_pair_shows_the_probability_and_the_answers_so_far(snapshot: ModelSnapshot, fitted: Fitted) -> None:
    page = pairs_page(snapshot, [], "", None)
    at = {int(pk): place for place, pk in enumerate(fitted.item_ids)}
    for row in page.rows:
        for other, cell in zip(page.rows, row.cells, strict=True):
            if row.item == other.item:
                assert cell.probability is None
                continue
            p = fitted.model.predict_consensus_proba([at[row.item.pk]], [at[other.item.pk]])[0]
            assert cell.probability == pytest.approx(p)
    answered = sum(cell.answers for row in page.rows for cell in row.cells)
    assert answered == 2 * Judgement.objects.count()


def test_a_pair_in_one_workers_eyes_counts_their_answers_only(
    snapshot: ModelSnapshot, fitted: Fitted, crowd: list[Worker]
) -> None:
    page = pairs_page(snapshot, ["cats-1", "dogs-1", "birds-9"], "", crowd[0])
    assert page.missing == ["birds-9"]
    at = [int(np.flatnonzero(fitted.item_ids == row.item.pk)[0]) for row in page.rows]
    user = int(np.flatnonzero(fitted.worker_ids == crowd[0].pk)[0])
    assert page.rows[0].cells[1].probability == pytest.approx(fitted.model.predict_proba([user], at[:1], at[1:])[0])
    theirs = Judgement.objects.filter(worker=crowd[0], item_lo__key="cats-1", item_hi__key="dogs-1").count()
    assert page.rows[0].cells[1].answers == theirs


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("new-argument/?text=", "Write or paste a text first."),
        ("new-argument/?text=" + "x" * 5001, "The text has 5001 letters, and the model reads at most 5000."),
        ("new-argument/?text=x&group=birds", "Select a valid choice"),
        ("pairs/?worker=nobody", "There is no worker with this code"),
        ("pairs/?items=" + ",".join(f"cats-{n}" for n in range(26)), "Choose at most 25 items."),
    ],
)
def test_a_question_that_cannot_be_answered_is_told_why(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], address: str, words: str
) -> None:
    answer = log_in(owner).get(f"/projects/pets/{address}")
    assert answer.status_code == 200
    assert words in answer.content.decode()


def test_a_pasted_text_is_asked_by_post_and_leaves_no_trace(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client, before = log_in(viewer), (Judgement.objects.count(), AuditEntry.objects.count())
    long = "Cats purr at night. " * 240
    answer = client.post("/projects/pets/new-argument/", {"text": long, "group": "dogs"})
    assert answer.context["page"].expected == new_argument_page(snapshot, long.strip(), "dogs").expected
    assert answer.context["link"] == ""
    assert "data-asked" in answer.text
    part = client.post("/projects/pets/new-argument/?fragment=1", {"text": long, "group": "dogs"})
    assert part.context["page"].expected == answer.context["page"].expected
    assert "<html" not in part.text
    assert (Judgement.objects.count(), AuditEntry.objects.count()) == before
    services.archive_project(project=snapshot.project, user=None, archived=True)
    assert client.post("/projects/pets/new-argument/", {"text": TEXT}).status_code == 200


def test_the_browser_cuts_nothing_and_a_refused_text_stays_in_the_box(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(viewer).post("/projects/pets/new-argument/", {"text": f"{'x' * 6000} the end"})
    assert "maxlength" not in answer.text
    assert "the end</textarea>" in answer.text
    assert "The text has 6008 letters" in answer.text
    assert "Nothing was changed" not in answer.text


def test_a_text_stays_in_the_box_when_the_version_behind_it_cannot_be_read(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.update(checksum="0" * 64, pruned_at=timezone.now())
    page = log_in(viewer).post("/projects/pets/new-argument/", {"text": TEXT}).text
    assert f"{TEXT}</textarea>" in page
    assert "This version is old" in page


def test_in_a_group_the_words_the_picture_and_its_file_say_the_same_rank(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    asked, client = {"text": TEXT, "group": "dogs"}, log_in(owner)
    answer = client.post("/projects/pets/new-argument/", asked)
    expected, (picture,) = answer.context["page"].expected, answer.context["page"].pictures
    assert picture.traces[0]["x"] == [1, 2, 3]
    assert picture.traces[1]["x"] == [expected.rank]
    assert "Rank among all" in answer.text
    file = client.post("/projects/pets/new-argument/?csv=new-argument", asked).content.decode().splitlines()
    assert file[1] == f"this text,{expected.rank},{round(expected.mean, 4)}"
    assert [line.split(",")[1] for line in file[2:]] == ["1", "2", "3"]


def test_a_key_with_a_comma_is_one_key_in_quotation_marks(project: Project) -> None:
    form = PairsForm(project, {"items": 'cats-1, "a, b" ,"say ""no""", dogs-1,'})
    assert form.is_valid()
    assert form.cleaned_data["items"] == ["cats-1", "a, b", 'say "no"', "dogs-1"]


def test_the_link_of_a_short_text_asks_the_same(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(viewer)
    asked = client.post("/projects/pets/new-argument/", {"text": "Cats & dogs? 100 %", "group": "dogs"})
    linked = client.get(f"/projects/pets/new-argument/{asked.context['link']}")
    assert linked.context["page"].expected == asked.context["page"].expected
    assert "data-asked" not in linked.text


def test_a_question_from_another_site_is_refused(snapshot: ModelSnapshot, owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.post("/projects/pets/new-argument/", {"text": TEXT}).status_code == 403


def test_an_empty_question_is_told_what_is_missing(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    assert "Write or paste a text first." in log_in(viewer).post("/projects/pets/new-argument/", {"text": " "}).text


def test_as_many_statements_for_three_times_the_study_also_on_pages_that_have_no_test_of_their_own(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    fitted_study(project)
    grown_twin(project, owner)
    client = log_in(owner)
    for page in (f"new-argument/?text={TEXT}", "pairs/", "activity/", "ranking/"):
        one, three = (statements(client, f"/projects/{slug}/{page}") for slug in ("pets", "twin"))
        assert one == three <= 15, page


def test_the_axis_of_few_ranks_has_whole_places_only(snapshot: ModelSnapshot) -> None:
    few = new_argument_page(snapshot, TEXT, "dogs").pictures[0]
    places = few.traces[0]["x"]
    assert few.layout["xaxis"]["dtick"] == 1
    assert few.layout["xaxis"]["range"] == [0, max(places[-1], few.traces[1]["x"][0]) + 1]
    assert "dtick" not in ranks_axis([1, 400])
