"""Webhooks: adding and changing them, queueing messages, and delivering messages with retries.

A message is due if the current version is newer than the last one that the webhook was notified of. A message is a row,
leased like all of the updater's work and sent outside any transaction; after a crash it is sent again with the same id.
"""

import logging
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from annotation.models import Judgement, Project, User
from annotation.models.arms import Design, list_designs
from annotation.services import audit
from annotation.services.pairs.counts import count_pairs, count_possible_pairs
from modelling.models import ModelSnapshot, Webhook, WebhookDelivery, WebhookHost
from modelling.models.webhooks import webhook_salt
from modelling.training.inputs import SKIPPED
from modelling.updater import leases
from modelling.updater.webhooks import http_client
from modelling.updater.webhooks.signing import build_headers, encode_body, signing_secrets

log = logging.getLogger("concord.webhooks")

MAX_ATTEMPTS = 10
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
KEPT_DELIVERIES = 50  # finished deliveries kept per webhook
Event, State = WebhookDelivery.Event, WebhookDelivery.State

NOT_LISTED = gettext_noop("This host and port are not on the administrator's list for webhooks.")
REDIRECT = gettext_noop("The server answered with a redirect. Concord does not follow redirects.")
NOT_OK = gettext_noop("The server did not answer with a success status (2xx).")
DISABLED = gettext_noop("The webhook was disabled before the message was sent.")


# Webhooks ------------------------------------------------------------------------------------------------------------


def check_host_listed(url: str) -> None:
    """Raise AddressRefused unless an administrator has listed the host and port of this URL."""
    target = http_client.Target.parse(url)
    if not WebhookHost.objects.filter(host=target.host, port=target.port).exists():
        raise http_client.AddressRefused(NOT_LISTED)


@transaction.atomic
def add_webhook(*, project: Project, user: User | None, **fields: Any) -> Webhook:
    """Add a webhook, which is notified of later versions only."""
    newest = ModelSnapshot.objects.filter(project=project).values_list("number", flat=True).first()
    hook = Webhook.objects.create(project=project, notified_version=newest or 0, **fields)
    audit(project, user, "added a webhook", {"address": hook.url})
    return hook


@transaction.atomic
def switch_webhook(*, webhook: Webhook, user: User | None, active: bool) -> None:
    """Enable or disable a webhook; disabling it cancels its waiting messages."""
    if not Webhook.objects.filter(pk=webhook.pk, active=not active).update(active=active):
        return
    if not active:
        ended = {"state": State.FAILED, "message": DISABLED, "ended_at": timezone.now()}
        webhook.deliveries.filter(state=State.WAITING).update(**leases.RELEASED, **ended)
    audit(webhook.project, user, "switched a webhook on" if active else "switched a webhook off", {"to": webhook.url})


@transaction.atomic
def renew_secret(*, webhook: Webhook, user: User | None) -> str:
    """Replace the secret; the old one becomes invalid at once."""
    webhook.salt = webhook_salt()
    webhook.save(update_fields=["salt"])
    audit(webhook.project, user, "renewed the secret of a webhook", {"to": webhook.url})
    return signing_secrets(webhook)[0]


@transaction.atomic
def remove_webhook(*, webhook: Webhook, user: User | None) -> None:
    audit(webhook.project, user, "removed a webhook", {"to": webhook.url})
    webhook.delete()


def send_test(*, webhook: Webhook, user: User | None) -> bool:
    """Queue a test message; False if one is already waiting."""
    try:
        with transaction.atomic():
            _enqueue(webhook, Event.TEST, {"project": webhook.project.slug})
            audit(webhook.project, user, "sent a test to a webhook", {"to": webhook.url})
    except IntegrityError:
        return False
    return True


# Messages ------------------------------------------------------------------------------------------------------------


def enqueue_due_messages() -> None:
    """Queue messages for all webhooks whose project has a version they were not notified of.

    While a message waits, none is added for newer versions; the next one names the newest version.
    """
    waiting = WebhookDelivery.objects.filter(webhook=OuterRef("pk"), state=State.WAITING)
    behind = Webhook.objects.filter(
        ~Exists(waiting.exclude(event=Event.TEST)),
        active=True,
        project__update_state__current__number__gt=F("notified_version"),
    )
    for hook in behind.select_related("project__update_state__current"):
        if current := hook.project.update_state.current:
            current.project = hook.project
            _enqueue_version(hook, current, has_reached_goal(current) if hook.on_goal else hook.goal_notified)


@transaction.atomic
def _enqueue_version(hook: Webhook, current: ModelSnapshot, reached: bool) -> None:
    ours = Webhook.objects.filter(pk=hook.pk, notified_version__lt=current.number)
    if not ours.update(notified_version=current.number, goal_notified=reached):
        return  # another updater was faster
    data = {
        "project": hook.project.slug,
        "version": current.number,
        "kind": current.kind,
        "judgements": current.included,
        "as_of_seq": current.last_sequence,
    }
    if hook.on_version:
        _enqueue(hook, Event.VERSION, data)
    if reached and not hook.goal_notified:
        _enqueue(hook, Event.GOAL, data)


def has_reached_goal(snapshot: ModelSnapshot) -> bool:
    """Whether a version includes as many judgements as the study wants.

    If the study sets no number, enough workers must have judged each pair; skipped pairs count as judged.
    """
    project = snapshot.project
    if project.answers_wanted:
        return snapshot.included >= project.answers_wanted
    judged = snapshot.included + snapshot.excluded.get(SKIPPED, 0)
    needed = count_possible_pairs(project).total * project.redundancy
    return 0 < needed <= judged and all(_is_judged(design, snapshot) for design in list_designs(project))


def _is_judged(design: Design, snapshot: ModelSnapshot) -> bool:
    """Whether enough workers with this design have judged each of its pairs."""
    judgements = Judgement.objects.not_retracted().filter(
        project=design.project, sequence__lte=snapshot.last_sequence, item_lo__active=True, item_hi__active=True
    )
    if design.arm:
        judgements = judgements.filter(worker__arm=design.arm, item_lo__in=design.items, item_hi__in=design.items)
    if design.pairs == Project.Pairs.WITHIN_GROUP:
        judgements = judgements.filter(item_lo__group=F("item_hi__group"))
    by_pair = judgements.order_by().values("item_lo", "item_hi").annotate(workers=Count("worker", distinct=True))
    return by_pair.filter(workers__gte=design.project.redundancy).count() >= count_pairs(design)


def _enqueue(hook: Webhook, event: str, data: dict[str, Any]) -> None:
    """Add a message, and delete the oldest finished ones."""
    payload = {"type": event, "timestamp": timezone.now().isoformat(timespec="seconds"), "data": data}
    WebhookDelivery.objects.create(webhook=hook, event=event, payload=payload)
    ended = hook.deliveries.exclude(state=State.WAITING).order_by("-pk")
    hook.deliveries.filter(pk__in=list(ended.values_list("pk", flat=True)[KEPT_DELIVERIES:])).delete()


# Delivery ------------------------------------------------------------------------------------------------------------


def deliver_one(owner: str) -> bool:
    """Send one message that is due, within the time limit of one HTTP request; return False if there is none."""
    enqueue_due_messages()
    delivery = _claim(owner)
    if delivery is None:
        return False
    try:
        status = _send(delivery)
    except http_client.AddressRefused as refusal:
        _end(delivery, State.FAILED, message=str(refusal))
    except http_client.Unreachable as failure:
        _retry(delivery, message=str(failure))
    else:
        _record_status(delivery, status)
    return True


def _claim(owner: str) -> WebhookDelivery | None:
    """Lease the oldest message that is due."""
    now = timezone.now()
    waiting = WebhookDelivery.objects.filter(
        Q(not_before=None) | Q(not_before__lte=now), state=State.WAITING, webhook__active=True
    )
    for delivery in waiting.filter(leases.free_leases()).select_related("webhook__project").order_by("pk"):
        if leases.claim(waiting, delivery, owner, attempts=F("attempts") + 1):
            delivery.attempts += 1
            return delivery
    return None


def _send(delivery: WebhookDelivery) -> int:
    check_host_listed(delivery.webhook.url)  # again: an administrator may have removed the host
    body = encode_body(delivery)
    return http_client.post(delivery.webhook.url, body, build_headers(delivery, body, int(time.time())))


def _record_status(delivery: WebhookDelivery, status: int) -> None:
    if 200 <= status < 300:
        _end(delivery, State.DELIVERED, status=status)
    elif 300 <= status < 400:
        _end(delivery, State.FAILED, status=status, message=REDIRECT)
    else:
        _retry(delivery, status=status, message=NOT_OK)


def _retry(delivery: WebhookDelivery, *, message: str, status: int | None = None) -> None:
    if delivery.attempts >= MAX_ATTEMPTS:
        _end(delivery, State.FAILED, status=status, message=message)
    else:
        pause = timezone.now() + retry_delay(delivery.attempts)
        _release(delivery, not_before=pause, status=status, message=message)


def _end(delivery: WebhookDelivery, state: str, *, message: str = "", status: int | None = None) -> None:
    _release(delivery, state=state, status=status, message=message, ended_at=timezone.now())
    log.info("webhook %s", state, extra={"project": delivery.webhook.project.slug, "attempts": delivery.attempts})


def _release(delivery: WebhookDelivery, **fields: Any) -> None:
    """Store the result, unless another process has claimed the message or the webhook was disabled."""
    with suppress(leases.LeaseLost):
        leases.release(delivery, **fields)


def retry_delay(attempts: int) -> timedelta:
    """Return the pause after this attempt, four times the previous one: 5 s, 20 s, 80 s ... up to an hour."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** (attempts - 1))
