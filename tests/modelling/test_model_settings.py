"""The model's settings: legal ranges in words, defaults left unsaid, a change starts the model again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, EventHead, Item, Project, User, Worker
from annotation.services import Receipt
from modelling import updating
from modelling.forms import LABELS, ModelSettingsForm, explained
from modelling.model_settings import KERNELS, LIMITS, SWITCHES, ModelSettings, Unusable
from modelling.models import ModelSnapshot, UpdateState
from modelling.snapshots import load_fitted
from modelling.verification import problems_of

from .histories import four_workers

pytestmark = pytest.mark.django_db

PAGE = "/projects/pets/model/settings/"


def filled(project: Project, **changes: Any) -> dict[str, Any]:
    """The form as the browser sends it, with these fields changed."""
    given = {**ModelSettingsForm(project).initial, **changes}
    return {name: "" if value is None else value for name, value in given.items()}


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Four workers with five answers each."""
    Project.objects.update(redundancy=100)
    project.refresh_from_db()
    return four_workers(project, judge)


def test_every_setting_has_a_label_and_every_number_a_range() -> None:
    names = set(ModelSettings().as_dict())
    assert set(LABELS) == names
    assert set(LIMITS) == names - {"kernel", *SWITCHES}


def test_the_page_explains_each_setting_with_its_range_and_default(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    text = log_in(owner).get(PAGE).text
    for words in (
        "Choose a whole number from 0 to 50. Default: 10.",
        "Choose a number from 1.1 to 2. Default: 2.",
        "(default)",
        "Default: chosen by itself.",
    ):
        assert words in text


def test_saving_unchanged_defaults_changes_nothing(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    before = EventHead.objects.get(project=project).inputs_revision
    log_in(owner).post(PAGE, filled(project))
    project.refresh_from_db()
    assert project.model_settings == {}
    assert EventHead.objects.get(project=project).inputs_revision == before
    assert not AuditEntry.objects.filter(action="changed settings").exists()


def test_a_change_is_audited_and_asks_for_a_refit(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).post(PAGE, filled(project, n_components=3, personal_variance="0.5", update_batch=25))
    assert answer.status_code == 302
    project.refresh_from_db()
    assert (project.model_settings, project.update_batch) == ({"n_components": 3, "personal_variance": 0.5}, 25)
    assert EventHead.objects.get(project=project).inputs_revision == 1
    details = AuditEntry.objects.get(action="changed settings").details
    assert details == {"model_settings": [{}, {"n_components": 3, "personal_variance": 0.5}], "update_batch": [1, 25]}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("n_components", "51", "Choose a whole number from 0 to 50."),
        ("n_components", "", "Choose a whole number from 0 to 50."),
        ("n_components", "3.5", "Choose a whole number from 0 to 50."),
        ("n_inducing_items", "9", "Choose a whole number from 10 to 500."),
        ("refit_growth", "2.5", "Choose a number from 1.1 to 2."),
        ("refit_growth", "nan", "Choose a number from 1.1 to 2."),
        ("personal_variance", "-1", "Choose a number from 0.01 to 10."),
        ("consensus_variance", "1e308", "Choose a number from 0.01 to 10."),
        ("seed", "-1", "Choose a whole number from 0 to 2,147,483,647."),
        ("update_batch", "0", "Choose a whole number from 1 to 100,000."),
        ("kernel", "cosine", "Select a valid choice."),
        ("kernel", "numeric", "Not every active item has numbers of its own."),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_range(
    project: Project, owner: User, log_in: Callable[[User], Client], field: str, value: str, said: str
) -> None:
    answer = log_in(owner).post(PAGE, filled(project, **{field: value}))
    assert answer.status_code == 422
    assert any(said in error for error in answer.context["form"].errors[field])
    project.refresh_from_db()
    assert project.model_settings == {}


@pytest.mark.parametrize(
    "illegal",
    [
        {"n_components": "ten"},
        {"n_components": 3.5},
        {"n_inducing_items": 50.5},
        {"kernel": "x"},
        {"seed": -1},
        {"seed": 1.5},
        {"refit_growth": True},
        {"reliability": "yes"},
        {"traits": 1},
        ["n_components"],
        "ten components",
    ],
)
def test_settings_that_are_not_legal_are_refused_in_words_and_the_form_mends_them(
    project: Project, owner: User, log_in: Callable[[User], Client], illegal: Any
) -> None:
    with pytest.raises(Unusable, match="The model setting"):
        ModelSettings.of(illegal)
    Project.objects.update(model_settings=illegal)
    assert log_in(owner).get(PAGE).status_code == 200
    project.refresh_from_db()
    log_in(owner).post(PAGE, filled(project))
    project.refresh_from_db()
    assert project.model_settings == {}


def test_illegal_settings_degrade_the_model_in_words(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(model_settings={"n_components": 5000})
    assert updating.run_one("one") is None
    state = UpdateState.objects.get()
    assert state.condition == "degraded"
    assert "“n_components” must be a whole number from 0 to 50" in state.words


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_learns_is_stored_and_goes_on(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], kernel: str
) -> None:
    for number, item in enumerate(Item.objects.filter(project=project)):
        Item.objects.filter(pk=item.pk).update(features={"year": 1990 + number, "length": number % 3})
    chosen = ModelSettings(kernel=kernel, n_components=2)
    services.change_project(project=project, user=None, changes={"model_settings": chosen.chosen()})
    first = updating.run_one("one")
    judge(crowd[0])
    second = updating.run_one("one")
    assert (first.kind, second.kind, second.settings["kernel"]) == ("refit", "step", kernel)
    assert np.isfinite(load_fitted(second).model.predict_consensus()).all()
    assert list(problems_of(project)) == []


def test_numbers_that_went_away_degrade_the_model_in_words(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(model_settings={"kernel": "numeric"})
    assert updating.run_one("one") is None
    assert "not every item has them" in UpdateState.objects.get().words


def test_a_smaller_growth_starts_again_sooner(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    Project.objects.update(model_settings={"n_components": 2, "refit_growth": 1.1})
    updating.run_one("one")
    judge(crowd[0])
    assert updating.run_one("one").kind == ModelSnapshot.Kind.STEP
    judge(crowd[1])
    assert updating.run_one("one").kind == ModelSnapshot.Kind.REFIT


def test_the_priors_reach_the_model(project: Project, crowd: list[Worker]) -> None:
    given = {"consensus_variance": 4.0, "consensus_certainty": 3.0, "personal_variance": 0.25, "seed": 9}
    Project.objects.update(model_settings=given)
    model = load_fitted(updating.run_one("one")).model
    assert (model.t_prior, model.personal_variance, model.random_state) == ((3.0, 12.0), 0.25, 9)


def test_settings_are_told_in_words() -> None:
    told = {row.label: row for row in explained(ModelSettings(n_components=3))}
    assert (told["components of taste"].value, told["components of taste"].usual) == ("3", False)
    assert told["how much tastes may differ"].value == "chosen by itself"
