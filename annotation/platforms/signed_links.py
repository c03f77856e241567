"""Prolific's signed links: a token in the link proves that Prolific sent this participant."""

import json
from typing import Any

import jwt
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.platforms.base import Identity, LinkInvalid

PARAMETER = "prolific_token"
ALGORITHM = "RS256"  # never taken from the token: a token could name a weaker one
LEEWAY = 30  # seconds between two clocks
# The names under which the token may hold each of the link's parameters.
CLAIMS = {
    "PROLIFIC_PID": ("PROLIFIC_PID", "participant_id"),
    "STUDY_ID": ("STUDY_ID", "study_id"),
    "SESSION_ID": ("SESSION_ID", "session_id", "submission_id"),
}


class LinkNotSigned(LinkInvalid):
    status = 403
    code = "link_not_signed"
    title = gettext_lazy("This link could not be verified.")


def verify_identity(query: QueryDict, identity: Identity, jwks: str, host: str) -> None:
    """Check that the token in the link is Prolific's, for this server, and about this identity."""
    tokens = query.getlist(PARAMETER)
    if len(tokens) != 1:
        raise LinkNotSigned
    claims = _read_claims(tokens[0], jwks, host).get("prolific")
    values = dict(zip(CLAIMS, (identity.external_id, identity.study_id, identity.session_id), strict=True))
    if not isinstance(claims, dict) or any(_find(claims, names) != values[name] for name, names in CLAIMS.items()):
        raise LinkNotSigned


def _read_claims(token: str, jwks: str, host: str) -> dict[str, Any]:
    name = host.rsplit(":", 1)[0]
    audience = [host, name, f"https://{host}", f"https://{name}"]
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        key = next(key for key in jwt.PyJWKSet.from_json(jwks).keys if kid and key.key_id == kid)
        return dict(
            jwt.decode(
                token, key.key, [ALGORITHM], audience=audience, leeway=LEEWAY, options={"require": ["exp", "aud"]}
            )
        )
    except (jwt.PyJWTError, StopIteration):
        raise LinkNotSigned from None


def _find(claims: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((claims[name] for name in names if name in claims), None)


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
