"""Errors for refused worker requests, each with an HTTP status and a message that says what is safe and what to do."""

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.models import Judgement


class RequestError(Exception):
    """A refused request; nothing was changed. Scripts such as judge.js switch on `code`."""

    status = 400
    code = "refused"
    retry_seconds = 1  # Retry-After for rate-limit errors
    title = _("That could not be saved.")
    detail = _("Nothing was changed. Reload the page and continue.")

    def message(self) -> str:
        return str(self.title)

    def extra(self) -> dict[str, Any]:
        """Additional fields for the problem+json response."""
        return {}


class AssignmentNotFound(RequestError):
    """The assignment does not exist, or belongs to another worker or study; the response does not say which."""

    status = 404
    code = "not_yours"
    title = _("This pair is not assigned to you.")
    detail = _("Nothing was saved. Reload the page for your next pair.")


class AssignedToAnotherWorker(AssignmentNotFound):
    """The assignment belongs to another worker of the same study."""

    status = 409
    detail = _("Nothing was saved. Here is your next pair.")


class StudyNotOpen(RequestError):
    status = 409
    code = "not_open"
    title = _("The study is not open.")
    detail = _("Your earlier answers are saved.")


class TooLateToRetract(RequestError):
    status = 409
    code = "too_late"
    title = _("You have finished, so you can no longer undo this answer.")
    detail = _("All your answers are saved.")


# Button labels by answer.
BUTTONS = {"left": _("First"), "right": _("Second"), "tie": _("Equally good"), "skip": _("Can't decide")}


class JudgementConflict(RequestError):
    """A different answer is already stored and is kept; the response includes it."""

    def __init__(self, first: Judgement) -> None:
        super().__init__(str(self.title))
        self.first = first

    def extra(self) -> dict[str, Any]:
        first = self.first
        return {"recorded": {"saved": str(first.uuid), "choice": first.choice_shown, "skip_reason": first.skip_reason}}


class AlreadyRecorded(JudgementConflict):
    status = 409
    code = "already_recorded"
    title = _("You have already answered this pair.")
    detail = _("Your first answer is saved and was not changed. Here is your next pair.")


class PayloadConflict(JudgementConflict):
    status = 422
    code = "different_payload"
    title = _("This answer was already recorded with another choice.")
    detail = _("The first answer is saved and was not changed.")

    def message(self) -> str:
        choice = BUTTONS[self.first.choice_shown]
        return gettext("This answer was already recorded as “%(choice)s”.") % {"choice": choice}


class TieNotOffered(RequestError):
    status = 422
    code = "tie_not_offered"
    title = _("This study does not offer “equally good”.")
    detail = _("Nothing was saved; please choose one of the two.")
