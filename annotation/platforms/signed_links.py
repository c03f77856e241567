"""Prolific's signed links: a token in the link proves that Prolific sent this participant."""

import json
from typing import Any
from urllib.parse import urlsplit

import jwt
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.platforms.base import LinkInvalid

PARAMETER = "prolific_token"
ALGORITHM = "RS256"  # never taken from the token, which could name a weaker algorithm
LEEWAY = 30  # seconds of clock skew allowed
IDS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")  # keys in the claim "prolific", named like the link's parameters


class LinkNotSigned(LinkInvalid):
    status = 403
    code = "link_not_signed"
    title = gettext_lazy("This link could not be verified.")


def read_signed_ids(query: QueryDict, jwks: str, host: str) -> QueryDict:
    """The IDs in the link's token, which must be signed by Prolific for this server."""
    tokens = query.getlist(PARAMETER)
    if len(tokens) != 1:
        raise LinkNotSigned
    claims = _read_claims(tokens[0], jwks)
    audience, ids = claims["aud"], claims.get("prolific")
    addressed = any(_is_host(each, host) for each in (audience if isinstance(audience, list) else [audience]))
    if not addressed or not isinstance(ids, dict) or any(not isinstance(ids.get(name), str) for name in IDS):
        raise LinkNotSigned
    found = QueryDict(mutable=True)
    found.update({name: ids[name] for name in IDS})
    return found


def _read_claims(token: str, jwks: str) -> dict[str, Any]:
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        key = next(key for key in jwt.PyJWKSet.from_json(jwks).keys if kid and key.key_id == kid)
        claims = jwt.decode(
            token, key.key, [ALGORITHM], leeway=LEEWAY, options={"require": ["exp", "aud"], "verify_aud": False}
        )
        return dict(claims)
    except (jwt.PyJWTError, StopIteration):
        raise LinkNotSigned from None


def _is_host(audience: Any, host: str) -> bool:
    """Whether the audience, given as a host or a URL, is this server."""
    try:
        name = urlsplit(audience if "//" in audience else f"//{audience}").hostname
        return name is not None and name == urlsplit(f"//{host}").hostname
    except (TypeError, ValueError):
        return False


def validate_jwks(text: str) -> None:
    """Accept a set of public RSA keys, as Prolific publishes it."""
    try:
        keys = json.loads(text)["keys"]
        usable = keys and all(key["kty"] == "RSA" and key["kid"] and "d" not in key for key in keys)
        jwt.PyJWKSet.from_json(text)
    except (ValueError, KeyError, TypeError, jwt.PyJWTError):
        usable = False
    if not usable:
        raise ValidationError(_('Paste the whole key set: {"keys": [{"kty": "RSA", "kid": ..., "n": ..., "e": ...}]}.'))
