"""“Test a text” and the pairs page: the predictions are the estimator's, and queries are validated."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling.dashboards.common.figures import rank_axis
from modelling.dashboards.new_text import new_text_page
from modelling.dashboards.pairs import pairs_page
from modelling.models import ModelSnapshot
from modelling.planning.information import expected_information
from modelling.training.ranking import Z_95
from modelling.training.snapshots import FittedModel, read_fitted_model
from modelling.web.forms.queries import PairsForm
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = pytest.mark.django_db

TEXT = "Cats purr at night and keep the mice away."


def test_the_expected_score_is_the_estimators(snapshot: ModelSnapshot, fitted: FittedModel) -> None:
    page = new_text_page(snapshot, TEXT, "")
    X = fitted.features.transform([TEXT])
    both = np.append(np.arange(fitted.model.n_items_), fitted.model.n_items_)
    mean, cov = fitted.model.predict_consensus(items=both, X_items=X, return_cov=True)
    contrast = np.append(np.full(len(mean) - 1, -1.0 / (len(mean) - 1)), 1.0)
    sd = np.sqrt(contrast @ cov @ contrast)
    relative = mean[-1] - mean[:-1].mean()
    assert (page.expected.mean, page.expected.sd) == (pytest.approx(relative), pytest.approx(sd))
    better = sum(fitted.model.predict_consensus() > mean[-1])
    assert page.expected.rank == 1 + better
    assert page.expected.rank_low <= page.expected.rank <= page.expected.rank_high <= 8


def test_a_questionnaire_answer_is_listed_only_if_its_workers_clearly_differ(project: Project) -> None:
    version = make_fitted_study(project)
    groups = {each.answer: each for each in new_text_page(version, "Evidence and numbers, reason 40.", "").groups}
    assert list(groups) == ["facts", "stories"]
    facts, stories = groups.values()
    assert (facts.question, facts.workers, stories.workers) == ("camp", 8, 8)
    assert facts.difference == pytest.approx(-stories.difference)
    assert facts.difference > Z_95 * facts.difference_sd > 0.0
    fitted = read_fitted_model(project, version.checksum, version.number)
    X, text = fitted.features.transform(["Evidence and numbers, reason 40."]), [fitted.model.n_items_]
    scores = fitted.model.predict_utilities(items=text, X_items=X, among=fitted.centre)[0]
    camps = dict(project.workers.values_list("pk", "traits__camp"))
    likes_facts = np.array([camps[pk] == "facts" for pk in fitted.worker_ids.tolist()])
    assert facts.mean == pytest.approx(scores[likes_facts].mean())
    assert facts.difference == pytest.approx(scores[likes_facts].mean() - scores.mean())
    assert new_text_page(version, "Plain words, reason 40.", "").groups == []


def test_a_text_that_is_already_there_is_its_own_nearest_neighbour(snapshot: ModelSnapshot) -> None:
    score = snapshot.scores.get(item__key="dogs-2")
    page = new_text_page(snapshot, score.item.text, "")
    assert page.neighbours[0].score == score
    assert page.neighbours[0].similarity == pytest.approx(1.0)
    assert abs(page.expected.mean) <= abs(score.mean), "what the text shares with its twin, not the twin's own part"
    assert page.expected.mean * score.mean > 0.0


def test_within_a_group_only_its_items_are_compared(snapshot: ModelSnapshot) -> None:
    page = new_text_page(snapshot, TEXT, "dogs")
    assert page.expected.n_items == 3
    assert {opponent.score.item.group for opponent in page.opponents} == {"dogs"}
    assert new_text_page(snapshot, TEXT, "birds") is None


def test_information_is_largest_where_the_outcome_is_most_uncertain() -> None:
    bits = expected_information(np.array([0.0, 0.0, 3.0, 0.0]), np.array([0.0, 1.0, 1.0, 100.0]))
    assert bits[0] == pytest.approx(0.0, abs=1e-9)
    assert bits[2] < bits[1] < bits[3] < 1.0


def test_a_pair_has_its_probability_and_its_judgements_so_far(snapshot: ModelSnapshot, fitted: FittedModel) -> None:
    page = pairs_page(snapshot, [], "", None)
    at = {int(pk): place for place, pk in enumerate(fitted.item_ids)}
    for row in page.rows:
        for other, cell in zip(page.rows, row.cells, strict=True):
            if row.item == other.item:
                assert cell.probability is None
                continue
            p = fitted.model.predict_consensus_proba([at[row.item.pk]], [at[other.item.pk]])[0]
            assert cell.probability == pytest.approx(p)
    answered = sum(cell.judgements for row in page.rows for cell in row.cells)
    assert answered == 2 * Judgement.objects.count()


def test_pairs_of_one_worker_count_only_their_judgements(
    snapshot: ModelSnapshot, fitted: FittedModel, crowd: list[Worker]
) -> None:
    page = pairs_page(snapshot, ["cats-1", "dogs-1", "birds-9"], "", crowd[0])
    assert page.missing == ["birds-9"]
    at = [int(np.flatnonzero(fitted.item_ids == row.item.pk)[0]) for row in page.rows]
    user = int(np.flatnonzero(fitted.worker_ids == crowd[0].pk)[0])
    assert page.rows[0].cells[1].probability == pytest.approx(fitted.model.predict_proba([user], at[:1], at[1:])[0])
    theirs = Judgement.objects.filter(worker=crowd[0], item_lo__key="cats-1", item_hi__key="dogs-1").count()
    assert page.rows[0].cells[1].judgements == theirs


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("new-argument/?text=", "Enter a text."),
        ("new-argument/?text=" + "x" * 5001, "The text has 5001 characters; at most 5000 are allowed."),
        ("new-argument/?text=x&group=birds", "Select a valid choice"),
        ("pairs/?worker=nobody", "There is no worker with this code"),
        ("pairs/?items=" + ",".join(f"cats-{n}" for n in range(26)), "Choose at most 25 items."),
    ],
)
def test_an_invalid_query_shows_the_reason(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], address: str, message: str
) -> None:
    answer = log_in(owner).get(f"/projects/pets/{address}")
    assert answer.status_code == 200
    assert message in answer.content.decode()


def test_a_text_sent_by_post_is_not_stored(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client, before = log_in(viewer), (Judgement.objects.count(), AuditEntry.objects.count())
    long = "Cats purr at night. " * 240
    answer = client.post("/projects/pets/new-argument/", {"text": long, "group": "dogs"})
    assert answer.context["page"].expected == new_text_page(snapshot, long.strip(), "dogs").expected
    assert answer.context["link"] == ""
    assert "data-submitted" in answer.text
    part = client.post("/projects/pets/new-argument/?fragment=1", {"text": long, "group": "dogs"})
    assert part.context["page"].expected == answer.context["page"].expected
    assert "<html" not in part.text
    assert (Judgement.objects.count(), AuditEntry.objects.count()) == before
    services.archive_project(project=snapshot.project, user=None, archived=True)
    assert client.post("/projects/pets/new-argument/", {"text": TEXT}).status_code == 200


def test_a_text_that_is_too_long_is_kept_in_the_box_and_not_cut(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(viewer).post("/projects/pets/new-argument/", {"text": f"{'x' * 6000} the end"})
    assert "maxlength" not in answer.text
    assert "the end</textarea>" in answer.text
    assert "The text has 6008 characters" in answer.text
    assert "Nothing was changed" not in answer.text


def test_a_text_stays_in_the_box_if_the_model_data_cannot_be_loaded(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.update(checksum="0" * 64, pruned_at=timezone.now())
    page = log_in(viewer).post("/projects/pets/new-argument/", {"text": TEXT}).text
    assert f"{TEXT}</textarea>" in page
    assert "Only the ranking of this old version is kept." in page


def test_page_figure_and_file_have_the_same_rank_within_a_group(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    data, client = {"text": TEXT, "group": "dogs"}, log_in(owner)
    answer = client.post("/projects/pets/new-argument/", data)
    expected, (figure,) = answer.context["page"].expected, answer.context["page"].figures
    assert figure.traces[0]["x"] == [1, 2, 3]
    assert figure.traces[1]["x"] == [expected.rank]
    assert "Rank (all items)" in answer.text
    file = client.post("/projects/pets/new-argument/?csv=new-argument", data).content.decode().splitlines()
    assert file[1] == f"this text,{expected.rank},{round(expected.mean, 4)}"
    assert [line.split(",")[1] for line in file[2:]] == ["1", "2", "3"]


def test_a_quoted_key_may_contain_a_comma(project: Project) -> None:
    form = PairsForm(project, {"items": 'cats-1, "a, b" ,"say ""no""", dogs-1,'})
    assert form.is_valid()
    assert form.cleaned_data["items"] == ["cats-1", "a, b", 'say "no"', "dogs-1"]


def test_the_link_of_a_short_text_gives_the_same_prediction(
    snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(viewer)
    posted = client.post("/projects/pets/new-argument/", {"text": "Cats & dogs? 100 %", "group": "dogs"})
    linked = client.get(f"/projects/pets/new-argument/{posted.context['link']}")
    assert linked.context["page"].expected == posted.context["page"].expected
    assert "data-submitted" not in linked.text


def test_a_post_without_csrf_token_is_refused(snapshot: ModelSnapshot, owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    assert client.post("/projects/pets/new-argument/", {"text": TEXT}).status_code == 403


def test_an_empty_text_is_refused(snapshot: ModelSnapshot, viewer: User, log_in: Callable[[User], Client]) -> None:
    assert "Enter a text." in log_in(viewer).post("/projects/pets/new-argument/", {"text": " "}).text


def test_an_axis_of_few_ranks_has_whole_number_ticks(snapshot: ModelSnapshot) -> None:
    few = new_text_page(snapshot, TEXT, "dogs").figures[0]
    places = few.traces[0]["x"]
    assert few.layout["xaxis"]["dtick"] == 1
    assert few.layout["xaxis"]["range"] == [0.5, max(places[-1], few.traces[1]["x"][0]) + 0.5]
    many = rank_axis([1, 400])
    assert (many["tick0"], many["dtick"]) == (1, 50)
