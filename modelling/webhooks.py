"""News for other servers: which of them are due, signed and delivered by the updater, tried again with growing pauses.

What is due is computed from rows: the newest version against the one a webhook was last told of. A message is a row,
claimed by a lease like every job of the updater and sent outside any transaction. Killed in between, it is sent again
under the same id.
"""

import base64
import hashlib
import hmac
import json
import logging
import time
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, OuterRef, Q
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_noop

from annotation.forms.projects import possible_pairs
from annotation.models import Judgement, Project, User
from annotation.services import audit
from modelling import outgoing
from modelling.claiming import FIRST_PAUSE, LEASE, unheld
from modelling.inputs import SKIPPED
from modelling.models import ModelSnapshot, Webhook, WebhookDelivery, WebhookHost
from modelling.models.webhooks import webhook_salt

log = logging.getLogger("concord.webhooks")

ATTEMPTS = 10
LONGEST_PAUSE = timedelta(hours=1)
REMEMBERED = 50  # deliveries of a webhook whose outcome is kept
Event, State = WebhookDelivery.Event, WebhookDelivery.State

NOT_LISTED = gettext_noop("An administrator has not listed this host and port for webhooks.")
REDIRECT = gettext_noop("The server answered with a redirect, which Concord never follows.")
NOT_OK = gettext_noop("The server did not answer with success (2xx).")
SWITCHED_OFF = gettext_noop("The webhook was switched off before the message was sent.")


# What owners do ------------------------------------------------------------------------------------------------------


def must_be_listed(url: str) -> None:
    """Refused unless an administrator has listed the address's host with its port."""
    target = outgoing.Target.of(url)
    if not WebhookHost.objects.filter(host=target.host, port=target.port).exists():
        raise outgoing.Refused(NOT_LISTED)


@transaction.atomic
def add_webhook(*, project: Project, user: User | None, **fields: Any) -> Webhook:
    """A webhook that is told of what happens from now on."""
    newest = ModelSnapshot.objects.filter(project=project).values_list("number", flat=True).first()
    hook = Webhook.objects.create(project=project, told_version=newest or 0, **fields)
    audit(project, user, "added a webhook", {"address": hook.url})
    return hook


@transaction.atomic
def switch_webhook(*, webhook: Webhook, user: User | None, active: bool) -> None:
    """News are sent, or no longer are; what waits is given up. Twice is once."""
    if not Webhook.objects.filter(pk=webhook.pk, active=not active).update(active=active):
        return
    if not active:
        ended = {"state": State.FAILED, "words": SWITCHED_OFF, "ended_at": timezone.now()}
        webhook.deliveries.filter(state=State.WAITING).update(owner="", lease_until=None, **ended)
    audit(webhook.project, user, "switched a webhook on" if active else "switched a webhook off", {"to": webhook.url})


@transaction.atomic
def renew_secret(*, webhook: Webhook, user: User | None) -> str:
    """A new secret; the old one signs nothing any more."""
    webhook.salt = webhook_salt()
    webhook.save(update_fields=["salt"])
    audit(webhook.project, user, "renewed the secret of a webhook", {"to": webhook.url})
    return secrets_of(webhook)[0]


@transaction.atomic
def remove_webhook(*, webhook: Webhook, user: User | None) -> None:
    audit(webhook.project, user, "removed a webhook", {"to": webhook.url})
    webhook.delete()


def send_test(*, webhook: Webhook, user: User | None) -> bool:
    """A message that says nothing new waits for the updater; False where one waits already."""
    try:
        with transaction.atomic():
            _enqueue(webhook, Event.TEST, {"project": webhook.project.slug})
            audit(webhook.project, user, "sent a test to a webhook", {"to": webhook.url})
    except IntegrityError:
        return False
    return True


# What is due ---------------------------------------------------------------------------------------------------------


def look_for_news() -> None:
    """Every webhook whose project has a newer version than it was told of has its messages waiting.

    While a message of a version waits, none of a newer one is added: the next speaks of the newest.
    """
    on_their_way = WebhookDelivery.objects.filter(webhook=OuterRef("pk"), state=State.WAITING)
    behind = Webhook.objects.filter(
        ~Exists(on_their_way.exclude(event=Event.TEST)),
        active=True,
        project__update_state__current__number__gt=F("told_version"),
    )
    for hook in behind.select_related("project__update_state__current"):
        if current := hook.project.update_state.current:
            current.project = hook.project
            _tell(hook, current, reached_goal(current) if hook.on_goal else hook.goal_told)


@transaction.atomic
def _tell(hook: Webhook, current: ModelSnapshot, reached: bool) -> None:
    ours = Webhook.objects.filter(pk=hook.pk, told_version__lt=current.number)
    if not ours.update(told_version=current.number, goal_told=reached):
        return  # another updater was quicker
    facts = {
        "project": hook.project.slug,
        "version": current.number,
        "kind": current.kind,
        "judgements": current.included,
        "as_of_seq": current.last_sequence,
    }
    if hook.on_version:
        _enqueue(hook, Event.VERSION, facts)
    if reached and not hook.goal_told:
        _enqueue(hook, Event.GOAL, facts)


def reached_goal(snapshot: ModelSnapshot) -> bool:
    """The version has learned from as many answers as the study wants; or, where it names no number, every pair of
    items that is given out was judged by as many workers as the study asks for. “Can't decide” is a judgement, too."""
    project = snapshot.project
    if project.answers_wanted:
        return snapshot.included >= project.answers_wanted
    pairs = possible_pairs(project, project.pairs)
    judged = snapshot.included + snapshot.excluded.get(SKIPPED, 0)
    if not pairs or judged < pairs * project.redundancy:
        return False
    standing = Judgement.objects.standing().filter(
        project=project, sequence__lte=snapshot.last_sequence, item_lo__active=True, item_hi__active=True
    )
    if project.pairs == Project.Pairs.WITHIN_GROUP:
        standing = standing.filter(item_lo__group=F("item_hi__group"))
    by_pair = standing.order_by().values("item_lo", "item_hi").annotate(people=Count("worker", distinct=True))
    return by_pair.filter(people__gte=project.redundancy).count() >= pairs


def _enqueue(hook: Webhook, event: str, facts: dict[str, Any]) -> None:
    """One more message waits; the oldest outcomes are forgotten."""
    said = {"type": event, "timestamp": timezone.now().isoformat(timespec="seconds"), "data": facts}
    WebhookDelivery.objects.create(webhook=hook, event=event, payload=said)
    ended = hook.deliveries.exclude(state=State.WAITING).order_by("-pk")
    hook.deliveries.filter(pk__in=list(ended.values_list("pk", flat=True)[REMEMBERED:])).delete()


# Delivery ------------------------------------------------------------------------------------------------------------


def deliver_one(owner: str) -> bool:
    """Sends one message that is due; False where none is. Nobody waits longer for it than one call may take."""
    look_for_news()
    delivery = _claim(owner)
    if delivery is None:
        return False
    try:
        status = _send(delivery)
    except outgoing.Refused as refusal:
        _end(delivery, owner, State.FAILED, words=str(refusal))
    except outgoing.Unreachable as failure:
        _try_again(delivery, owner, words=str(failure))
    else:
        _note(delivery, owner, status)
    return True


def _claim(owner: str) -> WebhookDelivery | None:
    """The message that has waited longest and that is now ours."""
    now = timezone.now()
    due = WebhookDelivery.objects.filter(
        unheld(now), Q(not_before=None) | Q(not_before__lte=now), state=State.WAITING, webhook__active=True
    )
    for delivery in due.select_related("webhook__project").order_by("pk"):
        if due.filter(pk=delivery.pk).update(owner=owner, lease_until=now + LEASE, attempts=F("attempts") + 1):
            delivery.attempts += 1
            return delivery
    return None


def _send(delivery: WebhookDelivery) -> int:
    must_be_listed(delivery.webhook.url)  # asked again: the list may have changed since
    body = body_of(delivery)
    return outgoing.post(delivery.webhook.url, body, headers_of(delivery, body, int(time.time())))


def _note(delivery: WebhookDelivery, owner: str, status: int) -> None:
    if 200 <= status < 300:
        _end(delivery, owner, State.DELIVERED, status=status)
    elif 300 <= status < 400:
        _end(delivery, owner, State.FAILED, status=status, words=REDIRECT)
    else:
        _try_again(delivery, owner, status=status, words=NOT_OK)


def _try_again(delivery: WebhookDelivery, owner: str, *, words: str, status: int | None = None) -> None:
    if delivery.attempts >= ATTEMPTS:
        _end(delivery, owner, State.FAILED, status=status, words=words)
    else:
        pause = timezone.now() + pause_after(delivery.attempts)
        _write(delivery, owner, not_before=pause, status=status, words=words)


def _end(delivery: WebhookDelivery, owner: str, state: str, *, words: str = "", status: int | None = None) -> None:
    _write(delivery, owner, state=state, status=status, words=words, ended_at=timezone.now())
    log.info("webhook %s", state, extra={"project": delivery.webhook.project.slug, "attempts": delivery.attempts})


def _write(delivery: WebhookDelivery, owner: str, **facts: Any) -> None:
    """What came of it, if the message is still ours."""
    ours = WebhookDelivery.objects.filter(pk=delivery.pk, owner=owner, state=State.WAITING)
    ours.update(owner="", lease_until=None, **facts)


def pause_after(attempts: int) -> timedelta:
    """Four times as long after each attempt, up to an hour: five seconds, twenty, eighty, and so on."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** (attempts - 1))


# The signature -------------------------------------------------------------------------------------------------------


def body_of(delivery: WebhookDelivery) -> bytes:
    """The same bytes whenever it is sent."""
    return json.dumps(delivery.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def headers_of(delivery: WebhookDelivery, body: bytes, at: int) -> dict[str, str]:
    """As https://www.standardwebhooks.com asks for: one signature for each key of the install that is still good."""
    signatures = [signature(secret, str(delivery.uuid), at, body) for secret in secrets_of(delivery.webhook)]
    return {
        "Content-Type": "application/json",
        "Webhook-Id": str(delivery.uuid),
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": " ".join(signatures),
    }


def signature(secret: str, message_id: str, at: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def secrets_of(webhook: Webhook) -> list[str]:
    """Made from the install's key and the row's salt: whoever reads the database alone cannot sign."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    made = [salted_hmac("secret of a webhook", webhook.salt, secret=key, algorithm="sha256") for key in keys]
    return [f"whsec_{base64.b64encode(each.digest()).decode()}" for each in made]
