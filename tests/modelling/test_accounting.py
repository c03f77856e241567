"""P31: included and excluded by reason are all judgements, whatever happened, read step by step or at once."""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation import ledger
from annotation.models import Judgement, Project, Retraction
from modelling.inputs import Counts, Moment, ids_of, moment_of, read_inputs, read_news
from modelling.models import ModelSnapshot
from tests.modelling.histories import TEXTS, answer, make_study

pytestmark = pytest.mark.django_db

HISTORIES = 500 if os.environ.get("DRILLS") == "long" else 60
CHOICES = ("first", "second", "tie", "skip")
EVENTS = st.lists(st.sampled_from([*CHOICES, "undo", "version"]), min_size=1, max_size=40)


@given(events=EVENTS, seed=st.integers(0, 10**6))
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_judgement_is_accounted_for_in_every_history(db: None, events: list[str], seed: int) -> None:
    rng = Random(seed)
    project = make_study(f"history-{Project.objects.count()}")
    versions: list[ModelSnapshot] = []
    for event in [*events, "version"]:
        if event == "version":
            versions.append(version_of(project, versions))
        elif event == "undo":
            take_one_back(project, rng)
        else:
            a, b = rng.sample(range(len(TEXTS)), 2)
            answer(project, [(rng.randrange(4), a, b, event)])


def version_of(project: Project, earlier: list[ModelSnapshot]) -> ModelSnapshot:
    """What is carried on from the version before is what a reading of the whole log finds."""
    moment = moment_of(project)
    whole = read_inputs(project, moment)
    total = Judgement.objects.filter(project=project, sequence__lte=moment.sequence).count()
    assert whole.counts.included + sum(whole.counts.excluded.values()) == total
    assert whole.counts.included == len(whole.labels)
    if not earlier:
        return kept(project, moment, whole.counts, whole.data_hash)
    parent = earlier[-1]
    known = read_inputs(project, Moment(parent.last_sequence, 0))
    news = read_news(parent, moment, ids_of(known.items), ids_of(known.workers))
    assert news.counts == whole.counts
    assert len(known.labels) + len(news.learned) - len(news.forgotten) == len(whole.labels)
    return kept(project, moment, news.counts, news.data_hash)


def kept(project: Project, moment: Moment, counts: Counts, data_hash: str) -> ModelSnapshot:
    return ModelSnapshot(
        project=project,
        last_sequence=moment.sequence,
        included=counts.included,
        excluded=counts.excluded,
        data_hash=data_hash,
    )


def take_one_back(project: Project, rng: Random) -> None:
    standing = list(Judgement.objects.filter(project=project).standing())
    if standing:
        judgement = rng.choice(standing)
        event = Retraction(uuid=judgement.uuid, project=project, judgement=judgement, created_at=judgement.created_at)
        ledger.append([event])
