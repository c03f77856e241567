"""Updaters that are killed, stopped, run in parallel or out of memory publish complete versions only, each once.

Short by default; DRILLS=long (`make long-tests`) runs them at full size and checks the recovery time.
"""

import os
import signal
import threading
from random import Random

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from annotation.models import Project
from benchmarks.load.installation import descendants, is_alive
from benchmarks.load.waiting import wait_until
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.verification import find_problems
from modelling.updater import failure_messages, long_updates, update, update_state
from tests.drills.scenarios.readers import reading
from tests.drills.scenarios.updater import IN_FILES, POINTS, Updater, store_arrays_like_the_updater
from tests.helpers.concurrency import run_concurrently
from tests.modelling.samples.histories import TEXTS, all_pairs, answer, make_study

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.both_databases]

LONG = os.environ.get("DRILLS") == "long"
MEAN_DELAY = 0.08  # seconds until a kill at a random moment
RECOVERY_SECONDS = 40.0 if LONG else 300.0  # in the short form the machine may be busy


@pytest.fixture
def study(transactional_db: None) -> Project:
    """A study with enough workers that updates are steps, but without a version yet."""
    store_arrays_like_the_updater()
    return make_study("drill", all_pairs(12))


def add_answer(project: Project, rng: Random) -> int:
    """Append one answer and return its sequence."""
    a, b = rng.sample(range(len(TEXTS)), 2)
    return answer(project, [(rng.randrange(12), a, b, rng.choice(["first", "second"]))])[0].sequence


def last_fitted_event(project: Project) -> int:
    current = UpdateState.objects.select_related("current").get(project=project).current
    return current.last_sequence if current else 0


def wait_for(project: Project, sequence: int, seconds: float = RECOVERY_SECONDS) -> float:
    """Wait until the current version includes this event, and return the seconds it took."""
    update_state.create_missing_states()
    return wait_until(lambda: last_fitted_event(project) >= sequence, seconds, f"no version includes event {sequence}")


def assert_consistent(project: Project) -> None:
    assert list(find_problems(project)) == []
    last_events = list(
        ModelSnapshot.objects.filter(project=project).order_by("number").values_list("last_sequence", flat=True)
    )
    assert last_events == sorted(last_events), "a later version includes fewer events"


def test_readers_see_only_complete_versions_while_many_are_published(study: Project) -> None:
    """In the long form, 8 readers at 50 Hz and 1,000 versions."""
    rng, publishes = Random(1), 1000 if LONG else 10
    update_state.create_missing_states()
    with Updater(), reading(study, 8 if LONG else 2, len(TEXTS)) as readings:
        wait_for(study, 1)
        for _ in range(publishes):
            wait_for(study, add_answer(study, rng))
        wait_until(lambda: readings.newest >= publishes, RECOVERY_SECONDS, "readers did not see the newest version")
    assert readings.errors == []
    assert readings.count > publishes
    assert_consistent(study)


def test_an_update_killed_at_any_point_is_repeated(study: Project) -> None:
    """Kill the updater at each fault point once, or five times in the long form."""
    rng = Random(2)
    points = [point for point in POINTS if connection.vendor == "sqlite" or point not in IN_FILES]
    update_state.create_missing_states()
    with reading(study, 2, len(TEXTS)) as readings:
        for point in points * (5 if LONG else 1):
            with Updater(f"point={point},action=exit9,nth=2") as updater:  # the first update repeats the killed one
                wait_for(study, add_answer(study, rng))
                last = add_answer(study, rng)
                wait_until(lambda updater=updater: updater.has_ended, RECOVERY_SECONDS, f"no kill at {point}")
            assert updater.process.returncode == -signal.SIGKILL
        with Updater():
            wait_for(study, last)
    assert readings.errors == []
    assert list(settings.DATA_DIR.glob("snapshots/*/*.tmp")) == []
    assert_consistent(study)


def test_an_update_killed_at_a_random_moment_is_repeated(study: Project) -> None:
    """In the long form, 30 kills."""
    rng = Random(3)
    update_state.create_missing_states()
    with reading(study, 2, len(TEXTS)) as readings:
        for _ in range(30 if LONG else 2):
            with Updater() as updater:
                wait_for(study, add_answer(study, rng))
                for _ in range(rng.randrange(1, 4)):
                    last = add_answer(study, rng)
                threading.Event().wait(rng.expovariate(1 / MEAN_DELAY))
                updater.kill()
            with Updater():
                wait_for(study, last)
    assert readings.errors == []
    assert_consistent(study)


def test_an_updater_that_lost_its_lease_publishes_nothing(study: Project) -> None:
    """An updater stopped before publishing and overtaken by another continues with the next events."""
    rng = Random(4)
    with Updater("point=before_pointer,action=stop,nth=2") as stopped:
        wait_for(study, add_answer(study, rng))
        last = add_answer(study, rng)
        wait_until(lambda: stopped.is_stopped, RECOVERY_SECONDS, "the updater did not stop")
        if not LONG:  # the long form waits until the lease expires
            UpdateState.objects.update(lease_until=timezone.now())
        with Updater():
            wait_for(study, last, UpdateState.lease_duration.total_seconds() + RECOVERY_SECONDS)
        count = ModelSnapshot.objects.count()
        stopped.send(signal.SIGCONT)
        wait_until(
            lambda: "another updater took over" in stopped.log.read_text(),
            RECOVERY_SECONDS,
            "the updater did not notice that it lost its lease",
        )
        assert ModelSnapshot.objects.count() == count
        wait_for(study, add_answer(study, rng))
    assert_consistent(study)


def test_two_updaters_batch_a_burst_of_answers_and_never_fit_at_once(study: Project) -> None:
    """No two fits of a project overlap, there are far fewer fits than events, and memory stays bounded."""
    rng, events = Random(5), 10_000 if LONG else 200
    with Updater() as one, Updater() as two:
        wait_for(study, 1)
        before = ModelSnapshot.objects.count()
        began = timezone.now()
        for _ in range(events):
            last = add_answer(study, rng)
        assert UpdateState.objects.exclude(owner="").count() <= 1
        wait_for(study, last)
        seconds = (timezone.now() - began).total_seconds()
        assert max(one.megabytes("VmHWM"), two.megabytes("VmHWM")) < 1024
    versions = list(ModelSnapshot.objects.order_by("number")[before:])
    quickest = min(version.seconds for version in versions)
    assert len(versions) <= seconds / quickest + 2
    assert len(versions) < events
    starts = [version.created_at.timestamp() - version.seconds for version in versions]
    ends = [version.created_at.timestamp() for version in versions]
    assert all(start > end - 0.05 for start, end in zip(starts[1:], ends, strict=False))
    assert_consistent(study)


def test_ten_concurrent_calls_make_one_version(study: Project) -> None:
    done = run_concurrently([lambda n=n: update.update_one(f"caller-{n}") for n in range(10)])
    assert [snapshot.number for snapshot in done if snapshot] == [1]
    assert ModelSnapshot.objects.count() == 1


def test_a_study_that_exceeds_the_memory_limit_is_reported(study: Project) -> None:
    """The updater keeps running and updates its other studies."""
    UpdateState.objects.filter(project=study).delete()
    with Updater() as updater:
        wait_until(lambda: has_version(study), RECOVERY_SECONDS, "the small study was not updated")
        limit = int((updater.megabytes("VmPeak") + 8) * 2**20)
    large = make_study("large", all_pairs(2, items=6), texts=[f"{TEXTS[n % 6]} {n}" for n in range(2500)])
    with Updater(wrapper=("prlimit", f"--as={limit}")) as updater:
        message = failure_messages.OUT_OF_MEMORY % {"most": f"{limit // 10**6:,}"}
        wait_until(lambda: failure_message(large) == message, RECOVERY_SECONDS, "the failure was not reported")
        wait_for(study, add_answer(study, Random(6)))
        assert not updater.has_ended


def has_version(project: Project) -> bool:
    return UpdateState.objects.filter(project=project, current__isnull=False).exists()


def failure_message(project: Project) -> str:
    state = UpdateState.objects.filter(project=project).first()
    return state.message if state else ""


def test_a_long_update_delays_no_other_study(study: Project) -> None:
    """It runs in a child process: the first one is killed, the second one frozen while another study is updated."""
    texts = [f"Argument {number}." for number in range(long_updates.FIT_ITEMS + 1)]
    large = make_study("large", [(0, 1, 2, "first"), (1, 2, 3, "first")], texts)
    with Updater() as updater:
        killed = wait_for_child(updater)
        os.kill(killed, signal.SIGKILL)
        frozen = wait_for_child(updater, after=killed)
        os.kill(frozen, signal.SIGSTOP)
        wait_for(study, add_answer(study, Random(1)))
        lease = UpdateState.objects.get(project=large).lease_until
        wait_until(
            lambda: UpdateState.objects.get(project=large).lease_until > lease, RECOVERY_SECONDS, "it was not extended"
        )
        assert last_fitted_event(large) == 0
        os.kill(frozen, signal.SIGCONT)
        wait_for(large, 2)
        wait_until(lambda: not is_alive(frozen), RECOVERY_SECONDS, "the child did not end")
        assert "Fatal Python error" not in updater.log.read_text()
    assert_consistent(study)
    assert_consistent(large)


def wait_for_child(updater: Updater, after: int = 0) -> int:
    """Wait until the updater has a child process other than `after`, and return its id."""
    children: list[int] = []

    def find() -> bool:
        children[:] = descendants(updater.process.pid) - {after}
        return bool(children)

    wait_until(find, RECOVERY_SECONDS, "the updater has no child")
    return children[0]
