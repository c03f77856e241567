"""Invitations: one link for each person on a researcher's own list."""

from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from annotation.models import Recruitment, WorkerInvitation
from annotation.models.accounts import token_digest
from annotation.platforms.base import Completion, Identity, LinkInvalid, Platform

PARAMETER = "invitation"


class InvitationNeeded(LinkInvalid):
    status = 403
    title = _("This study needs a personal link.")
    detail = _("Open the link in your invitation. If it does not work, ask the person who sent it for a new one.")


class InvitationOver(InvitationNeeded):
    status = 410
    title = _("This invitation is no longer valid.")
    detail = _("It has expired or was revoked. Ask the person who sent it for a new one.")


class Invited(Platform):
    """Personal links whose token identifies the person, however often and on whichever device they open it."""

    name = Recruitment.Platform.INVITED
    secret_links = True

    def parameters(self) -> tuple[str, str, str]:
        return PARAMETER, "", ""

    def is_linked(self, query: QueryDict) -> bool:
        return PARAMETER in query

    def read_identity(self, query: QueryDict, host: str) -> Identity:
        tokens = query.getlist(PARAMETER)
        digests = [token_digest(token) for token in tokens[:1]]
        rows = WorkerInvitation.objects.filter(project=self.recruitment.project_id, digest__in=digests)
        invitation = rows.first()
        if len(tokens) != 1 or invitation is None:
            raise InvitationNeeded
        if not invitation.label or invitation.state not in (invitation.State.UNUSED, invitation.State.USED):
            raise InvitationOver
        return Identity(self.name, invitation.label, verified=True)

    def complete(self, outcome: str, identity: Identity) -> Completion:
        return Completion(self.code_for(outcome))
