"""The model settings: limits, defaults, the form, and refits after a change."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from django.apps import apps
from django.db import connection
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, EventHead, Item, Project, User, Worker
from annotation.services import Receipt
from modelling.baselines.catalogue import CATALOGUE
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.settings import (
    CHOICES,
    KERNELS,
    LABELS,
    LIMITS,
    METHOD_LABELS,
    SWITCHES,
    InvalidSettings,
    ModelSettings,
    setting_rows,
)
from modelling.training.snapshots import load_fitted_model
from modelling.training.verification import find_problems
from modelling.updater import update
from modelling.web.forms.model_settings import ModelSettingsForm
from tests.modelling.samples.histories import make_crowd

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
    return make_crowd(project, judge)


def test_every_setting_has_a_label_and_every_number_has_limits() -> None:
    names = set(ModelSettings().as_dict())
    assert set(LABELS) == names
    assert set(LIMITS) == names - {"scoreboard_methods", *CHOICES, *SWITCHES}


def test_the_page_explains_each_setting_with_its_range_and_default(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    text = log_in(owner).get(PAGE).text
    for words in (
        "Choose a whole number from 0 to 50. Default: 20.",
        "Choose a number from 1.1 to 2. Default: 1.2.",
        "(default)",
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


def test_a_change_is_audited_and_causes_a_refit(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).post(PAGE, filled(project, n_components=3, refit_growth="1.5", update_batch=25))
    assert answer.status_code == 302
    project.refresh_from_db()
    assert (project.model_settings, project.update_batch) == ({"n_components": 3, "refit_growth": 1.5}, 25)
    assert EventHead.objects.get(project=project).inputs_revision == 1
    details = AuditEntry.objects.get(action="changed settings").details
    assert details == {"model_settings": [{}, {"n_components": 3, "refit_growth": 1.5}], "update_batch": [1, 25]}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("n_components", "51", "Choose a whole number from 0 to 50."),
        ("n_components", "", "Choose a whole number from 0 to 50."),
        ("n_components", "3.5", "Choose a whole number from 0 to 50."),
        ("refit_growth", "2.5", "Choose a number from 1.1 to 2."),
        ("refit_growth", "nan", "Choose a number from 1.1 to 2."),
        ("seed", "-1", "Choose a whole number from 0 to 2,147,483,647."),
        ("update_batch", "0", "Choose a whole number from 1 to 100,000."),
        ("kernel", "cosine", "Select a valid choice."),
        ("kernel", "numeric", "Not every active item has imported features."),
        ("kernel", "sentences", "The package for this similarity is not installed on the server"),
    ],
)
def test_a_value_out_of_range_is_rejected_with_the_range(
    project: Project, owner: User, log_in: Callable[[User], Client], field: str, value: str, said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("modelling.web.forms.model_settings.has_sentence_vectors", lambda: False)
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
def test_invalid_settings_are_rejected_and_can_be_corrected_in_the_form(
    project: Project, owner: User, log_in: Callable[[User], Client], illegal: Any
) -> None:
    with pytest.raises(InvalidSettings, match="The model setting"):
        ModelSettings.from_dict(illegal)
    Project.objects.update(model_settings=illegal)
    assert log_in(owner).get(PAGE).status_code == 200
    project.refresh_from_db()
    log_in(owner).post(PAGE, filled(project))
    project.refresh_from_db()
    assert project.model_settings == {}


def test_invalid_settings_degrade_the_model_with_a_message(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(model_settings={"n_components": 5000})
    assert update.update_one("one") is None
    state = UpdateState.objects.get()
    assert state.condition == "degraded"
    assert "“n_components” must be a whole number from 0 to 50" in state.message


@pytest.mark.parametrize("kernel", KERNELS)
def test_models_with_every_kernel_can_be_fitted_stored_and_updated(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelling.training.fit.has_sentence_vectors", lambda: True)
    vectors = lambda texts: np.array([[len(text), text.count("e"), 1.0] for text in texts])  # noqa: E731
    monkeypatch.setattr("modelling.features.text.sentence_vectors", vectors)
    for number, item in enumerate(Item.objects.filter(project=project)):
        Item.objects.filter(pk=item.pk).update(features={"year": 1990 + number, "length": number % 3})
    chosen = ModelSettings(kernel=kernel, n_components=2)
    services.change_project(project=project, user=None, changes={"model_settings": chosen.non_defaults()})
    first = update.update_one("one")
    judge(crowd[0])
    second = update.update_one("one")
    assert (first.kind, second.kind, second.settings["kernel"]) == ("refit", "step", kernel)
    assert np.isfinite(load_fitted_model(second).model.predict_consensus()).all()
    assert list(find_problems(project)) == []


def test_missing_numeric_columns_degrade_the_model_with_a_message(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(model_settings={"kernel": "numeric"})
    assert update.update_one("one") is None
    assert "not every item has them" in UpdateState.objects.get().message


def test_a_smaller_growth_factor_refits_sooner(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    Project.objects.update(model_settings={"n_components": 2, "refit_growth": 1.1})
    update.update_one("one")
    judge(crowd[0])
    assert update.update_one("one").kind == ModelSnapshot.Kind.STEP
    judge(crowd[1])
    assert update.update_one("one").kind == ModelSnapshot.Kind.REFIT


def test_the_settings_reach_the_model(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(model_settings={"n_components": 3, "reliability": True, "seed": 9})
    model = load_fitted_model(update.update_one("one")).model
    assert (model.n_components, model.reliability, model.random_state) == (3, True, 9)


def test_the_migration_drops_settings_that_the_model_no_longer_has(project: Project, stranger: User) -> None:
    migration = import_module("modelling.migrations.0014_settings_of_new_model")
    old = {"personal_variance": 0.5, "refine": True, "n_inducing_items": 50, "n_components": 3}
    Project.objects.filter(pk=project.pk).update(model_settings=old)
    others = Project.objects.exclude(pk=project.pk)
    others.update(model_settings=["not", "a", "mapping"])
    migration.drop_removed_settings(apps, connection.schema_editor())
    project.refresh_from_db()
    assert project.model_settings == {"n_components": 3}
    assert [other.model_settings for other in others] == [["not", "a", "mapping"]] * others.count()


def test_setting_rows_show_labels_values_and_defaults() -> None:
    rows = {row.label: row for row in setting_rows(ModelSettings(n_components=3))}
    assert (rows["number of components"].value, rows["number of components"].is_default) == ("3", False)
    assert (rows["random seed"].value, rows["random seed"].is_default) == ("0", True)


def test_every_method_of_the_catalogue_can_be_put_on_the_scoreboard(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    assert set(METHOD_LABELS) == set(CATALOGUE) - {"crowdgppl", "gppl", "bradley_terry"}
    log_in(owner).post(PAGE, filled(project, scoreboard_methods=["crowd_bt", "gpvu"]))
    project.refresh_from_db()
    assert project.model_settings == {"scoreboard_methods": ["crowd_bt", "gpvu"]}
    rows = {row.label: row.value for row in setting_rows(ModelSettings.from_dict(project.model_settings))}
    assert rows["other methods on the scoreboard"] == "crowdBT: Bradley-Terry with worker accuracies, GPVU"
    for wrong in (["elo"], "gpvu", None):
        with pytest.raises(InvalidSettings, match="scoreboard_methods"):
            ModelSettings.from_dict({"scoreboard_methods": wrong})
