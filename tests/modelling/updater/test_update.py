"""One update: new judgements become one new snapshot."""

import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from annotation import services
from annotation.models import Item, Judgement, Project, Worker
from annotation.services import Receipt
from annotation.storage import event_log
from modelling.models import ModelSnapshot, SnapshotArrays, UpdaterBeat, UpdateState
from modelling.training.inputs import ReadPoint, get_read_point, read_inputs
from modelling.training.snapshots import FittedModel, Scores, current_snapshot, load_fitted_model
from modelling.training.storage import array_store
from modelling.training.verification import find_problems
from modelling.updater import failure_messages, leases, update, update_state
from tests.modelling.samples.histories import make_crowd, make_study
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db


@pytest.mark.both_databases
def test_a_snapshot_includes_every_judgement_and_ranks_every_item(project: Project, crowd: list[Worker]) -> None:
    snapshot = update.update_one("one")
    assert snapshot.number == 1
    assert (snapshot.last_sequence, snapshot.included, snapshot.excluded) == (15, 15, {})
    assert list(snapshot.scores.values_list("rank", flat=True)) == list(range(1, 8))
    assert current_snapshot(project) == snapshot
    assert list(find_problems(project)) == []
    assert update.update_one("one") is None


def test_a_stored_snapshot_predicts_the_same(project: Project, crowd: list[Worker]) -> None:
    snapshot = update.update_one("one")
    fitted = load_fitted_model(snapshot)
    mean, sd = fitted.model.predict_consensus(return_std=True)
    stored = dict(snapshot.scores.values_list("item_id", "mean"))
    np.testing.assert_array_equal([stored[pk] for pk in fitted.item_ids], mean - mean.mean())
    assert np.isfinite(sd).all()


def test_an_item_that_always_wins_is_ranked_first(project: Project) -> None:
    best = Item.objects.get(key="cats-3")
    project.redundancy = 100
    for _ in range(6):
        worker = services.enrol(project=project)
        for _ in range(6):
            lease = services.lease_pairs(worker=worker, rng=Random(3))[0]
            wanted = "left" if lease.left == best else "right" if lease.right == best else "tie"
            services.record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice=wanted)
    snapshot = update.update_one("one")
    assert snapshot.scores.get(rank=1).item == best


def test_skipped_and_retracted_judgements_are_counted_as_excluded(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judgements = [judge(worker, choice).judgement for choice in ("left", "skip", "right")]
    services.retract(worker=worker, judgement=judgements[0].uuid, uuid=judgements[0].uuid)
    snapshot = update.update_one("one")
    assert (snapshot.included, snapshot.excluded) == (1, {"skipped": 1, "retracted": 1})
    assert snapshot.last_sequence == 4


def test_only_the_newest_revision_of_an_item_is_ranked(project: Project, crowd: list[Worker]) -> None:
    old = Item.objects.get(key="cats-1")
    old.active = False
    old.save()
    Item.objects.create(project=project, key="cats-1", revision=2, text="Cats purr and purr.", group="cats")
    event_log.raise_inputs_revision(project.pk)
    snapshot = update.update_one("one")
    assert snapshot.included == 15
    assert set(snapshot.scores.values_list("item__key", "item__revision")) >= {("cats-1", 2)}
    assert not snapshot.scores.filter(item=old).exists()


def test_changed_inputs_start_an_update_and_unchanged_ones_do_not(project: Project, crowd: list[Worker]) -> None:
    assert update.update_one("one").number == 1
    event_log.raise_inputs_revision(project.pk)
    assert update.update_one("one").number == 2
    assert update.update_one("one") is None


@pytest.mark.both_databases
def test_an_incomplete_batch_waits_a_minute(
    project: Project, worker: Worker, judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    Project.objects.update(update_batch=5)
    judge(worker)
    assert update.update_one("one") is None
    monkeypatch.setattr(update_state, "PATIENCE", timedelta(0))
    assert update.update_one("one").number == 1


def test_progress_is_shown_on_a_terminal_and_cleared_at_the_end(
    project: Project, crowd: list[Worker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_state, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    call_command("update_models", "--project", "pets")
    shown = capsys.readouterr()
    assert "\r\033[Kpets: reading [........................] 0%" in shown.err
    assert re.search(r"pets: fitting \[#*\.*\] \d+%, iteration \d+, change ", shown.err)
    assert "pets: version 1 was published." in shown.out
    assert UpdateState.objects.get().progress == {}


def test_the_command_reports_why_a_project_cannot_be_updated(project: Project, worker: Worker, judge) -> None:
    judge(worker, "skip")
    with pytest.raises(CommandError, match="Waiting for the first judgements"):
        call_command("update_models", "--project", "pets")
    with pytest.raises(CommandError, match="no project called pots"):
        call_command("update_models", "--project", "pots")


def test_a_named_project_does_not_wait_for_a_full_batch(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], capsys: pytest.CaptureFixture[str]
) -> None:
    update.update_one("one")
    Project.objects.update(update_batch=100)
    judge(crowd[0])
    call_command("update_models", "--project", "pets")
    assert "pets: version 2 was published." in capsys.readouterr().out
    assert ModelSnapshot.objects.latest().included == 16
    call_command("update_models", "--project", "pets")
    assert "pets: already up to date." in capsys.readouterr().out


def test_the_command_reports_another_running_updater(project: Project, crowd: list[Worker]) -> None:
    update_state.claim_project("another")
    with pytest.raises(CommandError, match=r"Another updater \(another\) is updating pets"):
        call_command("update_models", "--project", "pets")
    assert ModelSnapshot.objects.count() == 0


def test_non_finite_scores_are_not_published(project: Project, crowd: list[Worker], monkeypatch) -> None:
    real = update.consensus_scores

    def return_nan(fitted: FittedModel, seed: int) -> Scores:
        scores = real(fitted, seed)
        return replace(scores, mean=scores.mean * np.nan)

    monkeypatch.setattr(update, "consensus_scores", return_nan)
    assert update.update_one("one") is None
    assert ModelSnapshot.objects.count() == 0
    assert UpdateState.objects.get().message == failure_messages.NOT_FINITE


def test_a_project_without_judgements_waits(project: Project, worker: Worker, judge) -> None:
    judge(worker, "skip")
    assert update.update_one("one") is None
    state = UpdateState.objects.get()
    assert (state.done_sequence, state.current) == (1, None)
    assert (state.condition, state.message) == ("waiting", failure_messages.NO_LABELS)


def test_damaged_arrays_are_detected(project: Project, crowd: list[Worker], settings) -> None:
    snapshot = update.update_one("one")
    path = settings.DATA_DIR / "snapshots" / str(project.pk) / f"{snapshot.checksum}.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(array_store.DamagedArrays):
        array_store.load(project, snapshot.checksum)
    assert list(find_problems(project)) == ["the arrays of version 1 are missing or damaged."]


@pytest.mark.both_databases
def test_arrays_can_be_stored_in_the_database(project: Project, crowd: list[Worker], settings) -> None:
    settings.FILE_STORAGE = "table"
    snapshot = update.update_one("one")
    assert load_fitted_model(snapshot).model.predict_consensus().shape == (7,)
    assert not (settings.DATA_DIR / "snapshots" / str(project.pk) / f"{snapshot.checksum}.npz").exists()


def test_the_same_judgements_give_exactly_the_same_snapshot(project: Project, crowd: list[Worker]) -> None:
    first = update.update_one("one")
    event_log.raise_inputs_revision(project.pk)
    second = update.update_one("one")
    assert (first.checksum, first.data_hash) == (second.checksum, second.data_hash)


@pytest.mark.both_databases
def test_later_events_are_not_read(project: Project, crowd: list[Worker]) -> None:
    inputs = read_inputs(project, ReadPoint(sequence=10, inputs_revision=0))
    assert (len(inputs.labels), inputs.counts.included) == (10, 10)
    assert len(read_inputs(project, get_read_point(project)).labels) == Judgement.objects.count() == 15


def test_the_command_updates_everything_and_ends(project: Project, crowd: list[Worker]) -> None:
    call_command("update_models", "--once")
    assert ModelSnapshot.objects.get().included == 15


def test_the_study_with_the_oldest_version_is_updated_first(project: Project) -> None:
    studies = [project, *(make_study(slug, texts=["One.", "Two."]) for slug in ("second", "third"))]
    for study, hours in zip(studies, (2, 3, 1), strict=True):
        version = make_version(study, 1)
        ModelSnapshot.objects.filter(pk=version.pk).update(created_at=timezone.now() - timedelta(hours=hours))
    claimed = [update_state.claim_project("one") for _ in studies]
    assert [state.project.slug for state in claimed if state] == ["second", "pets", "third"]


def test_an_updater_records_heartbeats(db: None) -> None:
    assert not leases.updater_is_alive()
    leases.record_heartbeat()
    assert leases.updater_is_alive()
    UpdaterBeat.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    assert not leases.updater_is_alive()


@pytest.fixture
def many(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Twelve workers, more than there are components, with six answers each."""
    return make_crowd(project, judge, workers=12, answers=6)


@pytest.mark.both_databases
def test_new_judgements_are_learned_in_a_step(
    project: Project, many: list[Worker], judge: Callable[..., Receipt]
) -> None:
    first = update.update_one("one")
    newcomer = services.enrol(project=project)
    judge(many[0], "left")
    judge(newcomer, "right")
    second = update.update_one("one")
    assert (first.kind, second.kind, second.parent) == ("refit", "step", first)
    assert (second.first_sequence, second.last_sequence, second.included) == (73, 74, 74)
    assert load_fitted_model(second).worker_index.get(newcomer.pk) == 12
    assert load_fitted_model(first).worker_index.get(newcomer.pk) is None
    assert list(find_problems(project)) == []


@pytest.mark.slow
def test_a_step_comes_close_to_a_refit_of_the_same_judgements(
    project: Project, many: list[Worker], judge: Callable[..., Receipt]
) -> None:
    update.update_one("one")
    for worker in many[:8]:
        judge(worker, "left")
    step = update.update_one("one")
    event_log.raise_inputs_revision(project.pk)
    refit = update.update_one("one")
    assert (step.kind, refit.kind, step.included, refit.included) == ("step", "refit", 80, 80)
    means = [dict(snapshot.scores.values_list("item_id", "mean")) for snapshot in (step, refit)]
    stepped, fitted = (np.array([mean[pk] for pk in sorted(means[0])]) for mean in means)
    assert np.corrcoef(stepped, fitted)[0, 1] > 0.95


@pytest.mark.both_databases
def test_a_retracted_judgement_is_forgotten_in_a_step(
    project: Project, many: list[Worker], judge: Callable[..., Receipt]
) -> None:
    update.update_one("one")
    known = Judgement.objects.filter(worker=many[3]).latest("sequence")
    fresh = judge(many[4]).judgement
    for judgement in (known, fresh):
        services.retract(worker=judgement.worker, judgement=judgement.uuid, uuid=judgement.uuid)
    snapshot = update.update_one("one")
    assert (snapshot.kind, snapshot.included, snapshot.excluded) == ("step", 71, {"retracted": 2})
    assert list(find_problems(project)) == []


def test_the_model_is_refitted_when_the_judgements_have_grown_by_the_factor(
    project: Project, judge: Callable[..., Receipt]
) -> None:
    Project.objects.update(redundancy=100, model_settings={"refit_growth": 2.0})
    project.refresh_from_db()
    workers = [services.enrol(project=project) for _ in range(12)]
    for worker in workers:
        judge(worker)
    assert update.update_one("one").kind == "refit"
    for worker in workers[:11]:
        judge(worker)
    assert update.update_one("one").kind == "step"
    judge(workers[11])
    assert update.update_one("one").kind == "refit"


def test_the_model_is_refitted_when_the_settings_have_changed(project: Project, many: list[Worker]) -> None:
    update.update_one("one")
    services.change_project(project=project, user=None, changes={"model_settings": {"n_components": 4}})
    changed = update.update_one("one")
    assert (changed.kind, changed.settings["n_components"]) == ("refit", 4)


def test_damaged_arrays_cause_a_refit(
    project: Project, many: list[Worker], judge: Callable[..., Receipt], settings, monkeypatch
) -> None:
    first = update.update_one("one")
    (settings.DATA_DIR / "snapshots" / str(project.pk) / f"{first.checksum}.npz").unlink()
    monkeypatch.setattr(update, "_cache", {})
    judge(many[0])
    assert update.update_one("one").kind == "refit"


def test_a_study_with_all_judgements_retracted_shows_no_ranking(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judge(worker)
    assert update.update_one("one") is not None
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert update.update_one("one") is None
    assert current_snapshot(project) is None
    assert UpdateState.objects.get().message == failure_messages.NO_LABELS


def test_a_study_without_active_items_shows_no_ranking(project: Project, crowd: list[Worker]) -> None:
    update.update_one("one")
    Item.objects.update(active=False)
    event_log.raise_inputs_revision(project.pk)
    assert update.update_one("one") is None
    assert (current_snapshot(project), UpdateState.objects.get().message) == (None, failure_messages.FEW_ITEMS)


def test_a_version_of_another_release_is_refitted(project: Project, crowd: list[Worker]) -> None:
    first = update.update_one("one")
    ModelSnapshot.objects.filter(pk=first.pk).update(code_version="0.0.1")
    second = update.update_one("one")
    assert (second.kind, second.included) == ("refit", first.included)
    assert update.update_one("one") is None


def test_arrays_of_another_release_count_as_damaged(project: Project, settings: Any) -> None:
    settings.FILE_STORAGE = "table"
    content = io.BytesIO()
    np.savez(content, mean=np.zeros(3))
    SnapshotArrays.objects.create(project=project, checksum="old", content=content.getvalue())
    with pytest.raises(array_store.DamagedArrays):
        array_store.load(project, "old")
