"""A whole study on Prolific: the outcome of every worker, the counts and the cost are correct.

`make test` runs 40 participants, `make drills` (DRILLS=long) 200.
"""

import json
import os
import time
import uuid
from collections import Counter
from decimal import Decimal

import pytest
from django.test import Client

from annotation.models import Judgement, PlatformIdentity, Project, User, Worker
from annotation.platforms.prolific_webhook import sign
from annotation.services.participation.funnel import count_stages
from annotation.services.participation.payment import summarise_payment
from annotation.services.participation.preparation import change_preparation
from annotation.services.verification import find_problems
from tests.annotation.platforms.studies import CODES, link, recruit
from tests.conftest import make_items

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
PARTICIPANTS = 200 if os.environ.get("DRILLS") == "long" else 40
TENTH = PARTICIPANTS // 10
SECRET = "secret"
QUESTION = {"question": "Whose view?", "choices": ["The experts'", "Mine"], "answer": 1}


class Participant:
    """One participant with one or more devices, who plays a part given by their number."""

    def __init__(self, project: Project, number: int) -> None:
        self.project, self.number = project, number
        self.address = link(project, f"{number:024x}", SESSION_ID=f"{number:024d}")
        self.device = Client()

    def play(self) -> str:
        parts = [self.decline, self.fail, self.leave, self.give_back, self.use_two_devices, self.stop]
        part = self.number % 10
        return parts[part]() if part < len(parts) else self.complete()

    def arrive(self) -> dict[str, str]:
        return {"arrival": self.device.get(self.address).context["form"]["arrival"].value(), "consent": "on"}

    def join(self) -> None:
        self.device.post("/s/pets/join/", self.arrive())
        self.device.post("/s/pets/prepare/", {"answer_0": 1})

    def judge(self) -> None:
        pair = self.device.get("/s/pets/task/").json()["pairs"][0]
        body = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        response = self.device.post("/s/pets/judgements/", json.dumps(body), content_type="application/json")
        assert response.status_code == 201

    def finish(self) -> str:
        page = self.device.post("/s/pets/finish/", follow=True).content.decode()
        [outcome] = [outcome for outcome, code in CODES.items() if code in page]
        return outcome

    def decline(self) -> str:
        page = self.device.post("/s/pets/decline/", self.arrive()).content.decode()
        assert CODES["declined"] in page
        return "declined"

    def fail(self) -> str:
        self.device.post("/s/pets/join/", self.arrive())
        for _ in range(2):
            self.device.post("/s/pets/prepare/", {"answer_0": 0})
        return "failed_checks"

    def leave(self) -> str:
        self.join()
        return ""

    def give_back(self) -> str:
        self.join()
        self.judge()
        message = {"event_type": "submission.status.change", "resource_id": f"{self.number:024d}", "status": "RETURNED"}
        body, timestamp = json.dumps(message), str(time.time())
        headers = {
            "X-Prolific-Request-Timestamp": timestamp,
            "X-Prolific-Request-Signature": sign(SECRET, timestamp, body.encode()),
            "X-Event-Id": f"event-{self.number}",
        }
        Client().post("/hooks/prolific/pets/", body, content_type="application/json", headers=headers)
        return "returned"

    def use_two_devices(self) -> str:
        self.join()
        self.judge()
        self.device = Client()
        self.device.get(self.address)
        self.judge()
        return self.finish()

    def stop(self) -> str:
        self.join()
        self.judge()
        self.device.post("/s/pets/stop/")
        return self.finish()

    def complete(self) -> str:
        self.join()
        self.judge()
        self.judge()
        return self.finish()


def test_every_outcome_count_and_cost_of_a_study_is_right(project: Project, owner: User) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(12)], "birds")
    Project.objects.update(judgements_per_worker=2, redundancy=100, consent="We store your answers.")
    change_preparation(project=project, user=owner, practice=[], comprehension=[QUESTION])
    recruitment = recruit(project, webhook_secret=SECRET, reward=Decimal("1.50"), places=PARTICIPANTS)
    project.refresh_from_db()

    told = Counter(Participant(project, number).play() for number in range(PARTICIPANTS))

    stored = Counter(Worker.objects.values_list("outcome", flat=True))
    assert told["declined"] == TENTH
    assert told - Counter(declined=TENTH) == stored
    expected = {"finished": 5, "failed_checks": 1, "returned": 1, "stopped": 1, "": 1}
    assert stored == Counter({outcome: share * TENTH for outcome, share in expected.items()})
    assert PlatformIdentity.objects.count() == PARTICIPANTS - TENTH
    assert Judgement.objects.count() == (5 * 2 + 2) * TENTH
    assert {stage.label: stage.count for stage in count_stages(project)} == {
        "consented": 9 * TENTH,
        "prepared": 8 * TENTH,
        "judged at least one pair": 7 * TENTH,
        "finished": 5 * TENTH,
        "failed checks": TENTH,
        "returned the task": TENTH,
        "stopped early": TENTH,
    }
    payment = summarise_payment(project, recruitment)
    assert payment.spent == Decimal("1.50") * 5 * TENTH
    assert list(find_problems(project)) == []
