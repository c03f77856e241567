"""What nobody thought of: generated requests, valid and broken, against the document. `DRILLS=long` sends thousands."""

import os
import sys
from collections.abc import Callable
from random import Random

import pytest

from annotation import services, throttling
from annotation.models import Item, Project, User, Worker
from modelling import updating
from modelling.exporting import requests
from modelling.exporting.points import point_of
from modelling.models import ExportJob
from modelling.tokens import make_token
from tests.drills.serving import serving
from tests.modelling.api.fuzzing import PHASES, Known, fuzz

LONG = os.environ.get("DRILLS") == "long"
EXAMPLES, FEWEST = (200, 5000) if LONG else (5, 150)


@pytest.fixture
def known(project: Project, worker: Worker, judge: Callable[..., services.Receipt]) -> Known:
    """Ids of a study with a version, open pairs and answers, by the places where a request may name them."""
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=5000, redundancy=1000)
    project.refresh_from_db()
    judged = [str(judge(worker, choice).judgement.uuid) for choice in ("left", "right", "left")]
    updating.run_one("test")
    requests.ask(project=project, user=None, point=point_of(project), what="judgements", format="csv")
    assert requests.export_one("test")
    file = ExportJob.objects.get()
    leases = [str(lease.public_id) for lease in services.lease_pairs(worker=worker, rng=Random(1))]
    items = Item.objects.filter(project=project)
    keys, codes = list(items.values_list("key", flat=True)), [worker.code]
    return {
        "path.slug": ["pets"],
        "path.code": codes,
        "path.item_id": list(items.values_list("pk", flat=True)),
        "path.judgement": judged,
        "path.number": [1, file.pk],
        "body.worker": codes,
        "body.assignment": leases,
        "body.judgement": judged,
        "body.pairs[*].a": keys,
        "body.pairs[*].b": keys,
        "body.pairs[*].worker": codes,
        "body.likings[*].worker": codes,
        "body.likings[*].item": keys,
        "body.suggestions[*].a": keys,
        "body.suggestions[*].b": keys,
        "body.suggestions[*].worker": codes,
        "body.state": ["open"],
    }


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_no_generated_request_finds_an_answer_that_is_not_in_the_document(
    known: Known, owner: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throttling, "CALLS_PER_SECOND", 1_000_000)
    monkeypatch.setattr(throttling, "PER_SECOND", 1_000_000)
    monkeypatch.setattr(throttling, "EXPORTS", 1_000_000)
    monkeypatch.setattr(requests, "LARGE_PER_HOUR", 1_000_000)
    _token, words = make_token(user=owner, name="fuzz", scope="write", days=7)
    with serving() as port:
        address = f"http://127.0.0.1:{port}"
        run = fuzz(address, words, known, examples=EXAMPLES, seed=1, phases=PHASES if LONG else ("fuzzing",))
    assert not run.failures, "\n\n".join(run.failures[:20])
    assert run.cases >= FEWEST
    if LONG:
        with capsys.disabled():
            sys.stdout.write(f"{run.cases} cases; answers: {dict(run.answers)}\n")
        assert min(run.done.values()) >= 10, run.done
