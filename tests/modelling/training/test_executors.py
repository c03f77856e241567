"""Fits and cross-validation on a Dask scheduler: the same results, a lost process, and what happens without one."""

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, LocalExecutor
from modelling.training import executors
from modelling.training.executors import DaskExecutor, NoProcesses, OtherRelease, get_executor
from tests.modelling.crowdgppl.crowds import Crowd, make_crowd


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return make_crowd(seed=1)


@pytest.fixture
def executor() -> Iterator[DaskExecutor]:
    """Two workers that are threads of this process."""
    distributed = pytest.importorskip("distributed")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(**options, set_as_default=False) as client:
        yield DaskExecutor(client)


def fit(crowd: Crowd, executor: DaskExecutor | None = None) -> CrowdGPPL:
    model = CrowdGPPL(n_components=4, batch_size=10, reliability=True, executor=executor)
    return model.fit(crowd.labels, **crowd.sizes)


def double(shard: int, shared: int) -> int:
    return 2 * shard + shared


def test_work_stays_here_without_a_scheduler(settings) -> None:
    assert isinstance(get_executor(), LocalExecutor)


def test_a_scheduler_that_does_not_answer_is_not_waited_for(settings, monkeypatch, caplog) -> None:
    pytest.importorskip("distributed")
    settings.DASK_SCHEDULER = "tcp://127.0.0.1:9"
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 0.2)
    with caplog.at_level(logging.WARNING, "concord.executors"):
        assert isinstance(get_executor(), LocalExecutor)
    assert "the scheduler does not answer" in caplog.text


def test_a_missing_package_is_named_in_the_log(settings, monkeypatch, caplog) -> None:
    settings.DASK_SCHEDULER = "tcp://127.0.0.1:8786"
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    executors._connect.cache_clear()
    assert isinstance(get_executor(), LocalExecutor)
    assert "pip install 'concord[distributed]'" in caplog.text


def test_a_scheduler_without_processes_is_not_waited_for(settings, monkeypatch, executor, caplog) -> None:
    settings.DASK_SCHEDULER = "tcp://127.0.0.1:8786"
    monkeypatch.setattr(executors, "connect", lambda address: executor.client)
    assert isinstance(get_executor(), DaskExecutor)
    monkeypatch.setattr(DaskExecutor, "n_processes", 0)
    assert isinstance(get_executor(), LocalExecutor)


def test_small_fits_stay_here(settings, monkeypatch, executor) -> None:
    settings.DASK_SCHEDULER = "tcp://127.0.0.1:8786"
    monkeypatch.setattr(executors, "connect", lambda address: executor.client)
    assert isinstance(get_executor(executors.MIN_LABELS - 1), LocalExecutor)
    assert isinstance(get_executor(executors.MIN_LABELS), DaskExecutor)


def test_results_come_in_the_order_of_the_shards(executor: DaskExecutor) -> None:
    assert list(executor.stream(double, iter(range(20)), executor.share(1))) == list(range(1, 41, 2))
    assert executor.gather(executor.map(double, range(3), 0)) == [0, 2, 4]


def test_large_values_are_sent_once(executor: DaskExecutor, monkeypatch) -> None:
    monkeypatch.setattr(executors, "INLINE_BYTES", 10)
    handle = executor.share(np.arange(1000))
    assert type(handle).__name__ == "Future"
    assert executor.gather(executor.map(np.add, [1], handle))[0][-1] == 1000


def test_a_fit_on_two_workers_is_the_same_bit_for_bit(crowd: Crowd, executor: DaskExecutor) -> None:
    assert np.array_equal(fit(crowd, executor).predict_utilities(), fit(crowd).predict_utilities())


def test_a_process_of_another_release_is_refused(executor: DaskExecutor) -> None:
    future = executor.client.submit(executors.run, "0.1.0", double, 1, 1)
    with pytest.raises(OtherRelease, match=r"the study needs 0\.1\.0"):
        future.result()


def test_work_is_given_up_when_all_processes_are_lost(executor: DaskExecutor, monkeypatch) -> None:
    monkeypatch.setattr(executors, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(executors, "PATIENCE", 0.1)
    executor.client.retire_workers()
    with pytest.raises(NoProcesses):
        executor.gather(executor.map(double, [1], 1))


@pytest.mark.slow
def test_a_fit_survives_a_killed_worker() -> None:
    pytest.importorskip("distributed")
    from benchmarks.load.cluster import Cluster
    from benchmarks.model.distributed import QUICK, lost_worker

    with Cluster(2) as cluster:
        found = lost_worker(cluster, QUICK)
    assert found["identical to the last bit"]
    assert found["workers left"] == 1
