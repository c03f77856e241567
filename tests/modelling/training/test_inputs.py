"""Included and excluded judgements add up to all judgements, whether read incrementally or at once."""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation.models import Judgement, Project, Retraction
from annotation.storage import event_log
from modelling.models import ModelSnapshot
from modelling.training.inputs import Counts, ReadPoint, get_read_point, primary_keys, read_delta, read_inputs
from tests.modelling.samples.histories import TEXTS, answer, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HISTORIES = 500 if os.environ.get("DRILLS") == "long" else 60
CHOICES = ("first", "second", "tie", "skip")
EVENTS = st.lists(st.sampled_from([*CHOICES, "undo", "version"]), min_size=1, max_size=40)


@pytest.mark.slow
@given(events=EVENTS, seed=st.integers(0, 10**6))
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_judgements_are_accounted_for_in_random_histories(db: None, events: list[str], seed: int) -> None:
    rng = Random(seed)
    project = make_study(f"history-{Project.objects.count()}")
    versions: list[ModelSnapshot] = []
    for event in [*events, "version"]:
        if event == "version":
            versions.append(read_version(project, versions))
        elif event == "undo":
            retract_one(project, rng)
        else:
            a, b = rng.sample(range(len(TEXTS)), 2)
            answer(project, [(rng.randrange(4), a, b, event)])


def read_version(project: Project, earlier: list[ModelSnapshot]) -> ModelSnapshot:
    """Check that reading the delta since the last version gives the same as reading the whole log."""
    point = get_read_point(project)
    whole = read_inputs(project, point)
    total = Judgement.objects.filter(project=project, sequence__lte=point.sequence).count()
    assert whole.counts.included + sum(whole.counts.excluded.values()) == total
    assert whole.counts.included == len(whole.labels)
    if not earlier:
        return build_version(project, point, whole.counts, whole.data_hash)
    parent = earlier[-1]
    known = read_inputs(project, ReadPoint(parent.last_sequence, 0))
    delta = read_delta(parent, point, primary_keys(known.items), primary_keys(known.workers))
    assert delta.counts == whole.counts
    assert len(known.labels) + len(delta.added) - len(delta.removed) == len(whole.labels)
    return build_version(project, point, delta.counts, delta.data_hash)


def build_version(project: Project, point: ReadPoint, counts: Counts, data_hash: str) -> ModelSnapshot:
    return ModelSnapshot(
        project=project,
        last_sequence=point.sequence,
        inputs_revision=point.inputs_revision,
        included=counts.included,
        excluded=counts.excluded,
        data_hash=data_hash,
    )


def retract_one(project: Project, rng: Random) -> None:
    standing = list(Judgement.objects.filter(project=project).not_retracted())
    if standing:
        judgement = rng.choice(standing)
        event = Retraction(uuid=judgement.uuid, project=project, judgement=judgement, created_at=judgement.created_at)
        event_log.append([event])
