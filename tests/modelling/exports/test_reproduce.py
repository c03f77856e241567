"""The same data and seed give the same model in any process, and a version can be refitted later."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.db.models import F

from annotation import services
from annotation.models import Item, Judgement, Project
from annotation.services import Receipt
from annotation.storage import event_log
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.verification import FEATURES_CHANGED, OTHER_NUMBERS, find_problems, rebuild
from modelling.updater import update
from tests.modelling.samples.histories import TEXTS, all_pairs, answer, make_crowd, make_study

ROOT = Path(__file__).resolve().parents[3]
FIT = """
import django, json
django.setup()
from tests.modelling.exports.test_reproduce import fit_without_rows
print(json.dumps(fit_without_rows()))
"""


def fit_without_rows() -> str:
    """Return the checksum of a fit to a simulated crowd that is not in any database."""
    from annotation.models import Item, Worker
    from benchmarks.simulated_crowds import draw_crowd
    from modelling.crowdgppl import PairwiseLabels
    from modelling.training.inputs import Inputs
    from modelling.training.settings import ModelSettings
    from modelling.training.storage.array_store import arrays_checksum
    from modelling.training.training_state import TrainingState

    crowd = draw_crowd(np.random.default_rng(1), n_users=15, n_items=30, n_labels=600, n_components=2)
    items = [Item(pk=n + 1, text=f"{TEXTS[n % 6]} {'Really. ' * n}") for n in range(30)]
    drawn = crowd.labels
    labels = PairwiseLabels(u=drawn.u, a=drawn.a, b=drawn.b, y=drawn.y)
    workers = [Worker(pk=n + 1) for n in range(15)]
    inputs = Inputs.from_labels(items, workers, labels)
    return arrays_checksum(TrainingState.fit(inputs, ModelSettings(), lambda *args: None).to_arrays())


@pytest.mark.slow
def test_three_processes_fit_the_same_model_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings.test")
    running = [
        subprocess.Popen([sys.executable, "-c", FIT], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    checksums = {json.loads(process.communicate(timeout=600)[0]) for process in running}
    assert len(checksums) == 1


@pytest.mark.django_db
def test_the_order_of_the_judgements_does_not_matter() -> None:
    answers = [(who, a, b, ("first", "second", "tie")[(who + a) % 3]) for who, a, b, _ in all_pairs(12)]
    means = []
    for slug, given in (("one", answers), ("other", answers[::-1])):
        project = make_study(slug)
        answer(project, [(11, 0, 1, "skip")])  # all workers join first, so that both studies have the same workers
        answer(project, given)
        snapshot = update.update_one("one")
        means.append([mean for _, mean in snapshot.scores.order_by("item").values_list("item", "mean")])
    np.testing.assert_allclose(means[0], means[1], rtol=0, atol=1e-6)


@pytest.fixture
def versions(project: Project, judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two refits and six steps, with new workers, undos and skips; the updater is restarted in between."""
    workers = [*make_crowd(project, judge, workers=12), *(services.enrol(project=project) for _ in range(4))]
    for number in range(8):
        judge(workers[8 + number], ("left", "skip", "right")[number % 3])
        if number in (2, 5):
            undo(workers[number])
        if number == 4:
            event_log.raise_inputs_revision(project.pk)
        if number % 2:
            monkeypatch.setattr(update, "_cache", {})
        update.update_one("one")
    return project


def undo(worker: object) -> None:
    judgement = Judgement.objects.filter(worker=worker).latest("sequence")
    services.retract(worker=judgement.worker, judgement=judgement.uuid, uuid=judgement.uuid)


@pytest.mark.django_db
@pytest.mark.slow
def test_each_version_can_be_rebuilt_from_the_refit_before_it(versions: Project, capsys) -> None:
    kinds = list(ModelSnapshot.objects.order_by("number").values_list("kind", flat=True))
    assert kinds == ["refit", "step", "step", "step", "refit", "step", "step", "step"]
    assert [(snapshot.number, problem) for snapshot, problem in rebuild(versions, 20)] == [(n, "") for n in range(1, 9)]
    assert [snapshot.number for snapshot, _ in rebuild(versions, 2)] == [7, 8]
    call_command("verify", "--rebuild", "20")
    assert capsys.readouterr().out.count("identical.") == 8
    assert list(find_problems(versions)) == []


@pytest.mark.django_db
@pytest.mark.slow
def test_a_version_that_cannot_be_reproduced_is_reported(versions: Project, capsys) -> None:
    ModelSnapshot.objects.filter(number=7).update(checksum="0" * 64)
    found = {snapshot.number: problem for snapshot, problem in rebuild(versions, 20) if problem}
    assert found == {
        7: "refitting it gives different numbers.",
        8: "the version before it could not be fitted again.",
    }
    ModelSnapshot.objects.filter(number=6).update(data_hash="0" * 64)
    assert "version 6 was not fitted to the judgements and texts in this database." in list(find_problems(versions))
    with pytest.raises(SystemExit):
        call_command("verify", "--rebuild", "3")
    assert "version 7 (step, 000000000000): refitting it gives different numbers." in capsys.readouterr().out


@pytest.fixture
def refit(db: None) -> ModelSnapshot:
    """A version fitted from scratch; since then one item was deactivated, one added, and a new worker has answered."""
    features = [{"year": 1990 + number} for number in range(6)]
    project = make_study("study", all_pairs(5), features=features, n_components=2)
    snapshot = update.update_one("one")
    Item.objects.filter(project=project, key="item-2").update(active=False)
    Item.objects.create(project=project, key="new", text="Snakes hiss.", features={"year": 2000})
    answer(project, [(6, 0, 1, "first")])
    return snapshot


def learned_again(snapshot: ModelSnapshot) -> list[str]:
    return [problem for _, problem in rebuild(snapshot.project, 20)]


def test_a_refit_is_rebuilt_with_the_items_and_workers_of_its_time(refit: ModelSnapshot) -> None:
    assert learned_again(refit) == [""]
    assert list(find_problems(refit.project)) == []


@pytest.mark.parametrize("changes", [{"n_components": 0}, {"kernel": "none"}, {"seed": 7}])
def test_changed_settings_of_a_refit_are_found(refit: ModelSnapshot, changes: dict, capsys) -> None:
    changed = {**refit.settings, **changes}
    ModelSnapshot.objects.update(settings=changed, seed=changed["seed"])
    assert learned_again(refit) == [OTHER_NUMBERS]
    with pytest.raises(SystemExit):
        call_command("verify", "--rebuild", "1")
    assert "1 problem(s) found" in capsys.readouterr().out


def test_two_seeds_or_invalid_settings_of_a_version_are_found(refit: ModelSnapshot) -> None:
    ModelSnapshot.objects.update(seed=7)
    assert list(find_problems(refit.project)) == ["version 1 has two different seeds."]
    ModelSnapshot.objects.update(settings=["seed"])
    assert "version 1 has invalid settings." in next(find_problems(refit.project))
    assert "The model settings must be" in learned_again(refit)[0]


@pytest.mark.parametrize("column", ["mean", "sd"])
def test_a_changed_score_is_found(refit: ModelSnapshot, column: str) -> None:
    ConsensusScore.objects.filter(rank=3).update(**{column: F(column) + 1e-6})
    assert list(find_problems(refit.project)) == ["the scores of version 1 do not match its arrays."]


def test_a_score_moved_to_another_item_is_found(refit: ModelSnapshot) -> None:
    stranger = Item.objects.get(key="new")
    ConsensusScore.objects.filter(rank=3).update(item=stranger)
    assert list(find_problems(refit.project)) == ["the scores of version 1 do not match its arrays."]


def test_changed_features_of_items_are_named_as_the_reason(refit: ModelSnapshot) -> None:
    Item.objects.filter(key="item-1").update(features={"year": 1800})
    assert learned_again(refit) == [FEATURES_CHANGED]


def test_pruned_versions_are_not_rebuilt(refit: ModelSnapshot) -> None:
    update.update_one("one")
    ModelSnapshot.objects.filter(pk=refit.pk).update(pruned_at=refit.created_at)
    assert [(snapshot.number, problem) for snapshot, problem in rebuild(refit.project, 20)] == [(2, "")]
