"""P32 and P33: the same data and seed give the same model in any process; a version can be learned again later."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.db.models import F

from annotation import ledger, services
from annotation.models import Item, Judgement, Project
from annotation.services import Receipt
from modelling import updating
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.verification import OTHER_NUMBERS, OWN_NUMBERS, problems_of, rebuild
from tests.modelling.histories import TEXTS, answer, everybody, make_study

ROOT = Path(__file__).resolve().parents[2]
FIT = """
import django, json
django.setup()
from tests.modelling.test_reproducing import fit_without_rows
print(json.dumps(fit_without_rows()))
"""


def fit_without_rows() -> str:
    """The checksum of a fit to a drawn crowd, with items and workers that are in no database."""
    from annotation.models import Item, Worker
    from modelling.arrays import checksum_of_arrays
    from modelling.crowdgppl import PairwiseLabels
    from modelling.inputs import Counts, Inputs, Moment
    from modelling.learners import Learner
    from modelling.model_settings import ModelSettings
    from modelling.simulation import draw_crowd

    crowd = draw_crowd(np.random.default_rng(1), n_users=15, n_items=30, n_labels=600, n_components=2)
    items = [Item(pk=n + 1, text=f"{TEXTS[n % 6]} {'Really. ' * n}") for n in range(30)]
    drawn = crowd.labels
    labels = PairwiseLabels(u=drawn.u, a=drawn.a, b=drawn.b, y=drawn.y)
    workers = [Worker(pk=n + 1) for n in range(15)]
    inputs = Inputs(Moment(600, 0), items, workers, labels, Counts(600, {}), "")
    return checksum_of_arrays(Learner.from_scratch(inputs, ModelSettings(), lambda *args: None).arrays())


@pytest.mark.slow
def test_three_processes_fit_the_same_model_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings.test")
    running = [
        subprocess.Popen([sys.executable, "-c", FIT], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    checksums = {json.loads(process.communicate(timeout=120)[0]) for process in running}
    assert len(checksums) == 1


@pytest.mark.django_db
def test_the_order_of_the_judgements_does_not_matter() -> None:
    answers = [(who, a, b, ("first", "second", "tie")[(who + a) % 3]) for who, a, b, _ in everybody(12)]
    means = []
    for slug, given in (("one", answers), ("other", answers[::-1])):
        project = make_study(slug)
        answer(project, [(11, 0, 1, "skip")])  # everybody joins first, so that both studies have the same workers
        answer(project, given)
        snapshot = updating.run_one("one")
        means.append([mean for _, mean in snapshot.scores.order_by("item").values_list("item", "mean")])
    np.testing.assert_allclose(means[0], means[1], rtol=0, atol=1e-6)


@pytest.fixture
def versions(project: Project, judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two refits and six steps, with newcomers, undos and skips; the updater is restarted now and then."""
    Project.objects.update(redundancy=100)
    project.refresh_from_db()
    workers = [services.enrol(project=project) for _ in range(16)]
    for number, worker in enumerate(workers[:12]):
        for turn in range(5):
            judge(worker, ("left", "right", "tie")[(number + turn) % 3])
    for number in range(8):
        judge(workers[8 + number], ("left", "skip", "right")[number % 3])
        if number in (2, 5):
            undo(workers[number])
        if number == 4:
            ledger.raise_inputs_revision(project.pk)
        if number % 2:
            monkeypatch.setattr(updating, "_remembered", {})
        updating.run_one("one")
    return project


def undo(worker: object) -> None:
    judgement = Judgement.objects.filter(worker=worker).latest("sequence")
    services.retract(worker=judgement.worker, judgement=judgement.uuid, uuid=judgement.uuid)


@pytest.mark.django_db
@pytest.mark.slow
def test_each_version_can_be_learned_again_from_the_refit_before_it(versions: Project, capsys) -> None:
    kinds = list(ModelSnapshot.objects.order_by("number").values_list("kind", flat=True))
    assert kinds == ["refit", "step", "step", "step", "refit", "step", "step", "step"]
    assert [(snapshot.number, problem) for snapshot, problem in rebuild(versions, 20)] == [(n, "") for n in range(1, 9)]
    assert [snapshot.number for snapshot, _ in rebuild(versions, 2)] == [7, 8]
    call_command("verify", "--rebuild", "20")
    assert capsys.readouterr().out.count("the same again.") == 8
    assert list(problems_of(versions)) == []


@pytest.mark.django_db
@pytest.mark.slow
def test_a_version_that_does_not_come_out_again_is_named(versions: Project, capsys) -> None:
    ModelSnapshot.objects.filter(number=7).update(checksum="0" * 64)
    found = {snapshot.number: problem for snapshot, problem in rebuild(versions, 20) if problem}
    assert found == {
        7: "learning it again gives other numbers.",
        8: "the version before it could not be learned again.",
    }
    ModelSnapshot.objects.filter(number=6).update(data_hash="0" * 64)
    assert "version 6 was not learned from the judgements and texts that are here now." in list(problems_of(versions))
    with pytest.raises(SystemExit):
        call_command("verify", "--rebuild", "3")
    assert "version 7 (step, 000000000000): learning it again gives other numbers." in capsys.readouterr().out


@pytest.fixture
def refit(db: None) -> ModelSnapshot:
    """A version fitted from scratch; since then an item was switched off, one came, and a newcomer answered."""
    features = [{"year": 1990 + number} for number in range(6)]
    project = make_study("study", everybody(5), features=features, n_components=2, personal_variance=0.5)
    snapshot = updating.run_one("one")
    Item.objects.filter(project=project, key="item-2").update(active=False)
    Item.objects.create(project=project, key="new", text="Snakes hiss.", features={"year": 2000})
    answer(project, [(6, 0, 1, "first")])
    return snapshot


def learned_again(snapshot: ModelSnapshot) -> list[str]:
    return [problem for _, problem in rebuild(snapshot.project, 20)]


def test_a_refit_is_fitted_again_with_the_items_and_workers_of_its_moment(refit: ModelSnapshot) -> None:
    assert learned_again(refit) == [""]
    assert list(problems_of(refit.project)) == []


@pytest.mark.parametrize("changes", [{"personal_variance": 0.6}, {"kernel": "none"}, {"seed": 7}])
def test_a_refit_that_names_other_settings_than_its_own_is_found(refit: ModelSnapshot, changes: dict, capsys) -> None:
    changed = {**refit.settings, **changes}
    ModelSnapshot.objects.update(settings=changed, seed=changed["seed"])
    assert learned_again(refit) == [OTHER_NUMBERS]
    with pytest.raises(SystemExit):
        call_command("verify", "--rebuild", "1")
    assert "1 problem(s) found" in capsys.readouterr().out


def test_a_version_that_names_two_seeds_or_impossible_settings_is_found(refit: ModelSnapshot) -> None:
    ModelSnapshot.objects.update(seed=7)
    assert list(problems_of(refit.project)) == ["version 1 names two seeds."]
    ModelSnapshot.objects.update(settings=["seed"])
    assert "version 1 cannot have had its settings." in next(problems_of(refit.project))
    assert "The model settings must be" in learned_again(refit)[0]


@pytest.mark.parametrize("column", ["mean", "sd"])
def test_a_score_that_was_changed_is_found(refit: ModelSnapshot, column: str) -> None:
    ConsensusScore.objects.filter(rank=3).update(**{column: F(column) + 1e-6})
    assert list(problems_of(refit.project)) == ["the scores of version 1 are not those of its arrays."]


def test_a_score_that_was_moved_to_another_item_is_found(refit: ModelSnapshot) -> None:
    stranger = Item.objects.get(key="new")
    ConsensusScore.objects.filter(rank=3).update(item=stranger)
    assert list(problems_of(refit.project)) == ["the scores of version 1 are not those of its arrays."]


def test_numbers_of_items_that_were_changed_since_are_named_as_the_reason(refit: ModelSnapshot) -> None:
    Item.objects.filter(key="item-1").update(features={"year": 1800})
    assert learned_again(refit) == [OWN_NUMBERS]


def test_versions_whose_arrays_were_thrown_away_are_not_learned_again(refit: ModelSnapshot) -> None:
    updating.run_one("one")
    ModelSnapshot.objects.filter(pk=refit.pk).update(pruned_at=refit.created_at)
    assert [(snapshot.number, problem) for snapshot, problem in rebuild(refit.project, 20)] == [(2, "")]
