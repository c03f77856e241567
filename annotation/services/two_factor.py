"""The second factor of an account: time-based one-time passwords (RFC 6238) and recovery codes."""

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256

import pyotp
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.encoding import force_bytes

from annotation.models import RecoveryCode, TwoFactor, User
from annotation.services.projects import audit

ISSUER = "Concord"
STEP_SECONDS = 30
TOLERATED_STEPS = (0, -1, 1)  # a phone's clock may be off by half a minute
RECOVERY_CODES = 10
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that look alike
# Audit actions; stored rows use these texts.
ENABLED, DISABLED, CODE_USED = "enabled two-factor log-in", "disabled two-factor log-in", "used a recovery code"
RENEWED, RESET = "renewed recovery codes", "reset two-factor log-in by command"


def find_two_factor(user: User) -> TwoFactor | None:
    """The confirmed second factor that this account needs to log in, if any."""
    return TwoFactor.objects.filter(user=user, confirmed_at__isnull=False).select_related("user").first()


def begin_setup(user: User) -> TwoFactor:
    """Create a new secret; log-in does not require it until its first code has been entered."""
    secret = _cipher().encrypt(pyotp.random_base32().encode()).decode()
    TwoFactor.objects.filter(user=user, confirmed_at=None).delete()
    return TwoFactor.objects.create(user=user, secret=secret)


def provisioning_uri(two_factor: TwoFactor) -> str:
    """The address that an authenticator app reads from a QR code."""
    totp = pyotp.TOTP(reveal_secret(two_factor))
    return totp.provisioning_uri(name=two_factor.user.get_username(), issuer_name=ISSUER)


def reveal_secret(two_factor: TwoFactor) -> str:
    return _cipher().decrypt(two_factor.secret.encode()).decode()


@transaction.atomic
def confirm_setup(two_factor: TwoFactor, code: str) -> list[str] | None:
    """Enable the second factor and return its recovery codes; None if the code is wrong."""
    if not _accept_app_code(two_factor, code):
        return None
    TwoFactor.objects.filter(pk=two_factor.pk).update(confirmed_at=timezone.now())
    audit(None, two_factor.user, ENABLED)
    return _replace_recovery_codes(two_factor)


def accept_code(two_factor: TwoFactor, code: str) -> bool:
    """Whether this is the app's current code or an unused recovery code. Each code is accepted once."""
    return _accept_app_code(two_factor, code) or _accept_recovery_code(two_factor, code)


def renew_recovery_codes(two_factor: TwoFactor) -> list[str]:
    """Make new codes; the old ones no longer work."""
    audit(None, two_factor.user, RENEWED)
    return _replace_recovery_codes(two_factor)


def disable(user: User, action: str = DISABLED) -> bool:
    """Remove the second factor; False if there was none."""
    removed, _rows = TwoFactor.objects.filter(user=user).delete()
    if removed:
        audit(None, user, action)
    return bool(removed)


def _accept_app_code(two_factor: TwoFactor, code: str) -> bool:
    try:
        totp = pyotp.TOTP(reveal_secret(two_factor))
    except InvalidToken:  # SECRET_KEY was replaced; only a recovery code or a reset helps
        return False
    now = int(time.time()) // STEP_SECONDS
    typed = "".join(code.split())
    for step in (now + tolerated for tolerated in TOLERATED_STEPS):
        if constant_time_compare(totp.generate_otp(step), typed):
            later = TwoFactor.objects.filter(pk=two_factor.pk, last_step__lt=step)
            return bool(later.update(last_step=step))  # if two requests send the same code, one succeeds
    return False


def _accept_recovery_code(two_factor: TwoFactor, code: str) -> bool:
    used, _rows = RecoveryCode.objects.filter(two_factor=two_factor, digest=_digest(two_factor, code)).delete()
    if used:
        audit(None, two_factor.user, CODE_USED, {"left": two_factor.recovery_codes.count()})
    return bool(used)


def _replace_recovery_codes(two_factor: TwoFactor) -> list[str]:
    codes = list(_new_codes())
    with transaction.atomic():
        two_factor.recovery_codes.all().delete()
        RecoveryCode.objects.bulk_create(
            RecoveryCode(two_factor=two_factor, digest=_digest(two_factor, code)) for code in codes
        )
    return codes


def _new_codes() -> Iterator[str]:
    for _ in range(RECOVERY_CODES):
        letters = "".join(secrets.choice(ALPHABET) for _ in range(12))
        yield f"{letters[:4]}-{letters[4:8]}-{letters[8:]}"


def _digest(two_factor: TwoFactor, code: str) -> str:
    """Hash a recovery code. Codes have 59 random bits, so a fast digest suffices."""
    plain = "".join(code.split()).replace("-", "").lower()
    return salted_hmac(f"recovery code of user {two_factor.user_id}", plain, algorithm="sha256").hexdigest()


def _cipher() -> MultiFernet:
    keys = [force_bytes(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    return MultiFernet([Fernet(urlsafe_b64encode(sha256(b"two-factor " + key).digest())) for key in keys])
