"""Amazon Mechanical Turk: an external question in a frame, ended by a form that the worker's browser posts to MTurk."""

import re
from urllib.parse import urlsplit

from django.http import QueryDict

from annotation.models import Recruitment, Worker
from annotation.platforms.base import RETURNED_WITHOUT_CODE, Completion, Identity, LinkInvalid, Platform

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
HOSTS = ("www.mturk.com", "workersandbox.mturk.com")
ORIGINS = [f"https://{host}" for host in HOSTS]
FRAME_ANCESTORS = ["https://*.mturk.com"]
SUBMIT_PATH = "/mturk/externalSubmit"


class MechanicalTurk(Platform):
    name = Recruitment.Platform.MTURK
    id_pattern = re.compile(r"[A-Z0-9]{5,64}")

    def parameters(self) -> tuple[str, str, str]:
        return "workerId", "hitId", "assignmentId"

    def study_link(self, address: str) -> str:
        """The address of the frame, to which MTurk adds its parameters."""
        return f"{address}mturk/"

    def complete(self, outcome: str, identity: Identity) -> Completion:
        """The completion with its code, which the frame's form submits; workers copy it only if the frame is gone.

        The frame does not know people who declined: nothing about them is stored.
        """
        code = self.code_for(outcome)
        if outcome == Worker.Outcome.DECLINED or (not code and outcome in RETURNED_WITHOUT_CODE):
            return Completion(return_asked=True)
        return Completion(code, in_frame=True)


def is_preview(query: QueryDict) -> bool:
    """Whether the worker is viewing the task without having accepted it."""
    return query.getlist("assignmentId") == [PREVIEW]


def submit_address(query: QueryDict) -> str:
    """The address of the final form. Only MTurk's own hosts are allowed, or the form would be an open redirect."""
    values = query.getlist("turkSubmitTo")
    try:
        parts = urlsplit(values[0]) if len(values) == 1 else None
    except ValueError:  # not an address, such as https://[
        parts = None
    if parts is None or parts.scheme != "https" or parts.netloc not in HOSTS:
        raise LinkInvalid
    return f"https://{parts.netloc}{SUBMIT_PATH}"
