"""Prolific: three parameters in the study link, and a completion link with a code for each outcome."""

import re
from dataclasses import replace
from urllib.parse import urlencode

from django.http import QueryDict

from annotation.models import Recruitment
from annotation.platforms.base import Completion, Identity, Platform
from annotation.platforms.signed_links import PARAMETER, LinkNotSigned, read_signed_ids

COMPLETION_URL = "https://app.prolific.com/submissions/complete"


class Prolific(Platform):
    name = Recruitment.Platform.PROLIFIC
    id_pattern = re.compile(r"[0-9a-f]{24}")

    def parameters(self) -> tuple[str, str, str]:
        return "PROLIFIC_PID", "STUDY_ID", "SESSION_ID"

    def is_linked(self, query: QueryDict) -> bool:
        return super().is_linked(query) or PARAMETER in query

    def read_identity(self, query: QueryDict, host: str) -> Identity:
        if not self.recruitment.signed_links:
            return super().read_identity(query, host)
        linked = super().read_identity(query, host) if super().is_linked(query) else None
        identity = super().read_identity(read_signed_ids(query, self.recruitment.jwks, host), host)
        if linked not in (None, identity):
            raise LinkNotSigned
        return replace(identity, verified=True)

    def study_link(self, address: str) -> str:
        return f"{address}?{'&'.join(f'{name}={{{{%{name}%}}}}' for name in self.parameters())}"

    def complete(self, outcome: str, identity: Identity) -> Completion:
        code = self.code_for(outcome)
        if not code:
            return Completion.without_code(outcome)
        return Completion(code, f"{COMPLETION_URL}?{urlencode({'cc': code})}")
