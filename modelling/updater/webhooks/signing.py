"""Signatures of webhook messages, as specified by https://www.standardwebhooks.com."""

import base64
import hashlib
import hmac
import json

from django.conf import settings
from django.utils.crypto import salted_hmac

from modelling.models import Webhook, WebhookDelivery


def signing_secrets(webhook: Webhook) -> list[str]:
    """The webhook's secret for each key of the installation, so that database access alone is not enough to sign."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    derived = [salted_hmac("secret of a webhook", webhook.salt, secret=key, algorithm="sha256") for key in keys]
    return [f"whsec_{base64.b64encode(each.digest()).decode()}" for each in derived]


def encode_body(delivery: WebhookDelivery) -> bytes:
    """The body of a message, byte-for-byte identical at each attempt."""
    return json.dumps(delivery.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def build_headers(delivery: WebhookDelivery, body: bytes, timestamp: int) -> dict[str, str]:
    """Request headers with one signature for each key of the installation."""
    signatures = [sign(secret, str(delivery.uuid), timestamp, body) for secret in signing_secrets(delivery.webhook)]
    return {
        "Content-Type": "application/json",
        "Webhook-Id": str(delivery.uuid),
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": " ".join(signatures),
    }


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
