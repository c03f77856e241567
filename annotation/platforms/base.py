"""What every platform adapter does: read an identity from a link, and build the completion for an outcome."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import Recruitment, Worker

# Outcomes that earn a link back that is the same for all; it gives credit or pays at once.
EARNING = (Worker.Outcome.FINISHED, Worker.Outcome.NO_WORK_LEFT, Worker.Outcome.ERROR)
# Outcomes that are not paid without a code: the worker is asked to return the task instead.
RETURNED_WITHOUT_CODE = (
    Worker.Outcome.DECLINED, Worker.Outcome.SCREENED_OUT, Worker.Outcome.FAILED_CHECKS, Worker.Outcome.RETURNED,
)  # fmt: skip
# Placeholders that a platform did not replace by an ID: {{%PROLIFIC_PID%}}, %SURVEY_CODE%, ${e://Field/id}, [id], <id>.
PLACEHOLDER = re.compile(r"\{.*\}|^%.*%$|^\$|^\[.*\]$|^<.*>$")


class LinkInvalid(RequestError):
    """The link does not identify the worker. No worker is created."""

    status = 400
    code = "link_invalid"
    title = _("This link is incomplete.")
    detail = _("Go back to the platform that sent you here and open the study again from there.")


class PlaceholderUnreplaced(LinkInvalid):
    """The link still contains a placeholder, because it was set up incorrectly or opened by hand."""


class WrongStudy(LinkInvalid):
    status = 403
    title = _("This link belongs to another study.")


@dataclass(frozen=True)
class Identity:
    """The IDs that a platform sent along with a worker."""

    platform: str
    external_id: str
    study_id: str = ""
    session_id: str = ""
    verified: bool = False


@dataclass(frozen=True)
class Completion:
    """How a worker reports the end of their participation to the platform: with a code, a link, or not at all."""

    code: str = ""
    url: str = ""
    return_asked: bool = False  # this outcome has no code, and the worker is asked to return the task
    submit_asked: bool = False  # this outcome has no code, and the worker is asked to end the task without one
    in_frame: bool = False  # the platform's page is still open and has the button that ends the task

    @classmethod
    def without_code(cls, outcome: str) -> "Completion":
        """The completion for an outcome that has no code; no one who has worked is asked to return the task."""
        is_returned = outcome in RETURNED_WITHOUT_CODE
        return cls(return_asked=is_returned, submit_asked=not is_returned)


class Platform(ABC):
    """One recruiting platform with the settings of one project."""

    name: str
    secret_links = False  # whether the link alone identifies a person, so that others could try to guess it
    # The pattern of an ID. ASCII only: look-alike digits would create a second worker.
    id_pattern = re.compile(r"[!-~]{1,200}")

    def __init__(self, recruitment: Recruitment) -> None:
        self.recruitment = recruitment

    @abstractmethod
    def parameters(self) -> tuple[str, str, str]:
        """The names of the parameters for the participant, study and session ID; "" for those not used."""

    @abstractmethod
    def complete(self, outcome: str, identity: Identity) -> Completion:
        """The completion for a participation with this outcome."""

    def study_link(self, address: str) -> str:
        """The link that the researcher gives to the platform, with the platform's placeholders."""
        return f"{address}?{'&'.join(f'{name}=' for name in self.parameters() if name)}"

    def is_linked(self, query: QueryDict) -> bool:
        """Whether this query string comes from the platform, complete or not."""
        return any(name in query for name in self.parameters())

    def read_identity(self, query: QueryDict, host: str) -> Identity:
        """The identity in this query string. `host` is the host name that the worker's request used."""
        participant, study, session = (self.read_id(query, name) if name else "" for name in self.parameters())
        self.check_study(study)
        return Identity(self.name, participant, study, session)

    def read_id(self, query: QueryDict, name: str) -> str:
        """The single value of this parameter; raise LinkInvalid if it is missing, doubled or not an ID."""
        values = query.getlist(name)
        if len(values) == 1 and PLACEHOLDER.search(values[0]):
            raise PlaceholderUnreplaced
        if len(values) != 1 or not self.id_pattern.fullmatch(values[0]):
            raise LinkInvalid
        return values[0]

    def check_study(self, study_id: str) -> None:
        if self.recruitment.study_id and study_id != self.recruitment.study_id:
            raise WrongStudy

    def code_for(self, outcome: str) -> str:
        return str(self.recruitment.codes.get(outcome, ""))
