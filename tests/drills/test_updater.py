"""P22 to P25, D3, D11: the updater is killed, stopped, doubled and starved; readers see whole versions only.

Short here; the promised numbers with DRILLS=long (`make drills`).
"""

import os
import signal
from random import Random

import pytest
from django.db import connection
from django.utils import timezone

from annotation.models import Project
from modelling import claiming, troubles, updating
from modelling.models import ModelSnapshot, UpdateState
from modelling.verification import problems_of
from tests.drills.readers import reading
from tests.drills.updater import IN_FILES, POINTS, Updater, arrays_as_the_updater_keeps_them
from tests.drills.waiting import wait_until
from tests.modelling.histories import TEXTS, answer, everybody, make_study

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LONG = os.environ.get("DRILLS") == "long"
START_SECONDS, FIT_SECONDS = 30.0, 5.0
RECOVERY_SECONDS = 2 * FIT_SECONDS + 30  # P23


@pytest.fixture
def study(transactional_db: None) -> Project:
    """Twelve workers, so that updates are steps; a first version is not there yet."""
    arrays_as_the_updater_keeps_them()
    return make_study("drill", everybody(12))


def give(project: Project, rng: Random) -> int:
    """One more answer; returns its sequence."""
    a, b = rng.sample(range(len(TEXTS)), 2)
    return answer(project, [(rng.randrange(12), a, b, rng.choice(["first", "second"]))])[0].sequence


def learned(project: Project) -> int:
    """Up to which event the current version knows."""
    current = UpdateState.objects.select_related("current").get(project=project).current
    return current.last_sequence if current else 0


def wait_for(project: Project, sequence: int, seconds: float = RECOVERY_SECONDS) -> float:
    claiming._make_missing_states()
    return wait_until(lambda: learned(project) >= sequence, seconds, f"event {sequence} was not learned")


def assert_all_is_well(project: Project) -> None:
    assert list(problems_of(project)) == []
    known = list(
        ModelSnapshot.objects.filter(project=project).order_by("number").values_list("last_sequence", flat=True)
    )
    assert known == sorted(known), "a later version knows less"


def test_readers_see_whole_versions_only_while_many_are_published(study: Project) -> None:
    """P22: 8 readers at 50 Hz and 1,000 publishes in the long form."""
    rng, publishes = Random(1), 1000 if LONG else 10
    claiming._make_missing_states()
    with Updater(), reading(study, 8 if LONG else 2, len(TEXTS)) as seen:
        wait_for(study, 1, START_SECONDS)
        for _ in range(publishes):
            wait_for(study, give(study, rng))
    assert seen.wrong == []
    assert seen.looks > publishes
    assert seen.newest >= publishes
    assert_all_is_well(study)


def test_an_updater_killed_at_each_named_point_is_made_up_for(study: Project) -> None:
    """D3, P23: at each point once, or five times in the long form."""
    rng = Random(2)
    points = [point for point in POINTS if connection.vendor == "sqlite" or point not in IN_FILES]
    claiming._make_missing_states()
    with reading(study, 2, len(TEXTS)) as seen:
        for point in points * (5 if LONG else 1):
            with Updater(
                f"point={point},action=exit9,nth=2"
            ) as updater:  # the first passing makes up for the last kill
                wait_for(study, give(study, rng))
                given = give(study, rng)
                wait_until(lambda updater=updater: updater.has_ended, RECOVERY_SECONDS, f"nobody died at {point}")
            assert updater.process.returncode == -signal.SIGKILL
        with Updater():
            wait_for(study, given)
    assert seen.wrong == []
    assert_no_drafts_are_left()
    assert_all_is_well(study)


def assert_no_drafts_are_left() -> None:
    from django.conf import settings

    assert list(settings.DATA_DIR.glob("snapshots/*/*.tmp")) == []


def test_an_updater_killed_at_random_moments_is_made_up_for(study: Project) -> None:
    """P22, P23: 30 kills in the long form, each made up for within twice a fit and half a minute."""
    rng, waits = Random(3), []
    claiming._make_missing_states()
    with reading(study, 2, len(TEXTS)) as seen:
        for _ in range(30 if LONG else 2):
            with Updater() as updater:
                wait_for(study, give(study, rng))
                for _ in range(rng.randrange(1, 4)):
                    given = give(study, rng)
                wait_until(lambda: rng.random() < 0.05, 5, "chance never struck", pause=0.004)
                updater.kill()
            with Updater():
                waits.append(wait_for(study, given))
    assert seen.wrong == []
    assert max(waits) <= RECOVERY_SECONDS
    assert_all_is_well(study)


def test_an_updater_that_slept_through_its_lease_publishes_nothing(study: Project) -> None:
    """P23, P24: stopped before the pointer moves; another takes over; awake again, it goes on with the next events."""
    rng = Random(4)
    with Updater("point=before_pointer,action=stop,nth=2") as sleeper:
        wait_for(study, give(study, rng))
        given = give(study, rng)
        wait_until(lambda: sleeper.is_stopped, RECOVERY_SECONDS, "it did not stop")
        if not LONG:  # the long form waits until the lease has really run out
            UpdateState.objects.update(lease_until=timezone.now())
        with Updater():
            wait_for(study, given, claiming.LEASE.total_seconds() + RECOVERY_SECONDS)
        count = ModelSnapshot.objects.count()
        sleeper.send(signal.SIGCONT)
        wait_until(lambda: "another updater took over" in sleeper.log.read_text(), 30, "it did not notice")
        assert ModelSnapshot.objects.count() == count
        wait_for(study, give(study, rng))
    assert_all_is_well(study)


def test_two_updaters_and_a_burst_make_few_versions_one_after_the_other(study: Project) -> None:
    """P24, P25: no two fits of a project at a time, far fewer fits than events, memory in bounds."""
    rng, events = Random(5), 10_000 if LONG else 200
    with Updater() as one, Updater() as two:
        wait_for(study, 1, START_SECONDS)
        before = ModelSnapshot.objects.count()
        began = timezone.now()
        for _ in range(events):
            given = give(study, rng)
        assert UpdateState.objects.exclude(owner="").count() <= 1
        wait_for(study, given)
        seconds = (timezone.now() - began).total_seconds()
        assert max(one.megabytes("VmHWM"), two.megabytes("VmHWM")) < 1024
    versions = list(ModelSnapshot.objects.order_by("number")[before:])
    quickest = min(version.seconds for version in versions)
    assert len(versions) <= seconds / quickest + 2
    assert len(versions) < events
    starts = [version.created_at.timestamp() - version.seconds for version in versions]
    ends = [version.created_at.timestamp() for version in versions]
    assert all(start > end - 0.05 for start, end in zip(starts[1:], ends, strict=False))
    assert_all_is_well(study)


def test_the_same_job_delivered_ten_times_is_done_once(study: Project) -> None:
    """P24, D8: whoever calls run_one, and however often."""
    from tests.drills.together import together

    done = together([lambda n=n: updating.run_one(f"caller-{n}") for n in range(10)])
    assert [snapshot.number for snapshot in done if snapshot] == [1]
    assert ModelSnapshot.objects.count() == 1


def test_a_study_too_large_for_the_memory_limit_is_said_to_be_so(study: Project) -> None:
    """D11: under a limit on memory the updater lives on, and says what is the matter."""
    project = make_study("large", everybody(2, items=6), texts=[f"{TEXTS[n % 6]} {n}" for n in range(2500)])
    UpdateState.objects.filter(project=study).delete()
    with Updater() as updater:
        wait_until(lambda: learned_if_any(study), RECOVERY_SECONDS, "the small study was not learned")
        limit = int((updater.megabytes("VmPeak") + 8) * 2**20)
    UpdateState.objects.filter(project=project).update(owner="", lease_until=None, attempts=0, not_before=None)
    with Updater(wrapper=("prlimit", f"--as={limit}")) as updater:
        words = troubles.TOO_LARGE % {"most": f"{limit // 10**6:,}"}
        wait_until(lambda: said(project) == words, 60, "it was not said that the study is too large")
        wait_for(study, give(study, Random(6)))
        assert not updater.has_ended


def learned_if_any(project: Project) -> int:
    return learned(project) if UpdateState.objects.filter(project=project).exists() else 0


def said(project: Project) -> str:
    state = UpdateState.objects.filter(project=project).first()
    return state.words if state else ""
