"""The model uses workers' traits and their reliability."""

import numpy as np
import pytest

from annotation import services
from annotation.models import Item, Project, Worker
from modelling.models import ModelSnapshot
from modelling.training.evaluation.scoreboard import METHODS, scoreboard_totals
from modelling.training.snapshots import FittedModel, load_fitted_model
from modelling.training.verification import TRAITS_CHANGED, find_problems, rebuild
from modelling.updater.update import update_one
from tests.modelling.samples.histories import answer
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

CAMPS = ("facts", "stories")


@pytest.fixture
def study(project: Project) -> ModelSnapshot:
    """Sixteen workers in two camps, with the camp as a trait."""
    return make_fitted_study(project)


def require(snapshot: ModelSnapshot | None) -> ModelSnapshot:
    assert snapshot is not None
    return snapshot


def count_inactive(project: Project) -> int:
    """The number of inactive items, which come first in the arrays."""
    return Item.objects.filter(project=project, active=False).count()


def predict_new_worker(fitted: FittedModel, camp: str) -> np.ndarray:
    """Predicted scores of a new worker of this camp."""
    row = fitted.traits.transform([{"camp": camp, "age": "30"}])
    return np.asarray(fitted.model.predict_utilities(X_users=row)[:, 0])


def test_a_new_worker_is_predicted_to_judge_like_their_camp(study: ModelSnapshot) -> None:
    fitted = load_fitted_model(study)
    own = fitted.model.predict_utilities()
    camp = np.arange(len(fitted.worker_ids)) % 2
    gap = own[:, camp == 0].mean(axis=1) - own[:, camp == 1].mean(axis=1)
    predicted = predict_new_worker(fitted, "facts") - predict_new_worker(fitted, "stories")
    assert np.corrcoef(gap, predicted)[0, 1] > 0.9
    assert np.abs(predicted).max() > 0.3 * np.abs(gap).max()


def test_a_step_includes_the_traits_of_new_workers(study: ModelSnapshot, project: Project) -> None:
    services.enrol(project=project, traits={"camp": "stories", "age": "30"})
    place = Worker.objects.filter(project=project).count() - 1
    shown = count_inactive(project)
    answer(project, [(place, shown, shown + 1, "tie")])
    step = require(update_one("test"))
    assert step.kind == ModelSnapshot.Kind.STEP
    fitted = load_fitted_model(step)
    assert fitted.model.X_users_ is not None
    assert np.array_equal(fitted.model.X_users_[-1], fitted.traits.transform([{"camp": "stories", "age": "30"}])[0])
    own = fitted.model.predict_utilities(users=[place])[:, 0]
    near, far = (np.corrcoef(own, predict_new_worker(fitted, camp))[0, 1] for camp in ("stories", "facts"))
    assert near > far
    assert scoreboard_totals(project)[METHODS.PERSONAL].labels == 1
    assert [problem for _, problem in rebuild(project, 2)] == ["", ""]


def test_traits_are_not_used_without_the_setting(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(model_settings={"traits": False})
    project.refresh_from_db()
    fitted = load_fitted_model(make_fitted_study(project))
    assert fitted.model.X_users_ is None
    assert not any(name.startswith("traits_") for name in fitted.model.to_state())


def test_an_erasure_causes_a_refit_without_the_traits(study: ModelSnapshot, project: Project) -> None:
    worker = Worker.objects.filter(project=project).order_by("pk")[0]
    services.erase_worker(worker=worker, user=None)
    [(_, problem)] = rebuild(project, 1)
    assert problem == TRAITS_CHANGED
    assert not list(find_problems(project))
    again = require(update_one("test"))
    assert again.kind == ModelSnapshot.Kind.REFIT
    fitted = load_fitted_model(again)
    assert fitted.model.X_users_ is not None
    assert not fitted.model.X_users_[fitted.worker_index.get(worker.pk)].any()


def test_random_answers_lose_weight_with_the_reliability_setting(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(model_settings={"reliability": True})
    project.refresh_from_db()
    make_fitted_study(project)
    n_others, rng = Worker.objects.filter(project=project).count(), np.random.default_rng(1)
    shown = count_inactive(project)
    for place in range(n_others, n_others + 3):
        services.enrol(project=project)
        first = rng.integers(0, 18, 120)
        second = (first + rng.integers(1, 18, 120)) % 18
        coin_flips = [
            (place, shown + int(a), shown + int(b), ("first", "second")[rng.integers(2)])
            for a, b in zip(first, second, strict=True)
        ]
        answer(project, coin_flips)
    model = load_fitted_model(require(update_one("test"))).model
    assert np.median(model.reliability_[-3:]) < 0.5 < 0.9 < np.median(model.reliability_)
