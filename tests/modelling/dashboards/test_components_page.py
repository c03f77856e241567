"""What people differ about: every number is the estimator's, and the page says it in words, names and pictures."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Item, Project, User
from annotation.services import Receipt
from modelling import arrays
from modelling.crowdgppl import CrowdGPPL
from modelling.dashboards.components import components_page
from modelling.dashboards.traits import groups, links
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.updating import run_one
from tests.modelling.histories import make_study
from tests.modelling.two_camps import estimator_of, fitted_study, grown_twin, statements

pytestmark = pytest.mark.django_db


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project)


def test_every_number_is_what_the_estimator_says(snapshot: ModelSnapshot) -> None:
    page, (model, stored) = components_page(snapshot), estimator_of(snapshot)
    row = ComponentNumbers.objects.get(snapshot=snapshot)
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    worker_at = {int(pk): place for place, pk in enumerate(stored["worker_ids"])}
    place_of = {number: c for c, number in enumerate(row.numbers)}
    assert [axis.number for axis in page.axes] == sorted(row.numbers)
    for axis in page.axes:
        c = place_of[axis.number]
        assert axis.variance == model.component_variances_[c]
        assert axis.prior == model.prior_component_variance_[c]
        assert axis.energy == model.component_energy_[c]
        assert axis.in_use == (axis.energy > 0.05 * model.component_energy_.max())
    for component in page.components:
        c, sign = place_of[component.axis.number], row.signs[place_of[component.axis.number]]
        for end in (component.high, component.low):
            for there in end.items:
                assert there.value == sign * model.item_components_[c, item_at[there.item.pk]]
            for person in end.workers:
                assert person.value == sign * model.user_components_[c, worker_at[person.worker.pk]]


def test_where_everybody_says_equal_no_component_is_in_use(
    project: Project, owner: User, judge: Callable[..., Receipt], log_in: Callable[[User], Client]
) -> None:
    Project.objects.filter(pk=project.pk).update(redundancy=10)
    project.refresh_from_db()
    for worker in [services.enrol(project=project) for _ in range(3)]:
        for _ in range(6):
            judge(worker, "tie")
    page = components_page(run_one("test"))
    assert page.axes
    assert (page.used, [axis.share for axis in page.axes]) == (0, [0.0] * len(page.axes))
    assert "No component is in use" in log_in(owner).get("/projects/pets/components/").text
    assert log_in(owner).get("/projects/pets/workers/").status_code == 200


def test_an_energy_next_to_nothing_is_shown_as_nothing(
    owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study("few", [(who, 0, 1, "first") for who in range(3)], owner=owner)
    run_one("test")
    monkeypatch.setattr(CrowdGPPL, "component_energy_", np.array([1.0, 1.4e-216, 0.0]))
    text = log_in(owner).get("/projects/few/components/").text
    assert text.count(">0.0000</td>") == 2
    assert text.count('aria-label="0.0 %"') == 2


def test_the_ends_are_the_extremes_and_the_spread_is_that_of_the_posterior(snapshot: ModelSnapshot) -> None:
    """The displayed covariance by its definition: w' = w T, so T^T Omega T; and energies say what w' must be."""
    component, (model, stored) = components_page(snapshot).components[0], estimator_of(snapshot)
    c = int(np.argmax(model.component_energy_))
    sign = np.sign(component.high.items[0].value - component.low.items[0].value)
    values = model.item_components_[c][np.isin(stored["item_ids"], [i.pk for i in Item.objects.filter(active=True)])]
    assert sign == 1.0
    assert {abs(component.high.items[0].value), abs(component.low.items[0].value)} <= set(np.abs(values))
    assert component.high.items[0].value - component.low.items[0].value == np.ptp(values)
    W, Omega = stored["model.users_W"], stored["model.users_Omega"]
    turn = np.linalg.lstsq(W, model.user_components_.T, rcond=None)[0]
    person = component.high.workers[0]
    u = int(np.flatnonzero(stored["worker_ids"] == person.worker.pk)[0])
    np.testing.assert_allclose(person.sd**2, turn[:, c] @ Omega[u] @ turn[:, c], rtol=1e-6)


def test_words_and_traits_tell_the_two_camps_apart(snapshot: ModelSnapshot) -> None:
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
    found = links(answers, values)
    assert [(link.answer, round(link.effect * values.std(), 6)) for link in found] == [("a", 2.0), ("b", -2.0)]
    assert links(answers[:4] + [{}] * 6, values) == []
    by_number = links([{"age": 20 + n} for n in range(10)], np.arange(10.0))
    assert [(link.trait, round(link.effect, 6)) for link in by_number] == [("age", 1.0)]


def test_groups_of_a_trait_are_its_common_answers_or_quarters_of_a_number() -> None:
    assert groups([{"side": "b"}, {"side": "a"}, {}], "side") == groups(
        [{"side": "b"}, {"side": "a"}, {"side": " "}], "side"
    )
    assert groups([{"side": "b"}, {"side": "a"}, {}], "side").names == ["a", "b", "no answer"]
    by_age = groups([{"age": n} for n in range(8)], "age")
    assert (len(by_age.names), by_age.of) == (4, [0, 0, 1, 1, 2, 2, 3, 3])
    assert groups([{"age": 7}] * 3, "age").names == ["7"]


def test_the_page_says_how_many_are_in_use_and_has_pictures_with_the_same_numbers(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).get("/projects/pets/components/")
    page = answer.context["page"]
    assert f"{page.used} of {len(page.axes)} components" in " ".join(answer.text.split())
    variances, energy = page.pictures
    assert variances.traces[0]["y"] == sorted(variances.traces[0]["y"], reverse=True)
    assert variances.traces[0]["y"] == [round(v, 4) for v in sorted((a.variance for a in page.axes), reverse=True)]
    assert energy.traces[0]["x"] == [str(axis.number) for axis in page.axes]
    assert energy.traces[0]["y"] == [round(axis.share, 4) for axis in page.axes]


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


def test_as_many_statements_for_three_times_the_study(
    snapshot: ModelSnapshot, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    grown_twin(project, owner)
    client = log_in(owner)
    assert statements(client, "/projects/pets/components/") == statements(client, "/projects/twin/components/") < 15


def test_a_worker_alone_has_a_page_without_ends(
    project: Project, owner: User, judge: Callable[..., object], worker: object, log_in: Callable[[User], Client]
) -> None:
    judge(worker, "left")
    assert run_one("test") is not None
    assert log_in(owner).get("/projects/pets/components/").status_code == 200


@pytest.fixture
def unreadable(snapshot: ModelSnapshot) -> ModelSnapshot:
    """A version whose arrays are gone and whose components were never numbered."""
    arrays.remove(snapshot.project, snapshot.checksum)
    ModelSnapshot.objects.update(checksum="0" * 64)
    return snapshot


def test_a_component_of_a_version_that_cannot_be_read_keeps_its_name_and_the_page_says_why(
    unreadable: ModelSnapshot, analyst: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(analyst).post("/projects/pets/components/1/name/", {"name": "facts"}, follow=True)
    assert answer.status_code == 200
    assert "cannot be read just now. Nothing was changed." in answer.text
    assert not ComponentName.objects.exists()


@pytest.mark.parametrize("page", ["components/?csv=strength", "workers/?csv=map"])
def test_there_is_no_file_of_a_picture_that_cannot_be_drawn(
    unreadable: ModelSnapshot, analyst: User, log_in: Callable[[User], Client], page: str
) -> None:
    assert log_in(analyst).get(f"/projects/pets/{page}").status_code == 404
