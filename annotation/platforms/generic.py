"""Any other panel (SONA, CloudResearch, own lists), with parameter names and return link taken from settings."""

import re
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http.request import validate_host
from django.utils.translation import gettext as _

from annotation.models import Recruitment
from annotation.platforms.base import EARNING, Completion, Identity, Platform

FIELDS = ("code", "participant", "session")
# Browsers read a backslash as the end of the host, Python does not: allow nothing but names.
HOST = re.compile(r"[a-z0-9.-]+")


class Generic(Platform):
    name = Recruitment.Platform.GENERIC

    def parameters(self) -> tuple[str, str, str]:
        settings = self.recruitment
        return settings.participant_parameter, settings.study_parameter, settings.session_parameter

    def complete(self, outcome: str, identity: Identity) -> Completion:
        code, address = self.code_for(outcome), self.recruitment.completion_url
        is_earned = bool(code) if "{code}" in address else outcome in EARNING
        if not address or not is_earned:
            return Completion(code) if code else Completion.without_code(outcome)
        values = {"code": code, "participant": identity.external_id, "session": identity.session_id}
        for name in FIELDS:
            address = address.replace(f"{{{name}}}", quote(values[name], safe=""))
        return Completion(code, address)


def validate_completion_url(address: str) -> None:
    """Accept only https links to a host on the server's list, with placeholders after the host."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    plain = parts.scheme == "https" and parts.netloc == host and HOST.fullmatch(host)
    if not plain or not validate_host(host, settings.COMPLETION_HOSTS):
        raise ValidationError(
            _("The link must start with https:// and one of these hosts: %(hosts)s. An administrator can add others.")
            % {"hosts": ", ".join(settings.COMPLETION_HOSTS)}
        )
