"""News for other servers: due when they are, signed, tried again, given up, and never sent anywhere else."""

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
from modelling import claiming, outgoing, turns, webhooks
from modelling.models import Webhook, WebhookDelivery, WebhookHost
from modelling.outgoing import Refused, Unreachable
from tests.modelling.receiver import NAME, receiving
from tests.modelling.studies import make_version

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
PAGE = "/projects/pets/webhooks/"
URL = f"https://{NAME}/concord"


class Post:
    """Stands for the network: answers with what it is told, and keeps what was sent."""

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
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _url, body, _headers in self.sent]


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    stand_in = Post()
    monkeypatch.setattr(outgoing, "post", stand_in)
    return stand_in


@pytest.fixture
def listed(db: None) -> WebhookHost:
    return WebhookHost.objects.create(host=NAME)


@pytest.fixture
def hook(project: Project, listed: WebhookHost) -> Webhook:
    return webhooks.add_webhook(project=project, user=None, url=URL)


def later() -> None:
    """The pause before the next attempt is over."""
    WebhookDelivery.objects.update(not_before=timezone.now() - timedelta(seconds=1))


# What is due


def test_a_new_version_is_told_once(project: Project, hook: Webhook, post: Post) -> None:
    assert not webhooks.deliver_one("one")
    make_version(project, 1)
    assert webhooks.deliver_one("one")
    assert not webhooks.deliver_one("one")
    [said] = post.said
    assert said["type"] == "version.published"
    assert said["data"] == {"project": "pets", "version": 1, "kind": "step", "judgements": 10, "as_of_seq": 10}
    assert WebhookDelivery.objects.get().state == "delivered"


def test_a_webhook_is_not_told_of_what_was_there_before_it(project: Project, listed: WebhookHost, post: Post) -> None:
    make_version(project, 1)
    webhooks.add_webhook(project=project, user=None, url=URL)
    assert not webhooks.deliver_one("one")


def test_while_a_message_waits_newer_versions_are_told_by_the_next(project: Project, hook: Webhook, post: Post) -> None:
    post.answers = [503]
    for number in (1, 2, 3):
        make_version(project, number)
        webhooks.deliver_one("one")
    assert WebhookDelivery.objects.count() == 1
    later()
    while webhooks.deliver_one("one"):
        pass
    assert [said["data"]["version"] for said in post.said] == [1, 1, 3]
    ids = [headers["Webhook-Id"] for _url, _body, headers in post.sent]
    assert ids[0] == ids[1] != ids[2]
    assert post.sent[0][1] == post.sent[1][1]


def test_the_goal_is_a_number_of_answers_where_the_study_names_one(project: Project, hook: Webhook, post: Post) -> None:
    Project.objects.update(answers_wanted=25)
    Webhook.objects.update(on_version=False)
    for number in (1, 2, 3, 4):
        make_version(project, number)
        webhooks.deliver_one("one")
    [said] = post.said
    assert (said["type"], said["data"]["judgements"]) == ("goal.reached", 30)
    Project.objects.update(answers_wanted=45)
    for number in (5, 6):
        make_version(project, number, included=number * 8)
        webhooks.deliver_one("one")
    assert [said["data"]["version"] for said in post.said] == [3, 6]


def test_else_the_goal_is_that_every_pair_has_its_workers(project: Project, hook: Webhook, post: Post) -> None:
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
        assert len(post.said) == (given == 12)
    assert [said["type"] for said in post.said] == ["goal.reached"]


def test_many_answers_to_few_pairs_are_no_goal(project: Project, hook: Webhook, post: Post) -> None:
    Webhook.objects.update(on_version=False)
    make_version(project, 1, included=1000)
    assert not webhooks.deliver_one("one")


# Delivery


def test_a_message_is_tried_again_with_growing_pauses_and_given_up_in_the_end(
    project: Project, hook: Webhook, post: Post
) -> None:
    make_version(project, 1)
    post.answers = [Unreachable(outgoing.NO_ANSWER), *[500] * 20]
    pauses = []
    for _ in range(webhooks.ATTEMPTS):
        assert webhooks.deliver_one("one")
        delivery = WebhookDelivery.objects.get()
        pauses.append(delivery.not_before - timezone.now())
        assert not webhooks.deliver_one("one")
        later()
    seconds = [round(pause.total_seconds()) for pause in pauses[:-1]]
    assert seconds == [5, 20, 80, 320, 1280, 3600, 3600, 3600, 3600]
    assert (delivery.state, delivery.status, delivery.attempts) == ("failed", 500, webhooks.ATTEMPTS)
    assert delivery.words == webhooks.NOT_OK
    assert not webhooks.deliver_one("one")


@pytest.mark.parametrize(("answer", "words"), [(302, webhooks.REDIRECT), (Refused(outgoing.PRIVATE), outgoing.PRIVATE)])
def test_a_redirect_or_a_private_address_ends_it_at_once(
    answer: int | Exception, words: str, project: Project, hook: Webhook, post: Post
) -> None:
    make_version(project, 1)
    post.answers = [answer]
    assert webhooks.deliver_one("one")
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.words, delivery.attempts) == ("failed", words, 1)


def test_a_host_that_is_no_longer_listed_gets_nothing(
    project: Project, hook: Webhook, listed: WebhookHost, post: Post
) -> None:
    make_version(project, 1)
    listed.delete()
    assert webhooks.deliver_one("one")
    assert WebhookDelivery.objects.get().words == webhooks.NOT_LISTED
    assert post.sent == []


def test_another_port_is_another_host(listed: WebhookHost) -> None:
    webhooks.must_be_listed(URL)
    with pytest.raises(Refused, match="has not listed"):
        webhooks.must_be_listed(f"https://{NAME}:8443/")
    WebhookHost.objects.create(host=NAME, port=8443)
    webhooks.must_be_listed(f"https://{NAME}:8443/")


@pytest.mark.parametrize("name", ["127.0.0.1", "2130706433", "localhost", "*.example.org", "Hooks.example.org", "::1"])
def test_only_a_name_can_be_listed(name: str) -> None:
    with pytest.raises(ValidationError):
        WebhookHost(host=name).full_clean()


def test_a_killed_updater_s_message_is_sent_again_under_the_same_id(
    project: Project, hook: Webhook, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_version(project, 1)
    webhooks.look_for_news()
    dead = f"{claiming.owner_here().rsplit('-', 1)[0]}-999999999"
    taken = webhooks._claim(dead)
    assert not webhooks.deliver_one("two")
    claiming.release_claims_of_the_dead()
    assert webhooks.deliver_one("two")
    assert post.sent[0][2]["Webhook-Id"] == str(taken.uuid)
    assert WebhookDelivery.objects.get().attempts == 2


def test_two_updaters_tell_the_same_news_once(project: Project, hook: Webhook, post: Post) -> None:
    current = make_version(project, 1)
    for _ in range(2):
        webhooks._tell(hook, current, reached=False)
    assert WebhookDelivery.objects.count() == 1


def test_an_updater_sends_one_message_in_each_turn(
    project: Project, hook: Webhook, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "run_one", lambda owner, tell: None)
    make_version(project, 1)
    webhooks.send_test(webhook=hook, user=None)
    assert [turns.take_turn("one").worked for _ in range(3)] == [True, True, False]
    assert {said["type"] for said in post.said} == {"test", "version.published"}


def test_only_so_many_outcomes_are_kept(project: Project, hook: Webhook, post: Post, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "REMEMBERED", 2)
    for number in range(1, 6):
        make_version(project, number)
        webhooks.deliver_one("one")
    assert WebhookDelivery.objects.count() == 3


# The signature


def documented_check() -> Callable[..., bool]:
    """`is_genuine` as it stands in docs/webhooks.md."""
    text = (django_settings.BASE_DIR / "docs" / "webhooks.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_genuine"]


def test_the_documented_check_accepts_what_is_sent_and_nothing_else(
    project: Project, hook: Webhook, post: Post
) -> None:
    make_version(project, 1)
    webhooks.deliver_one("one")
    [(_url, body, headers)] = post.sent
    is_genuine, [secret] = documented_check(), webhooks.secrets_of(hook)
    assert is_genuine(secret, headers, body)
    assert not is_genuine(secret, headers, body.replace(b"10", b"11"))
    assert not is_genuine(secret, headers | {"Webhook-Id": "another"}, body)
    assert not is_genuine(secret, headers, body, now=int(headers["Webhook-Timestamp"]) + 301)
    assert not is_genuine(webhooks.renew_secret(webhook=hook, user=None), headers, body)


def test_while_the_install_s_key_is_changed_both_secrets_fit(hook: Webhook, settings) -> None:
    [old] = webhooks.secrets_of(hook)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key that guards nothing"
    delivery = WebhookDelivery(webhook=hook, payload={})
    headers = webhooks.headers_of(delivery, b"{}", 1_000)
    for secret in (old, webhooks.secrets_of(hook)[0]):
        assert documented_check()(secret, headers, b"{}", now=1_000)


def test_the_whole_way_to_a_real_server(
    project: Project, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(outgoing, "look_up", lambda host, port: ["127.0.0.1"])
        WebhookHost.objects.update(port=receiver.port)
        Webhook.objects.update(url=f"https://{NAME}:{receiver.port}/in")
        make_version(project, 1)
        assert webhooks.deliver_one("one")
        assert WebhookDelivery.objects.get().words == outgoing.PRIVATE
        monkeypatch.setattr(outgoing, "is_public", lambda address: True)
        monkeypatch.setattr(outgoing, "trust", lambda: trusting)
        make_version(project, 2)
        assert webhooks.deliver_one("one")
    [message] = receiver.messages
    assert documented_check()(webhooks.secrets_of(hook)[0], message.headers, message.body)
    assert WebhookDelivery.objects.first().status == 204


# The page


def test_an_owner_adds_a_webhook_and_sees_its_secret_once(
    project: Project, owner: User, listed: WebhookHost, log_in: LogIn
) -> None:
    client = log_in(owner)
    added = client.post(PAGE, {"url": URL, "on_version": "on"})
    hook = Webhook.objects.get()
    [secret] = webhooks.secrets_of(hook)
    assert secret in added.text
    assert (hook.url, hook.on_version, hook.on_goal) == (URL, True, False)
    assert secret not in client.get(PAGE).text
    assert "to this address already" in client.post(PAGE, {"url": URL, "on_version": "on"}).text
    renewed = client.post(f"{PAGE}{hook.pk}/secret/")
    assert secret not in renewed.text
    assert webhooks.secrets_of(Webhook.objects.get())[0] in renewed.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"url": "http://hooks.example.org/", "on_goal": "on"}, "Write an address such as"),
        ({"url": "https://127.0.0.1/", "on_goal": "on"}, "Write an address such as"),
        ({"url": "https://hooks.example.org@169.254.169.254/", "on_goal": "on"}, "Write an address such as"),
        ({"url": "https://elsewhere.example.org/", "on_goal": "on"}, "has not listed this host"),
        ({"url": "https://hooks.example.org:444/", "on_goal": "on"}, "has not listed this host"),
        ({"url": URL}, "Choose at least one thing"),
        ({"url": URL + "\u0000", "on_goal": "on"}, "Null characters"),
        ({"url": URL + "x" * 600, "on_goal": "on"}, "at most 500 characters"),
    ],
)
def test_other_addresses_are_refused_in_words(
    fields: dict[str, str], words: str, project: Project, owner: User, listed: WebhookHost, log_in: LogIn
) -> None:
    answer = log_in(owner).post(PAGE, fields)
    assert answer.status_code == 422
    assert words in answer.text
    assert not Webhook.objects.exists()


def test_without_a_listed_host_the_page_says_whom_to_ask(project: Project, owner: User, log_in: LogIn) -> None:
    page = log_in(owner).get(PAGE).text
    assert "An administrator has to list a host first" in page
    assert "<button" not in page.split("<main")[1]


def test_an_owner_tests_switches_off_and_removes(
    project: Project, owner: User, hook: Webhook, post: Post, log_in: LogIn
) -> None:
    client, at = log_in(owner), f"{PAGE}{hook.pk}/"
    assert "on its way" in client.post(f"{at}test/", follow=True).text
    assert "already" in client.post(f"{at}test/", follow=True).text
    assert webhooks.deliver_one("one")
    assert [said["type"] for said in post.said] == ["test"]
    assert "HTTP 204" in client.get(PAGE).text
    client.post(f"{at}test/")
    client.post(f"{at}switch/")
    make_version(project, 1)
    assert not webhooks.deliver_one("one")
    assert webhooks.SWITCHED_OFF in client.get(PAGE).text
    client.post(f"{at}switch/", {"active": "on"})
    assert webhooks.deliver_one("one")
    client.post(f"{at}remove/")
    assert not Webhook.objects.exists()
    actions = list(AuditEntry.objects.filter(project=project).values_list("action", flat=True)[:2])
    assert actions == ["removed a webhook", "switched a webhook on"]


def test_a_webhook_of_another_project_is_not_found(hook: Webhook, stranger: User, log_in: LogIn) -> None:
    client = log_in(stranger)
    for what in ("secret", "switch", "test", "remove"):
        assert client.post(f"/projects/elsewhere/webhooks/{hook.pk}/{what}/").status_code == 404
    assert Webhook.objects.get().active


def test_an_administrator_lists_hosts_and_the_audit_knows_it(admin_client: Client) -> None:
    where = "/admin/modelling/webhookhost/"
    assert admin_client.post(f"{where}add/", {"host": "127.0.0.1", "port": "443"}).status_code == 200
    assert admin_client.post(f"{where}add/", {"host": NAME, "port": "443"}).status_code == 302
    host = WebhookHost.objects.get()
    admin_client.post(f"{where}{host.pk}/delete/", {"post": "yes"})
    actions = list(AuditEntry.objects.values_list("action", flat=True))
    assert actions == ["took a host for webhooks off the list", "listed a host for webhooks"]
