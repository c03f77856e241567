"""Labels and sites of workers in rows: complete, of the right version, and untouched by failed updates."""

from dataclasses import replace

import numpy as np
import pytest

from annotation import services
from annotation.models import Judgement, Project, Retraction, Worker
from annotation.storage import event_log
from annotation.storage.fault_injection import InjectedFault
from modelling.crowdgppl import CrowdGPPL
from modelling.models import ModelSnapshot, UpdateState, WorkerPosterior
from modelling.training import inputs, versions
from modelling.training.inputs import ReadPoint, get_read_point, read_delta, read_inputs, read_summary
from modelling.training.settings import ModelSettings
from modelling.training.snapshots import FittedModel, load_fitted_model, read_fitted_model
from modelling.training.storage import array_store, label_store
from modelling.training.storage.label_store import RECORD, UpdateRows, delete_unused_rows, read_rows
from modelling.training.training_state import TrainingState
from modelling.training.verification import find_problems, rebuild
from modelling.updater import leases, update, update_state
from tests.modelling.samples.cached_fits import shared_fits
from tests.modelling.samples.histories import Answer, answer, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

N_WORKERS = 40  # more than an update visits
ITEMS = 6


def draw_answers(seed: int, count: int, workers: int = N_WORKERS) -> list[Answer]:
    rng = np.random.default_rng(seed)
    return [
        (who, *rng.choice(ITEMS, 2, replace=False).tolist(), ("first", "second", "tie")[rng.integers(3)])
        for who in np.arange(count) % workers
    ]


@pytest.fixture
def study(db: None) -> Project:
    """Forty workers with six answers each, fitted."""
    project = make_study("rows", draw_answers(0, 6 * N_WORKERS), refit_growth=2.0)
    with shared_fits():
        assert update.update_one("one").kind == "refit"
    return project


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "_cache", {})


def numbers(project: Project) -> list[int]:
    return sorted(set(WorkerPosterior.objects.filter(project=project).values_list("number", flat=True)))


def load(snapshot: ModelSnapshot) -> FittedModel:
    return read_fitted_model(snapshot.project, snapshot.checksum, snapshot.number)


def retract(judgement: Judgement) -> None:
    event = Retraction(
        uuid=judgement.uuid, project=judgement.project, judgement=judgement, created_at=judgement.created_at
    )
    event_log.append([event])


def test_a_refit_writes_a_row_for_every_worker_and_a_step_for_the_visited_ones(study: Project) -> None:
    assert WorkerPosterior.objects.filter(number=1).count() == N_WORKERS
    answer(study, [(3, 0, 1, "first")])
    step = update.update_one("one")
    visited = WorkerPosterior.objects.filter(number=2)
    third = Worker.objects.order_by("pk")[3]
    assert step.kind == "step"
    assert visited.filter(worker=third).exists()
    assert visited.count() == 21
    assert list(find_problems(study)) == []


def test_the_rows_of_a_version_hold_exactly_its_labels(study: Project) -> None:
    gone = Judgement.objects.filter(worker=Worker.objects.order_by("pk")[5]).first()
    retract(gone)
    answer(study, [(3, 0, 1, "first"), (N_WORKERS, 2, 1, "tie")])
    step = update.update_one("one")
    store = load(step).store
    found = read_inputs(study, ReadPoint(step.last_sequence, 0))
    records = store.records(store.active_users())
    assert sorted(records["sequence"].tolist()) == sorted(found.sequences.tolist())
    assert gone.sequence not in records["sequence"]
    assert store.n_users == N_WORKERS + 1
    assert np.isfinite(records["lam"]).all()
    assert load(step).item_counts.tolist() == found.item_counts.tolist()


def test_no_array_of_a_version_grows_with_the_number_of_labels(study: Project) -> None:
    sizes = []
    for seed in (1, 2):
        arrays = array_store.load(study, ModelSnapshot.objects.latest().checksum)
        sizes.append({name: value.size for name, value in arrays.items() if value.dtype.kind != "U"})
        answer(study, draw_answers(seed, 3 * N_WORKERS))
        update.update_one("one")
    assert sizes[0] == sizes[1]


def test_personal_scores_of_an_old_version_stay_after_later_updates(study: Project) -> None:
    first = ModelSnapshot.objects.latest()
    before = load(first).model.predict_utilities()
    for seed in range(3):
        answer(study, draw_answers(seed + 5, 20))
        retract(Judgement.objects.filter(project=study, retraction=None).first())
        update.update_one("one")
    np.testing.assert_array_equal(load(first).model.predict_utilities(), before)


def test_updates_from_the_database_equal_updates_in_memory(study: Project) -> None:
    first = ModelSnapshot.objects.latest()
    known = read_inputs(study, ReadPoint(first.last_sequence, 0))
    state = TrainingState.fit(known, ModelSettings.from_dict(first.settings), lambda *_: None)
    gone = Judgement.objects.filter(project=study)[7]
    retract(gone)
    answer(study, draw_answers(9, 12))
    stored, step = load(first), update.update_one("one")
    delta = read_delta(first, ReadPoint(step.last_sequence, 0), stored.item_ids, stored.worker_ids)
    in_memory = state.advance(delta)
    np.testing.assert_array_equal(in_memory.fitted.model.predict_utilities(), load(step).model.predict_utilities())
    assert array_store.arrays_checksum(in_memory.to_arrays()) == step.checksum


def test_a_fit_from_the_database_equals_a_fit_in_memory(study: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    retract(Judgement.objects.filter(project=study)[7])
    point, settings = get_read_point(study), ModelSettings()
    in_memory = TrainingState.fit(read_inputs(study, point), settings, lambda *_: None)
    monkeypatch.setattr(inputs, "LABELS_PER_QUERY", 50)
    monkeypatch.setattr(label_store, "BYTES_PER_WRITE", 1000)
    summary = read_summary(study, point)
    rows = UpdateRows(study.pk, 2)
    from_database = TrainingState.fit(summary, settings, lambda *_: None, rows)
    np.testing.assert_array_equal(
        from_database.fitted.model.predict_utilities(), in_memory.fitted.model.predict_utilities()
    )
    assert summary.data_hash == read_inputs(study, point).data_hash
    left, right = in_memory.fitted.to_arrays(), from_database.fitted.to_arrays()
    assert all(np.array_equal(left[name], right[name]) for name in left)
    assert not from_database.fitted.store.changed


def test_a_large_study_is_fitted_in_batches_from_the_database(study: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "IN_MEMORY", 10)
    monkeypatch.setattr("modelling.training.fit.BATCH_LABELS", 60)
    versions.request_refit(project=study, user=None)
    refit = update.update_one("one")
    assert (refit.kind, refit.included) == ("refit", 6 * N_WORKERS)
    assert WorkerPosterior.objects.filter(number=2).count() == N_WORKERS
    assert list(find_problems(study)) == []
    answer(study, [(3, 0, 1, "first")])
    assert update.update_one("one").kind == "step"
    assert list(find_problems(study)) == []


@pytest.mark.parametrize("kind", ["refit", "step"])
def test_an_update_killed_before_the_pointer_moves_leaves_the_old_rows_valid(
    study: Project, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first = ModelSnapshot.objects.latest()
    before = load(first).model.predict_utilities()
    answer(study, [(3, 0, 1, "first")])
    if kind == "refit":
        versions.request_refit(project=study, user=None)

    def fail(point: str) -> None:
        if point == "before_pointer":
            raise InjectedFault(point)

    with monkeypatch.context() as broken:
        broken.setattr("modelling.updater.update.fault_injection.maybe_fail", fail)
        assert update.update_one("one", study) is None
    assert numbers(study) == [1, 2]
    np.testing.assert_array_equal(load(first).model.predict_utilities(), before)
    assert list(find_problems(study)) == []
    second = update.update_one("one", study)
    assert (second.number, second.kind) == (2, kind)
    assert list(find_problems(study)) == []


def test_rows_of_a_killed_refit_are_not_mixed_with_those_of_the_next_step(study: Project) -> None:
    left = [(worker.pk, b"x" * RECORD.itemsize) for worker in Worker.objects.filter(project=study)]
    UpdateRows(study.pk, 2).write(left)
    answer(study, [(3, 0, 1, "first")])
    assert update.update_one("one").kind == "step"
    assert WorkerPosterior.objects.filter(number=2).count() == 21
    assert list(find_problems(study)) == []


def test_a_process_that_lost_its_lease_writes_no_rows(study: Project) -> None:
    answer(study, [(3, 0, 1, "first")])
    state = update_state.claim_project("slow")
    UpdateState.objects.filter(pk=state.pk).update(owner="other")
    rows = UpdateRows(study.pk, 2, fence=lambda: leases.extend(state))
    with pytest.raises(leases.LeaseLost):
        rows.write([(Worker.objects.first().pk, b"")])
    UpdateRows(study.pk, 2).write([(Worker.objects.first().pk, b"")])
    with pytest.raises(leases.LeaseLost):
        rows.discard()
    assert numbers(study) == [1, 2]


def test_a_missing_row_is_noticed_and_repaired_by_a_refit(study: Project) -> None:
    first, worker = ModelSnapshot.objects.latest(), Worker.objects.order_by("pk")[3]
    WorkerPosterior.objects.filter(worker=worker).delete()
    with pytest.raises(array_store.DamagedArrays):
        load(first).model.predict_utilities(users=[3])
    assert list(find_problems(study)) == ["the workers' labels of version 1 are missing or damaged."]
    answer(study, [(3, 0, 1, "first")])
    second = update.update_one("one")
    assert (second.number, second.kind) == (2, "refit")
    load(second).model.predict_utilities()


def test_an_altered_row_is_noticed(study: Project) -> None:
    row = WorkerPosterior.objects.first()
    WorkerPosterior.objects.filter(pk=row.pk).update(content=bytes(row.content)[:-1] + b"\x07")
    assert list(find_problems(study)) == ["the workers' labels of version 1 are missing or damaged."]


def test_a_worker_whose_labels_were_all_retracted_has_none_in_the_next_version(study: Project) -> None:
    worker = Worker.objects.order_by("pk")[3]
    for judgement in Judgement.objects.filter(worker=worker):
        retract(judgement)
    step = update.update_one("one")
    fitted = load(step)
    assert (step.kind, fitted.store.counts[3]) == ("step", 0)
    consensus = fitted.model.predict_consensus()
    np.testing.assert_allclose(fitted.model.predict_utilities(users=[3])[:, 0], consensus - consensus.mean())
    assert list(find_problems(study)) == []


def test_labels_of_an_erased_worker_are_gone_after_the_next_update(study: Project) -> None:
    worker = Worker.objects.order_by("pk")[3]
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert update.update_one("one").kind == "refit"
    assert not WorkerPosterior.objects.filter(worker=worker).exists()
    assert list(find_problems(study)) == []


def test_rows_of_pruned_versions_are_deleted_and_those_in_use_kept(
    study: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "KEPT_VERSIONS", 2)
    for number in range(2, 8):
        answer(study, [(number, 0, 1, "first")])
        assert update.update_one("one").kind == "step"
    kept = list(ModelSnapshot.objects.filter(pruned_at=None).values_list("number", flat=True))
    assert kept == [7, 6, 1]
    used = {
        (worker, max(rows))
        for number in kept
        for worker in Worker.objects.filter(project=study).values_list("pk", flat=True)
        if (rows := WorkerPosterior.objects.filter(worker=worker, number__lte=number).values_list("number", flat=True))
    }
    assert used == set(WorkerPosterior.objects.values_list("worker", "number"))
    assert delete_unused_rows(study.pk) == 0
    assert list(find_problems(study)) == []


def test_a_pinned_version_keeps_its_rows(study: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "KEPT_VERSIONS", 1)
    first = ModelSnapshot.objects.latest()
    versions.pin(project=study, user=None, number=1)
    before = load(first).model.predict_utilities()
    for _ in range(2):
        versions.request_refit(project=study, user=None)
        update.update_one("one")
    assert numbers(study) == [1, 3]
    np.testing.assert_array_equal(load(first).model.predict_utilities(), before)
    versions.unpin(project=study, user=None)
    versions.request_refit(project=study, user=None)
    update.update_one("one")
    assert numbers(study) == [4]


def test_versions_can_be_rebuilt_to_the_last_bit(study: Project) -> None:
    for seed in range(2):
        answer(study, draw_answers(seed + 5, 20))
        update.update_one("one")
    assert [problem for _, problem in rebuild(study, newest=3)] == ["", "", ""]


def test_the_newest_row_up_to_a_version_is_read_by_its_index(study: Project) -> None:
    worker = Worker.objects.order_by("pk")[3].pk
    for number in (4, 9):
        WorkerPosterior.objects.create(project=study, worker_id=worker, number=number, content=bytes([number]))
    assert read_rows([worker], 8) == {worker: b"\x04"}
    assert read_rows([worker], 9) == {worker: b"\x09"}
    assert read_rows([worker], 0) == {}


def test_a_loaded_version_is_not_changed_by_pages(study: Project) -> None:
    fitted = load_fitted_model(ModelSnapshot.objects.latest())
    assert isinstance(fitted.model, CrowdGPPL)
    fitted.model.predict_utilities()
    assert fitted.store.changed == {}
    assert replace(fitted).worker_ids is fitted.worker_ids
