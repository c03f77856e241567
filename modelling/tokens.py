"""API tokens: made once, shown once, kept as a fingerprint, revoked for good."""

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

MARK = "concord"  # what scanners for leaked secrets can look for
PREFIX_LENGTH = 8
SECRET_BYTES = 32
SHAPE = re.compile(rf"{MARK}_([a-z0-9]{{{PREFIX_LENGTH}}})_[A-Za-z0-9_-]{{43}}")


@transaction.atomic
def make_token(*, user: User, name: str, scope: str, days: int, project: Project | None = None) -> tuple[ApiToken, str]:
    """A new token and its words, which nobody can read again: only their fingerprint is stored.

    The words hold 256 random bits, so one round of SHA-256 guards them as well as any slow hash would.
    """
    prefix = "".join(secrets.choice(CODE_ALPHABET) for _ in range(PREFIX_LENGTH))
    words = f"{MARK}_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    expires = timezone.now() + timedelta(days=days)
    token = ApiToken.objects.create(
        user=user, project=project, name=name, prefix=prefix, digest=_digest(words), scope=scope, expires_at=expires
    )
    audit(project, user, "made an API token", {"token": prefix, "scope": scope, "days": days})
    return token, words


def find_token(words: str) -> ApiToken | None:
    """The usable token with these words, or nothing."""
    shape = SHAPE.fullmatch(words)
    if shape is None:
        return None
    known = ApiToken.objects.usable(timezone.now()).select_related("user").filter(prefix=shape[1]).first()
    return known if known and hmac.compare_digest(known.digest, _digest(words)) else None


@transaction.atomic
def revoke_token(*, token: ApiToken, user: User) -> None:
    """The token opens nothing any more. Twice is once."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        audit(token.project, user, "revoked an API token", {"token": token.prefix})


def revoke_all_of(user: User) -> None:
    """No token of this person opens anything any more: whoever had their mailbox or password may have made one."""
    for token in ApiToken.objects.usable(timezone.now()).filter(user=user):
        revoke_token(token=token, user=user)


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()
