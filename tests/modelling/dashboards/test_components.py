"""The components page: every number is the estimator's, and figures, names and files agree with it."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Item, Project, User
from annotation.services import Receipt
from modelling.dashboards.common.traits import find_links, group_by_trait
from modelling.dashboards.components import components_page
from modelling.exports.catalogue import build_export
from modelling.exports.points import ExportError, resolve_point
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.training.snapshots import CODE_VERSION
from modelling.training.storage import array_store
from modelling.training.verification import find_problems
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import load_estimator
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db


def test_every_number_is_the_estimators(snapshot: ModelSnapshot) -> None:
    page, (model, stored) = components_page(snapshot), load_estimator(snapshot)
    row = ComponentNumbers.objects.get(snapshot=snapshot)
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    worker_at = {int(pk): place for place, pk in enumerate(stored["worker_ids"])}
    place_of = {number: c for c, number in enumerate(row.numbers)}
    assert [axis.number for axis in page.axes] == sorted(row.numbers)
    for axis in page.axes:
        c = place_of[axis.number]
        assert axis.variance == model.component_variances_[c]
        assert axis.share == 100 * axis.variance / model.component_variances_.max()
    for component in page.components:
        c, sign = place_of[component.axis.number], row.signs[place_of[component.axis.number]]
        for end in (component.high, component.low):
            for there in end.items:
                assert there.value == sign * model.item_components_[c, item_at[there.item.pk]]
            for person in end.workers:
                assert person.value == sign * model.user_components_[c, worker_at[person.worker.pk]]


def test_there_are_no_components_if_all_judgements_are_ties(
    project: Project, owner: User, judge: Callable[..., Receipt], log_in: Callable[[User], Client]
) -> None:
    Project.objects.filter(pk=project.pk).update(redundancy=10)
    project.refresh_from_db()
    for worker in [services.enrol(project=project) for _ in range(3)]:
        for _ in range(6):
            judge(worker, "tie")
    page = components_page(update_one("test"))
    assert (page.axes, page.components, page.figures) == ([], [], [])
    assert "The judgements show no components" in log_in(owner).get("/projects/pets/components/").text
    assert log_in(owner).get("/projects/pets/workers/").status_code == 200


def test_ends_are_the_extremes_with_the_posterior_standard_deviation(snapshot: ModelSnapshot) -> None:
    component, (model, stored) = components_page(snapshot).components[0], load_estimator(snapshot)
    c = int(np.argmax(model.component_variances_))
    sign = np.sign(component.high.items[0].value - component.low.items[0].value)
    values = model.item_components_[c][np.isin(stored["item_ids"], [i.pk for i in Item.objects.filter(active=True)])]
    assert sign == 1.0
    assert {abs(component.high.items[0].value), abs(component.low.items[0].value)} <= set(np.abs(values))
    assert component.high.items[0].value - component.low.items[0].value == np.ptp(values)
    person = component.high.workers[0]
    u = int(np.flatnonzero(stored["worker_ids"] == person.worker.pk)[0])
    assert person.sd**2 == pytest.approx(model.predict_weights([u])[1][0, c, c])
    assert 0.0 < person.sd < 1.0


def test_words_and_traits_distinguish_the_two_camps(snapshot: ModelSnapshot) -> None:
    component = components_page(snapshot).components[0]
    high, low = (component.high, component.low)
    if "evidence" not in high.words:
        high, low = low, high
    assert {"evidence", "numbers"} <= set(high.words)
    assert {"people", "stories"} <= set(low.words)
    assert {there.worker.traits["camp"] for there in high.workers} == {"facts"}
    assert {there.worker.traits["camp"] for there in low.workers} == {"stories"}
    assert {link.answer for link in component.links if link.trait == "camp"} == {"facts", "stories"}
    assert all(link.workers == 8 for link in component.links if link.trait == "camp")


def test_a_link_is_the_difference_of_means_and_needs_enough_workers() -> None:
    values = np.array([1.0, 1.2, 0.8, 1.1, 0.9, -1.0, -1.2, -0.8, -1.1, -0.9])
    answers = [{"side": "a"}] * 5 + [{"side": "b"}] * 5
    exact = np.zeros(10)
    found = find_links(answers, values, exact)
    assert [(link.answer, round(link.effect * values.std(), 6)) for link in found] == [("a", 2.0), ("b", -2.0)]
    assert find_links(answers[:4] + [{}] * 6, values, exact) == []
    several = find_links([{"side": [each["side"], "c"]} for each in answers], values, exact)
    assert [link.answer for link in several] == ["a", "b"]
    by_number = find_links([{"age": 20 + n} for n in range(10)], np.arange(10.0), exact)
    assert [(link.trait, round(link.effect, 6)) for link in by_number] == [("age", 1.0)]


def test_links_disappear_when_the_workers_values_are_hardly_known() -> None:
    """A link of four standard errors, and the same values with intervals that all include 0."""
    values = np.array([0.5, 0.9, 0.1, 0.7, 0.3, 0.6, -0.5, -0.9, -0.1, -0.7, -0.3, -0.6])
    by_choice = [{"side": "a"}] * 6 + [{"side": "b"}] * 6
    by_number = [{"age": float(n)} for n in np.argsort(np.argsort(values))]
    for answers in (by_choice, by_number):
        assert find_links(answers, values, np.full(12, 0.1))
        assert find_links(answers, values, np.full(12, 0.9)) == []
    link = find_links(by_choice, values, np.full(12, 0.3))[0]
    spread = np.sqrt(values.var() + 0.3**2)
    per_group = (values[:6].var(ddof=1) + 2 * 0.3**2) / 6
    assert link.effect == pytest.approx((values[:6].mean() - values[6:].mean()) / spread)
    assert link.error == pytest.approx(np.sqrt(2 * per_group) / spread)


def test_groups_of_a_trait_are_its_common_answers_or_quarters_of_a_number() -> None:
    assert group_by_trait([{"side": "b"}, {"side": "a"}, {}], "side") == group_by_trait(
        [{"side": "b"}, {"side": "a"}, {"side": " "}], "side"
    )
    assert group_by_trait([{"side": "b"}, {"side": "a"}, {}], "side").names == ["a", "b", "no answer"]
    by_age = group_by_trait([{"age": n} for n in range(8)], "age")
    assert (len(by_age.names), by_age.of) == (4, [0, 0, 1, 1, 2, 2, 3, 3])
    assert group_by_trait([{"age": 7}] * 3, "age").names == ["7"]


def test_the_page_counts_components_and_its_figure_has_the_same_numbers(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).get("/projects/pets/components/")
    page = answer.context["page"]
    assert "The judgements show 1 component." in " ".join(answer.text.split())
    [figure] = page.figures
    assert figure.traces[0]["y"] == [round(v, 4) for v in sorted((a.variance for a in page.axes), reverse=True)]


def test_a_name_given_by_an_analyst_is_on_the_page_and_in_the_file(
    snapshot: ModelSnapshot, analyst: User, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(analyst)
    assert client.post("/projects/pets/components/1/name/", {"name": " <b>facts</b> "}).status_code == 302
    answer = client.get("/projects/pets/components/")
    assert "&lt;b&gt;facts&lt;/b&gt;" in answer.text
    assert "<b>facts</b>" not in answer.text
    rows = list(csv.DictReader(io.StringIO(client.get("/projects/pets/components.csv").text)))
    assert [int(row["component"]) for row in rows] == [axis.number for axis in answer.context["page"].axes]
    assert next(row["name"] for row in rows if row["component"] == "1") == "<b>facts</b>"
    assert {row["version"] for row in rows} == {"1"}
    assert AuditEntry.objects.filter(action="exported components", user=analyst).exists()
    too_long = client.post("/projects/pets/components/1/name/", {"name": "x" * 61}, follow=True)
    assert "at most 60 characters" in too_long.text
    assert client.post("/projects/pets/components/99/name/", {"name": "x"}).status_code == 404
    assert "/components/1/name/" not in log_in(viewer).get("/projects/pets/components/").text


def test_a_study_with_one_worker_has_a_components_page(
    project: Project, owner: User, judge: Callable[..., object], worker: object, log_in: Callable[[User], Client]
) -> None:
    judge(worker, "left")
    assert update_one("test") is not None
    assert log_in(owner).get("/projects/pets/components/").status_code == 200


@pytest.fixture
def unreadable(snapshot: ModelSnapshot) -> ModelSnapshot:
    """A version whose arrays are missing and whose components were never numbered."""
    array_store.remove(snapshot.project, snapshot.checksum)
    ModelSnapshot.objects.update(checksum="0" * 64)
    return snapshot


def test_a_component_cannot_be_renamed_while_the_model_data_cannot_be_loaded(
    unreadable: ModelSnapshot, analyst: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(analyst).post("/projects/pets/components/1/name/", {"name": "facts"}, follow=True)
    assert answer.status_code == 200
    assert "loaded right now. Nothing was changed." in answer.text
    assert not ComponentName.objects.exists()


@pytest.fixture
def earlier(snapshot: ModelSnapshot) -> ModelSnapshot:
    """A version whose arrays have the form of an earlier release."""
    _, stored = load_estimator(snapshot)
    old = {name: array for name, array in stored.items() if name != "model.fitted"}
    checksum = array_store.save(snapshot.project, old).checksum
    ModelSnapshot.objects.update(checksum=checksum, code_version="0.5.0", refined=True)
    return snapshot


def test_a_version_of_an_earlier_release_keeps_its_ranking_and_says_why_pages_are_missing(
    earlier: ModelSnapshot, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    for page in ("components", "workers", "pairs", "new-argument/?text=Evidence"):
        answer = client.get(f"/projects/pets/{page}{'' if '?' in page else '/'}")
        assert (answer.status_code, "An earlier release of Concord made this version" in answer.text) == (200, True), (
            page
        )
    for page in ("ranking/", "ranking.csv", "model/versions/1/", "model/settings/"):
        assert client.get(f"/projects/pets/{page}").status_code == 200, page
    assert client.get("/projects/pets/components.csv").status_code == 404
    with pytest.raises(ExportError, match="An earlier release of Concord made this version"):
        build_export(resolve_point(project), "utilities", "csv")
    assert not list(find_problems(project))
    again = update_one("test")
    assert (again.kind, again.code_version) == ("refit", CODE_VERSION)
    assert client.get("/projects/pets/components/").context["page"] is not None


@pytest.mark.parametrize("page", ["components/?csv=strength", "workers/?csv=map"])
def test_a_figure_without_model_data_has_no_csv_file(
    unreadable: ModelSnapshot, analyst: User, log_in: Callable[[User], Client], page: str
) -> None:
    assert log_in(analyst).get(f"/projects/pets/{page}").status_code == 404
