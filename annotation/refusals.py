"""What a worker's request can be refused for. Each knows its status and says what is safe and what to do."""

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.models import Judgement


class Refused(Exception):
    """Nothing was changed. `code` is what the browser's script goes by."""

    status = 400
    code = "refused"
    retry_seconds = 1  # where it is about haste
    title = _("That could not be saved.")
    detail = _("Nothing was changed. Reload the page and go on.")

    def said(self) -> str:
        return str(self.title)

    def facts(self) -> dict[str, Any]:
        """What the browser is told besides the words."""
        return {}


class NotYours(Refused):
    """Another person's, another study's, or nobody's: which of them is not revealed."""

    status = 404
    code = "not_yours"
    title = _("This pair is not yours.")
    detail = _("Nothing was saved. Reload the page for your next pair.")


class LentToSomebodyElse(NotYours):
    """A pair of this study, but not one that this worker was given."""

    status = 409
    detail = _("Nothing was saved. Here is your next pair.")


class NotOpen(Refused):
    status = 409
    code = "not_open"
    title = _("The study is not open just now.")
    detail = _("Your earlier answers are saved.")


class TooLate(Refused):
    status = 409
    code = "too_late"
    title = _("You have finished, so this answer can no longer be taken back.")
    detail = _("All your answers are saved.")


# The answers by the words on their buttons.
BUTTONS = {"left": _("First"), "right": _("Second"), "tie": _("Equally good"), "skip": _("Can't decide")}


class _Conflict(Refused):
    """Something else is stored already, and stays. The worker is told what."""

    def __init__(self, first: Judgement) -> None:
        super().__init__(str(self.title))
        self.first = first

    def facts(self) -> dict[str, Any]:
        first = self.first
        return {"recorded": {"saved": str(first.uuid), "choice": first.choice_shown, "skip_reason": first.skip_reason}}


class AlreadyRecorded(_Conflict):
    status = 409
    code = "already_recorded"
    title = _("You have already answered this pair.")
    detail = _("Your first answer is saved and was not changed. Here is your next pair.")


class DifferentPayload(_Conflict):
    status = 422
    code = "different_payload"
    title = _("This answer was already recorded with another choice.")
    detail = _("The first answer is saved and was not changed.")

    def said(self) -> str:
        choice = BUTTONS[self.first.choice_shown]
        return gettext("This answer was already recorded as “%(choice)s”.") % {"choice": choice}


class TieNotOffered(Refused):
    status = 422
    code = "tie_not_offered"
    title = _("This study does not offer “equally good”.")
    detail = _("Nothing was saved; please choose one of the two.")
