"""What workers tell about themselves reaches the model, and so does how consistent they are."""

import numpy as np
import pytest

from annotation import services
from annotation.models import Item, Project, Worker
from modelling.models import ModelSnapshot
from modelling.scoreboard import METHODS, totals
from modelling.snapshots import Fitted, load_fitted
from modelling.updating import run_one
from modelling.verification import OWN_ANSWERS, problems_of, rebuild

from .histories import answer
from .two_camps import fitted_study

pytestmark = pytest.mark.django_db

CAMPS = ("facts", "stories")


@pytest.fixture
def study(project: Project) -> ModelSnapshot:
    """Two camps of sixteen workers in all, who said which camp they are of."""
    return fitted_study(project)


def published(snapshot: ModelSnapshot | None) -> ModelSnapshot:
    assert snapshot is not None
    return snapshot


def off(project: Project) -> int:
    """How many items, switched off, come before those of the study."""
    return Item.objects.filter(project=project, active=False).count()


def foretold(fitted: Fitted, camp: str) -> np.ndarray:
    """What the model expects of somebody of this camp who has answered nothing."""
    row = fitted.traits.transform([{"camp": camp, "age": "30"}])
    return np.asarray(fitted.model.predict_utilities(X_users=row)[:, 0])


def test_a_stranger_is_expected_to_think_like_their_camp(study: ModelSnapshot) -> None:
    fitted = load_fitted(study)
    own = fitted.model.predict_utilities()
    camp = np.arange(len(fitted.worker_ids)) % 2
    gap = own[:, camp == 0].mean(axis=1) - own[:, camp == 1].mean(axis=1)
    strangers = foretold(fitted, "facts") - foretold(fitted, "stories")
    assert np.corrcoef(gap, strangers)[0, 1] > 0.9
    assert np.abs(strangers).max() > 0.3 * np.abs(gap).max()


def test_a_newcomer_joins_by_a_step_with_their_answers(study: ModelSnapshot, project: Project) -> None:
    services.enrol(project=project, traits={"camp": "stories", "age": "30"})
    place = Worker.objects.filter(project=project).count() - 1
    shown = off(project)
    answer(project, [(place, shown, shown + 1, "tie")])
    step = published(run_one("test"))
    assert step.kind == ModelSnapshot.Kind.STEP
    fitted = load_fitted(step)
    assert fitted.model.X_users_ is not None
    assert np.array_equal(fitted.model.X_users_[-1], fitted.traits.transform([{"camp": "stories", "age": "30"}])[0])
    near, far = (np.corrcoef(fitted.model.predict_utilities(users=[place])[:, 0], foretold(fitted, camp))[0, 1]
                 for camp in ("stories", "facts"))  # fmt: skip
    assert near > far
    assert totals(project)[METHODS.PERSONAL].labels == 1
    assert [problem for _, problem in rebuild(project, 2)] == ["", ""]


def test_without_the_setting_nothing_is_learned_from_answers(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(model_settings={"traits": False})
    project.refresh_from_db()
    fitted = load_fitted(fitted_study(project))
    assert fitted.model.X_users_ is None
    assert not any(name.startswith("traits_") for name in fitted.model.to_state())


def test_after_an_erasure_the_model_starts_again_without_the_answers(study: ModelSnapshot, project: Project) -> None:
    worker = Worker.objects.filter(project=project).order_by("pk")[0]
    services.erase_worker(worker=worker, user=None)
    [(_, problem)] = rebuild(project, 1)
    assert problem == OWN_ANSWERS
    assert not list(problems_of(project))
    again = published(run_one("test"))
    assert again.kind == ModelSnapshot.Kind.REFIT
    fitted = load_fitted(again)
    assert fitted.model.X_users_ is not None
    assert not fitted.model.X_users_[fitted.position_of_worker(worker.pk)].any()


def test_a_worker_who_answers_at_random_loses_weight_where_the_study_wants_it(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(model_settings={"reliability": True})
    project.refresh_from_db()
    fitted_study(project)
    services.enrol(project=project)
    place, rng = Worker.objects.filter(project=project).count() - 1, np.random.default_rng(0)
    first = rng.integers(0, 18, 120)
    second = (first + rng.integers(1, 18, 120)) % 18
    shown = off(project)
    tosses = [
        (place, shown + int(a), shown + int(b), ("first", "second")[rng.integers(2)])
        for a, b in zip(first, second, strict=True)
    ]
    answer(project, tosses)
    model = load_fitted(published(run_one("test"))).model
    assert model.reliability_[-1] < 0.5 < 0.9 < np.median(model.reliability_)
