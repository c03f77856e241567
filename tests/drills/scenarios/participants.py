"""Participants of a paid study who act through its pages: each plays a part, and notes what they did and saw."""

import json
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from urllib.parse import urlencode

from annotation.platforms.prolific_webhook import sign
from benchmarks.load.installation import Installation
from modelling.simulation.http_client import HttpClient, Response
from modelling.simulation.http_worker import FORM, JSON, HttpWorker

SLUG, SECRET, QUOTA = "paid", "a secret of the drill", 4
REWARD, STUDY = Decimal("1.50"), "7b" * 12
QUESTIONS = {"plain": "Which argument is more convincing?", "kind": "Which argument is kinder?"}
CODES = {outcome: f"CODE-{outcome.upper().replace('_', '-')}" for outcome in ("finished", "stopped", "declined")}
CODES |= {"failed_checks": "CODE-FAILED-CHECKS", "no_work_left": "CODE-NO-WORK-LEFT"}
QUESTION = re.compile(r'<h1 id="question"[^>]*>([^<]+)</h1>')
ARRIVAL = re.compile(r'name="arrival" value="([^"]+)"')


Step = tuple[str, str, str]  # participant, "joins" or "ends", outcome


@dataclass
class StepLog:
    """The order in which participants joined and ended; the lock lets one at a time do so."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    steps: list[Step] = field(default_factory=list)

    def note(self, who: str, step: str, outcome: str = "") -> None:
        self.steps.append((who, step, outcome))


@dataclass
class Seen:
    """What a participant did and saw."""

    outcome: str | None = None  # None: they declined
    answers: int = 0
    question: str = ""
    attention_failed: int = 0
    gold_wrong: int = 0

    @property
    def name(self) -> str:
        """The outcome, also of participants who declined or left."""
        return "declined" if self.outcome is None else self.outcome or "left"


class Participant:
    """One participant with one or more devices, who plays a part given by their number."""

    def __init__(self, installation: Installation, number: int, log: StepLog) -> None:
        self.installation, self.number, self.log = installation, number, log
        self.pid, self.session = f"{number:024x}", 1
        self.seen = Seen()
        self.device = self.new_device()

    def new_device(self) -> HttpWorker:
        return HttpWorker(HttpClient(self.installation.url, self.installation.headers), SLUG)

    def play(self) -> "Participant":
        parts: list[Callable[[], None]] = [
            self.decline, self.fail_comprehension, self.leave, self.leave_midway, self.give_back, self.come_back,
            self.use_two_devices, self.stop, self.fail_attention, self.miss_gold,
        ]  # fmt: skip
        part = self.number % 20
        (parts[part] if part < len(parts) else self.complete)()
        return self

    # Steps

    @property
    def link(self) -> str:
        ids = {"PROLIFIC_PID": self.pid, "STUDY_ID": STUDY, "SESSION_ID": f"{self.session}{self.number:023x}"}
        return f"/s/{SLUG}/?{urlencode(ids)}"

    def get(self, path: str) -> Response:
        response = self.device.request_with_retry("GET", path)
        assert response.status in (200, 302), (path, response.status, response.text()[:500])
        return response

    def post(self, path: str, form: dict[str, str], status: int = 302) -> Response:
        body = urlencode({**form, "csrfmiddlewaretoken": self.device.token}).encode()
        response = self.device.request_with_retry("POST", path, body, FORM)
        assert response.status == status, (path, response.status, response.text()[:500])
        return response

    def arrive(self) -> dict[str, str]:
        page = self.get(self.link).text()
        self.check_no_code(page)
        assert QUESTIONS["kind"] not in page, "the question of an arm before consent"
        self.device.token = self.device.find_token(page)
        return {"arrival": ARRIVAL.search(page)[1], "consent": "on"}

    def consent(self) -> None:
        form = self.arrive()
        with self.log.lock:
            self.post(f"/s/{SLUG}/join/", form)
            self.log.note(self.pid, "joins")
        self.read_instructions()

    def read_instructions(self) -> None:
        """Go on from the page with the arm's own question, if there is one."""
        page = self.get(f"/s/{SLUG}/prepare/").text()
        if 'name="answer_0"' not in page:
            self.post(f"/s/{SLUG}/prepare/", {})

    def join(self) -> None:
        self.consent()
        self.post(f"/s/{SLUG}/prepare/", {"answer_0": "1", "attempt": "0"})
        self.open_page()

    def open_page(self) -> None:
        page = self.get(f"/s/{SLUG}/").text()
        self.check_no_code(page)
        self.seen.question = QUESTION.search(page)[1]
        self.device.reload()

    def judge(self, pairs: int, *, attentive: bool = True, informed: bool = True) -> None:
        """Answer this many pairs, and the checks that come before them."""
        wanted = self.seen.answers + pairs
        while self.seen.answers < wanted:
            pair = self.device.next_pair()
            texts = [pair[side]["text"] for side in ("left", "right")]
            choice = "left"
            if "attention check" in texts[0]:
                told = "left" if "First" in texts[0] else "right"
                choice = told if attentive else "tie"
                self.seen.attention_failed += not attentive
            elif texts[0].startswith(("Gold", "Lead")):
                better = "left" if texts[0].startswith("Gold") else "right"
                choice = better if informed else "skip"
                self.seen.gold_wrong += not informed
            else:
                self.seen.answers += 1
            answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": choice}
            response = self.device.answer(answer | ({"skip_reason": "other"} if choice == "skip" else {}))
            assert response.status == 201, response.text()[:500]
            self.check_no_code(response.text())

    def check_no_code(self, text: str) -> None:
        assert not [code for code in CODES.values() if code in text], "a code before the end"

    def finish(self) -> None:
        page = self.get(f"/s/{SLUG}/").text()
        self.check_no_code(page)
        self.device.token = self.device.find_token(page)
        with self.log.lock:
            self.post(f"/s/{SLUG}/finish/", {})
            page = self.get(f"/s/{SLUG}/finish/").text()
            [self.seen.outcome] = [outcome for outcome, code in CODES.items() if code in page]
            self.log.note(self.pid, "ends", self.seen.outcome)

    def report_returned(self) -> None:
        """Let Prolific report twice that the submission was returned."""
        session = f"{self.session}{self.number:023x}"
        message = {"event_type": "submission.status.change", "resource_id": session, "status": "RETURNED"}
        body, timestamp = json.dumps(message).encode(), str(time.time())
        headers = {
            "Content-Type": JSON,
            "X-Prolific-Request-Timestamp": timestamp,
            "X-Prolific-Request-Signature": sign(SECRET, timestamp, body),
            "X-Event-Id": f"event-{session}",
        }
        platform = HttpClient(self.installation.url, self.installation.headers)
        with self.log.lock:
            replies = [platform.request("POST", f"/hooks/prolific/{SLUG}/", body, headers).json() for _ in range(2)]
            self.log.note(self.pid, "ends", "returned")
        assert replies == [{"recorded": True}, {"recorded": False}], replies
        self.seen.outcome = "returned"

    # Parts

    def decline(self) -> None:
        form = self.arrive()
        page = self.post(f"/s/{SLUG}/decline/", form, status=200).text()
        assert CODES["declined"] in page

    def fail_comprehension(self) -> None:
        self.consent()
        with self.log.lock:
            self.post(f"/s/{SLUG}/prepare/", {"answer_0": "0", "attempt": "0"}, status=200)
            self.post(f"/s/{SLUG}/prepare/", {"answer_0": "0", "attempt": "1"})
            self.seen.outcome = "failed_checks"
            self.log.note(self.pid, "ends", "failed_checks")
        assert CODES["failed_checks"] in self.get(f"/s/{SLUG}/").text()

    def leave(self) -> None:
        self.consent()
        self.seen.outcome = ""

    def leave_midway(self) -> None:
        self.join()
        self.judge(2)
        self.seen.outcome = ""

    def give_back(self) -> None:
        self.join()
        self.judge(1)
        self.report_returned()

    def come_back(self) -> None:
        """Return the task, then take it up again in a new session."""
        self.give_back()
        self.session, self.device = 2, self.new_device()
        with self.log.lock:
            assert self.get(self.link).status == 302
            self.log.note(self.pid, "joins")
        self.open_page()
        self.judge(QUOTA - self.seen.answers)
        self.finish()

    def use_two_devices(self) -> None:
        self.join()
        self.judge(2)
        self.device = self.new_device()
        assert self.get(self.link).status == 302
        self.open_page()
        self.judge(QUOTA - 2)
        self.finish()

    def stop(self) -> None:
        self.join()
        self.judge(1)
        with self.log.lock:  # from here on the place in the arm is free
            self.post(f"/s/{SLUG}/stop/", {})
            self.finish()

    def fail_attention(self) -> None:
        self.join()
        self.judge(QUOTA, attentive=False)
        self.finish()

    def miss_gold(self) -> None:
        self.join()
        self.judge(QUOTA, informed=False)
        self.finish()

    def complete(self) -> None:
        self.join()
        self.judge(QUOTA)
        self.finish()
