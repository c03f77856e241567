"""Studies that recruit on a platform, and the links with which its workers arrive."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.test import Client

from annotation.models import Project, Recruitment, Worker
from annotation.services.participation.recruitment import change_recruitment

PID, OTHER_PID, STUDY, SESSION = "5f" * 12, "6a" * 12, "7b" * 12, "8c" * 12
CODES = {outcome: f"CODE-{outcome.upper().replace('_', '-')}" for outcome in Worker.Outcome.values}


def recruit(project: Project, platform: str = "prolific", **changes: Any) -> Recruitment:
    """Let the study recruit on this platform, with a code for each outcome."""
    return change_recruitment(project=project, user=None, changes={"platform": platform, "codes": CODES, **changes})


def link(project: Project, pid: str = PID, **changes: str) -> str:
    values = {"PROLIFIC_PID": pid, "STUDY_ID": STUDY, "SESSION_ID": SESSION} | changes
    return f"{project.get_judging_url()}?{urlencode(values)}"


def join(client: Client, address: str, **answers: str) -> HttpResponse:
    """Open the link and consent; return the response to the join form."""
    page = client.get(address)
    arrival = page.context["form"]["arrival"].value()
    return client.post(
        page.context["project"].get_judging_url() + "join/", {"arrival": arrival, "consent": "on"} | answers
    )
