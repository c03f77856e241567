"""Webhooks: queueing, delivery with retries, signatures, and the page."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Item, Judgement, Project, User
from modelling.models import Webhook, WebhookDelivery, WebhookHost
from modelling.updater import leases as update_leases
from modelling.updater import loop
from modelling.updater.webhooks import delivery as webhooks
from modelling.updater.webhooks import http_client
from modelling.updater.webhooks.http_client import AddressRefused, Unreachable
from tests.modelling.samples.studies import make_version
from tests.modelling.updater.webhooks.receiver import NAME, receiving

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LogIn = Callable[[User], Client]
PAGE = "/projects/pets/webhooks/"
URL = f"https://{NAME}/concord"


class Post:
    """A fake HTTP client with prepared responses, which records the requests."""

    def __init__(self) -> None:
        self.answers: list[int | Exception] = []
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []

    def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        self.sent.append((url, body, headers))
        answer = self.answers.pop(0) if self.answers else 204
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _url, body, _headers in self.sent]


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    fake = Post()
    monkeypatch.setattr(http_client, "post", fake)
    return fake


@pytest.fixture
def listed(db: None) -> WebhookHost:
    return WebhookHost.objects.create(host=NAME)


@pytest.fixture
def hook(project: Project, listed: WebhookHost) -> Webhook:
    return webhooks.add_webhook(project=project, user=None, url=URL)


def end_pause() -> None:
    """End the pause before the next attempt."""
    WebhookDelivery.objects.update(not_before=timezone.now() - timedelta(seconds=1))


# Messages


def test_a_new_version_is_sent_once(project: Project, hook: Webhook, post: Post) -> None:
    assert not webhooks.deliver_one("one")
    make_version(project, 1)
    assert webhooks.deliver_one("one")
    assert not webhooks.deliver_one("one")
    [payload] = post.payloads
    assert payload["type"] == "version.published"
    assert payload["data"] == {"project": "pets", "version": 1, "kind": "step", "judgements": 10, "as_of_seq": 10}
    assert WebhookDelivery.objects.get().state == "delivered"


def test_a_new_webhook_is_not_notified_of_older_versions(project: Project, listed: WebhookHost, post: Post) -> None:
    make_version(project, 1)
    webhooks.add_webhook(project=project, user=None, url=URL)
    assert not webhooks.deliver_one("one")


def test_newer_versions_are_combined_while_a_message_waits(project: Project, hook: Webhook, post: Post) -> None:
    post.answers = [503]
    for number in (1, 2, 3):
        make_version(project, number)
        webhooks.deliver_one("one")
    assert WebhookDelivery.objects.count() == 1
    end_pause()
    while webhooks.deliver_one("one"):
        pass
    assert [payload["data"]["version"] for payload in post.payloads] == [1, 1, 3]
    ids = [headers["Webhook-Id"] for _url, _body, headers in post.sent]
    assert ids[0] == ids[1] != ids[2]
    assert post.sent[0][1] == post.sent[1][1]


def test_the_goal_is_reached_at_the_wanted_number_of_judgements(project: Project, hook: Webhook, post: Post) -> None:
    Project.objects.update(answers_wanted=25)
    Webhook.objects.update(on_version=False)
    for number in (1, 2, 3, 4):
        make_version(project, number)
        webhooks.deliver_one("one")
    [payload] = post.payloads
    assert (payload["type"], payload["data"]["judgements"]) == ("goal.reached", 30)
    Project.objects.update(answers_wanted=45)
    for number in (5, 6):
        make_version(project, number, included=number * 8)
        webhooks.deliver_one("one")
    assert [payload["data"]["version"] for payload in post.payloads] == [3, 6]


def test_without_a_number_the_goal_is_reached_when_every_pair_is_judged(
    project: Project, hook: Webhook, post: Post
) -> None:
    Item.objects.filter(group="dogs").update(active=False)
    Project.objects.update(redundancy=2)
    project.refresh_from_db()
    Webhook.objects.update(on_version=False)
    people = [services.enrol(project=project) for _ in range(2)]
    given = 0
    for round_, worker in enumerate(people, start=1):
        while leases := services.lease_pairs(worker=worker, rng=Random(1)):
            lease = leases[0]
            choice = "skip" if given == 3 else "left"
            services.record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice=choice)
            given += 1
        last = Judgement.objects.latest("sequence").sequence
        make_version(project, round_, included=given - 1, excluded={"skipped": 1}, last_sequence=last)
        webhooks.deliver_one("one")
        assert len(post.payloads) == (given == 12)
    assert [payload["type"] for payload in post.payloads] == ["goal.reached"]


def test_many_judgements_of_few_pairs_do_not_reach_the_goal(project: Project, hook: Webhook, post: Post) -> None:
    Webhook.objects.update(on_version=False)
    make_version(project, 1, included=1000)
    assert not webhooks.deliver_one("one")


# Delivery


def test_a_message_is_retried_with_growing_pauses_and_fails_in_the_end(
    project: Project, hook: Webhook, post: Post
) -> None:
    make_version(project, 1)
    post.answers = [Unreachable(http_client.NO_ANSWER), *[500] * 20]
    pauses = []
    for _ in range(webhooks.MAX_ATTEMPTS):
        assert webhooks.deliver_one("one")
        delivery = WebhookDelivery.objects.get()
        pauses.append(delivery.not_before - timezone.now())
        assert not webhooks.deliver_one("one")
        end_pause()
    seconds = [round(pause.total_seconds()) for pause in pauses[:-1]]
    assert seconds == [5, 20, 80, 320, 1280, 3600, 3600, 3600, 3600]
    assert (delivery.state, delivery.status, delivery.attempts) == ("failed", 500, webhooks.MAX_ATTEMPTS)
    assert delivery.message == webhooks.NOT_OK
    assert not webhooks.deliver_one("one")


@pytest.mark.parametrize(
    ("answer", "words"), [(302, webhooks.REDIRECT), (AddressRefused(http_client.PRIVATE), http_client.PRIVATE)]
)
def test_a_redirect_or_a_private_address_fails_at_once(
    answer: int | Exception, words: str, project: Project, hook: Webhook, post: Post
) -> None:
    make_version(project, 1)
    post.answers = [answer]
    assert webhooks.deliver_one("one")
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.message, delivery.attempts) == ("failed", words, 1)


def test_nothing_is_sent_to_a_host_that_is_no_longer_listed(
    project: Project, hook: Webhook, listed: WebhookHost, post: Post
) -> None:
    make_version(project, 1)
    listed.delete()
    assert webhooks.deliver_one("one")
    assert WebhookDelivery.objects.get().message == webhooks.NOT_LISTED
    assert post.sent == []


def test_each_port_must_be_listed(listed: WebhookHost) -> None:
    webhooks.check_host_listed(URL)
    with pytest.raises(AddressRefused, match="not on the administrator"):
        webhooks.check_host_listed(f"https://{NAME}:8443/")
    WebhookHost.objects.create(host=NAME, port=8443)
    webhooks.check_host_listed(f"https://{NAME}:8443/")


@pytest.mark.parametrize("name", ["127.0.0.1", "2130706433", "localhost", "*.example.org", "Hooks.example.org", "::1"])
def test_only_host_names_can_be_listed(name: str) -> None:
    with pytest.raises(ValidationError):
        WebhookHost(host=name).full_clean()


def test_the_message_of_a_killed_updater_is_sent_again_with_the_same_id(
    project: Project, hook: Webhook, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_version(project, 1)
    webhooks.enqueue_due_messages()
    dead = f"{update_leases.process_owner().rsplit('-', 2)[0]}-999999999"
    taken = webhooks._claim(dead)
    assert not webhooks.deliver_one("two")
    update_leases.release_dead_leases()
    assert webhooks.deliver_one("two")
    assert post.sent[0][2]["Webhook-Id"] == str(taken.uuid)
    assert WebhookDelivery.objects.get().attempts == 2


def test_two_updaters_queue_a_message_once(project: Project, hook: Webhook, post: Post) -> None:
    current = make_version(project, 1)
    for _ in range(2):
        webhooks._enqueue_version(hook, current, reached=False)
    assert WebhookDelivery.objects.count() == 1


def test_each_pass_of_the_loop_sends_one_message(
    project: Project, hook: Webhook, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "claim_project", lambda owner, accept: None)
    make_version(project, 1)
    webhooks.send_test(webhook=hook, user=None)
    assert [loop.run_once("one").worked for _ in range(3)] == [True, True, False]
    assert {payload["type"] for payload in post.payloads} == {"test", "version.published"}


def test_old_deliveries_are_deleted(project: Project, hook: Webhook, post: Post, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "KEPT_DELIVERIES", 2)
    for number in range(1, 6):
        make_version(project, number)
        webhooks.deliver_one("one")
    assert WebhookDelivery.objects.count() == 3


# Signatures


def documented_check() -> Callable[..., bool]:
    """The function `is_genuine` in docs/webhooks.md."""
    text = (django_settings.BASE_DIR / "docs" / "webhooks.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_genuine"]


def test_the_documented_check_accepts_only_what_was_sent(project: Project, hook: Webhook, post: Post) -> None:
    make_version(project, 1)
    webhooks.deliver_one("one")
    [(_url, body, headers)] = post.sent
    is_genuine, [secret] = documented_check(), webhooks.signing_secrets(hook)
    assert is_genuine(secret, headers, body)
    assert not is_genuine(secret, headers, body.replace(b"10", b"11"))
    assert not is_genuine(secret, headers | {"Webhook-Id": "another"}, body)
    assert not is_genuine(secret, headers, body, now=int(headers["Webhook-Timestamp"]) + 301)
    assert not is_genuine(webhooks.renew_secret(webhook=hook, user=None), headers, body)


def test_both_secrets_verify_while_the_installation_key_changes(hook: Webhook, settings) -> None:
    [old] = webhooks.signing_secrets(hook)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key that guards nothing"
    delivery = WebhookDelivery(webhook=hook, payload={})
    headers = webhooks.build_headers(delivery, b"{}", 1_000)
    for secret in (old, webhooks.signing_secrets(hook)[0]):
        assert documented_check()(secret, headers, b"{}", now=1_000)


def test_a_message_reaches_a_real_server(
    project: Project, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(http_client, "resolve", lambda host, port: ["127.0.0.1"])
        WebhookHost.objects.update(port=receiver.port)
        Webhook.objects.update(url=f"https://{NAME}:{receiver.port}/in")
        make_version(project, 1)
        assert webhooks.deliver_one("one")
        assert WebhookDelivery.objects.get().message == http_client.PRIVATE
        monkeypatch.setattr(http_client, "is_public", lambda address: True)
        monkeypatch.setattr(http_client, "tls_context", lambda: trusting)
        make_version(project, 2)
        assert webhooks.deliver_one("one")
    [message] = receiver.messages
    assert documented_check()(webhooks.signing_secrets(hook)[0], message.headers, message.body)
    assert WebhookDelivery.objects.first().status == 204


# The page


def test_an_owner_adds_a_webhook_and_sees_its_secret_once(
    project: Project, owner: User, listed: WebhookHost, log_in: LogIn
) -> None:
    client = log_in(owner)
    added = client.post(PAGE, {"url": URL, "on_version": "on"})
    hook = Webhook.objects.get()
    [secret] = webhooks.signing_secrets(hook)
    assert secret in added.text
    assert (hook.url, hook.on_version, hook.on_goal) == (URL, True, False)
    assert secret not in client.get(PAGE).text
    assert "already a webhook to this address" in client.post(PAGE, {"url": URL, "on_version": "on"}).text
    renewed = client.post(f"{PAGE}{hook.pk}/secret/")
    assert secret not in renewed.text
    assert webhooks.signing_secrets(Webhook.objects.get())[0] in renewed.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "http://hooks.example.org/", "on_goal": "on"}, "Enter an address such as"),
        ({"url": "https://127.0.0.1/", "on_goal": "on"}, "Enter an address such as"),
        ({"url": "https://hooks.example.org@169.254.169.254/", "on_goal": "on"}, "Enter an address such as"),
        ({"url": "https://elsewhere.example.org/", "on_goal": "on"}, "not on the administrator"),
        ({"url": "https://hooks.example.org:444/", "on_goal": "on"}, "not on the administrator"),
        ({"url": URL}, "Choose at least one event"),
        ({"url": URL + "\u0000", "on_goal": "on"}, "Null characters"),
        ({"url": URL + "x" * 600, "on_goal": "on"}, "at most 500 characters"),
    ],
)
def test_other_addresses_are_rejected_with_a_message(
    fields: dict[str, str], words: str, project: Project, owner: User, listed: WebhookHost, log_in: LogIn
) -> None:
    answer = log_in(owner).post(PAGE, fields)
    assert answer.status_code == 422
    assert words in answer.text
    assert not Webhook.objects.exists()


def test_without_listed_hosts_the_page_shows_whom_to_ask(project: Project, owner: User, log_in: LogIn) -> None:
    page = log_in(owner).get(PAGE).text
    assert "No hosts are allowed yet" in page
    assert "<button" not in page.split("<main")[1]


def test_an_owner_can_test_disable_and_remove_a_webhook(
    project: Project, owner: User, hook: Webhook, post: Post, log_in: LogIn
) -> None:
    client, at = log_in(owner), f"{PAGE}{hook.pk}/"
    assert "is being sent" in client.post(f"{at}test/", follow=True).text
    assert "already" in client.post(f"{at}test/", follow=True).text
    assert webhooks.deliver_one("one")
    assert [payload["type"] for payload in post.payloads] == ["test"]
    assert "HTTP 204" in client.get(PAGE).text
    client.post(f"{at}test/")
    client.post(f"{at}switch/")
    make_version(project, 1)
    assert not webhooks.deliver_one("one")
    assert webhooks.DISABLED in client.get(PAGE).text
    client.post(f"{at}switch/", {"active": "on"})
    assert webhooks.deliver_one("one")
    client.post(f"{at}remove/")
    assert not Webhook.objects.exists()
    actions = list(AuditEntry.objects.filter(project=project).values_list("action", flat=True)[:5])
    switched = ["switched a webhook on", "switched a webhook off"]
    assert actions == ["removed a webhook", *switched, *["sent a test to a webhook"] * 2], "newest first"


def test_a_webhook_of_another_project_is_not_found(hook: Webhook, stranger: User, log_in: LogIn) -> None:
    client = log_in(stranger)
    for what in ("secret", "switch", "test", "remove"):
        assert client.post(f"/projects/elsewhere/webhooks/{hook.pk}/{what}/").status_code == 404
    assert Webhook.objects.get().active


def test_listing_hosts_is_audited(admin_client: Client) -> None:
    where = "/admin/modelling/webhookhost/"
    assert admin_client.post(f"{where}add/", {"host": "127.0.0.1", "port": "443"}).status_code == 200
    assert admin_client.post(f"{where}add/", {"host": NAME, "port": "443"}).status_code == 302
    host = WebhookHost.objects.get()
    admin_client.post(f"{where}{host.pk}/delete/", {"post": "yes"})
    actions = list(AuditEntry.objects.values_list("action", flat=True))
    assert actions == ["took a host for webhooks off the list", "listed a host for webhooks"]
