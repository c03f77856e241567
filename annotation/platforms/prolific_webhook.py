"""Prolific's webhook messages: verify the signature over the raw body, and read the submission's status."""

import base64
import hmac
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from django.utils import timezone

MAX_AGE = timedelta(days=3)  # Prolific repeats a message for two days
SUBMISSION_EVENT = "submission.status.change"
SESSION_ID, STATUS = re.compile(r"[!-~]{1,200}"), re.compile(r"[A-Z_]{1,40}")


class MessageRefused(Exception):
    """A message that is forged, too old or unreadable."""


@dataclass(frozen=True)
class SubmissionStatus:
    event_id: str
    session_id: str
    status: str
    sent_at: datetime


def sign(secret: str, timestamp: str, body: bytes) -> str:
    digest = hmac.new(secret.encode(), timestamp.encode() + body, sha256).digest()
    return base64.b64encode(digest).decode()


def read_message(secret: str, headers: Mapping[str, str], body: bytes) -> SubmissionStatus | None:
    """The status in a message signed by Prolific; None for events that are not about a submission.

    X-Timestamp is the time of the event, which a repeated request keeps. It is not signed, but can only move an event
    back in the order.
    """
    timestamp = headers.get("X-Prolific-Request-Timestamp", "")
    signature = headers.get("X-Prolific-Request-Signature", "")
    if not hmac.compare_digest(sign(secret, timestamp, body).encode(), signature.encode()):
        raise MessageRefused
    sent_at = _check_age(_read_time(timestamp))
    with suppress(MessageRefused):
        sent_at = min(sent_at, _read_time(headers.get("X-Timestamp", "")))
    try:
        message = json.loads(body)
        if message["event_type"] != SUBMISSION_EVENT:
            return None
        session_id, status = str(message["resource_id"]), _normalise(message["status"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise MessageRefused from None
    if not SESSION_ID.fullmatch(session_id) or not STATUS.fullmatch(status):
        raise MessageRefused
    event_id = headers.get("X-Event-Id", "") or sha256(timestamp.encode() + body).hexdigest()
    return SubmissionStatus(event_id[:200], session_id, status, sent_at)


def _read_time(timestamp: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(timestamp), UTC)
    except (ValueError, OverflowError, OSError):
        raise MessageRefused from None


def _check_age(sent_at: datetime) -> datetime:
    if abs(timezone.now() - sent_at) > MAX_AGE:
        raise MessageRefused
    return sent_at


def _normalise(status: Any) -> str:
    """Normalise a status, because Prolific writes both TIMED-OUT and TIMED_OUT."""
    return str(status).upper().replace("-", "_").replace(" ", "_")
