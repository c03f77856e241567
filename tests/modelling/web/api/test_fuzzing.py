"""Generated requests, valid and invalid, checked against the document. `DRILLS=long` sends thousands."""

import os
import sys
from collections.abc import Callable
from random import Random

import pytest

from annotation import services
from annotation.http import throttling
from annotation.models import Item, Project, User, Worker
from modelling.exports import jobs, service
from modelling.exports.service import ExportRequest
from modelling.models import ExportJob
from modelling.updater import update
from modelling.web.api.tokens import create_token
from tests.helpers.serving import serving
from tests.modelling.web.api.fuzzing import PHASES, Known, fuzz

pytestmark = pytest.mark.both_databases

LONG = os.environ.get("DRILLS") == "long"
EXAMPLES, FEWEST = (200, 5000) if LONG else (5, 150)


@pytest.fixture
def known(project: Project, worker: Worker, judge: Callable[..., services.Receipt]) -> Known:
    """Valid ids of a study with a version, leased pairs and answers, by parameter."""
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=5000, redundancy=1000)
    project.refresh_from_db()
    judged = [str(judge(worker, choice).judgement.uuid) for choice in ("left", "right", "left")]
    update.update_one("test")
    ExportRequest(project, None, "judgements", "csv").queue()
    assert jobs.run_export_job("test")
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
        "body.utilities[*].worker": codes,
        "body.utilities[*].item": keys,
        "body.likings[*].worker": codes,
        "body.likings[*].item": keys,
        "body.suggestions[*].a": keys,
        "body.suggestions[*].b": keys,
        "body.suggestions[*].worker": codes,
        "body.judgements[*].a": keys,
        "body.judgements[*].b": keys,
        "body.state": ["open"],
    }


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_generated_requests_get_documented_responses(
    known: Known, owner: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throttling, "API_CALLS_PER_SECOND", 1_000_000)
    monkeypatch.setattr(throttling, "REQUESTS_PER_SECOND", 1_000_000)
    monkeypatch.setattr(throttling, "MAX_EXPORTS", 1_000_000)
    monkeypatch.setattr(service, "JOBS_PER_HOUR", 1_000_000)
    _token, secret = create_token(user=owner, name="fuzz", scope="write", days=7)
    with serving() as port:
        address = f"http://127.0.0.1:{port}"
        run = fuzz(address, secret, known, examples=EXAMPLES, seed=1, phases=PHASES if LONG else ("fuzzing",))
    assert not run.failures, "\n\n".join(run.failures[:20])
    assert run.cases >= FEWEST
    if LONG:
        with capsys.disabled():
            sys.stdout.write(f"{run.cases} cases; answers: {dict(run.answers)}\n")
        assert min(run.done.values()) >= 10, run.done
