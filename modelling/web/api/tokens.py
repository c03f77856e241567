"""API tokens: shown only at creation, stored as a hash, revoked permanently."""

import hashlib
import hmac
import re
import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from annotation.models import Project, User
from annotation.models.workers import CODE_ALPHABET
from annotation.services import audit
from modelling.models import ApiToken

MARK = "concord"  # lets scanners recognise leaked tokens
PREFIX_LENGTH = 8
SECRET_BYTES = 32
TOKEN_PATTERN = re.compile(rf"{MARK}_([a-z0-9]{{{PREFIX_LENGTH}}})_[A-Za-z0-9_-]{{43}}")


@transaction.atomic
def create_token(
    *, user: User, name: str, scope: str, days: int, project: Project | None = None
) -> tuple[ApiToken, str]:
    """Create a token and return it with its secret; only a hash of the secret is stored.

    The secret has 256 random bits, so a single SHA-256 protects it as well as a slow hash would.
    """
    prefix = "".join(secrets.choice(CODE_ALPHABET) for _ in range(PREFIX_LENGTH))
    secret = f"{MARK}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    expires = timezone.now() + timedelta(days=days)
    token = ApiToken.objects.create(
        user=user, project=project, name=name, prefix=prefix, digest=_digest(secret), scope=scope, expires_at=expires
    )
    audit(project, user, "made an API token", {"token": prefix, "scope": scope, "days": days})
    return token, secret


def find_token(secret: str) -> ApiToken | None:
    """Return the usable token with this secret."""
    match = TOKEN_PATTERN.fullmatch(secret)
    if match is None:
        return None
    token = ApiToken.objects.usable(timezone.now()).select_related("user").filter(prefix=match[1]).first()
    return token if token and hmac.compare_digest(token.digest, _digest(secret)) else None


@transaction.atomic
def revoke_token(*, token: ApiToken, user: User) -> None:
    """Revoke a token; revoking it again does nothing."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        audit(token.project, user, "revoked an API token", {"token": token.prefix})


def revoke_all_tokens(user: User) -> None:
    """Revoke all tokens of a user whose password was reset: an intruder may have created some."""
    for token in ApiToken.objects.usable(timezone.now()).filter(user=user):
        revoke_token(token=token, user=user)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
