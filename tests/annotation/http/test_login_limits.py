"""Failed log-ins are limited by account and by address, and do not lock the owner of the account out."""

import pytest
from axes.models import AccessAttempt
from django.core import mail
from django.http import HttpResponse
from django.test import Client

from annotation.http import login_limits, throttling
from annotation.http.client_address import TrustedProxies
from annotation.models import User
from annotation.services import email
from tests.conftest import PASSWORD, make_user

pytestmark = pytest.mark.django_db

NEW = "nine green bottles on a wall"


def log_in(client: Client, username: str = "olga", password: str = "guess", address: str = "192.0.2.1") -> HttpResponse:
    return client.post(
        "/accounts/login/",
        {"username": username, "password": password},
        REMOTE_ADDR="127.0.0.1",
        headers={"X-Forwarded-For": address},
    )


@pytest.fixture(autouse=True)
def behind_a_proxy(settings) -> None:
    settings.TRUSTED_PROXIES = TrustedProxies(count=1)


def lock_account(username: str = "olga") -> None:
    """Fail from many addresses until the account is locked for every unknown device."""
    for number in range(25):
        log_in(Client(), username, address=f"198.51.100.{number}")


def test_a_stranger_does_not_lock_the_owner_out_at_another_address(owner: User) -> None:
    for _ in range(6):
        refused = log_in(Client(), address="198.51.100.1")
    assert refused.status_code == 429
    assert log_in(Client(), password=PASSWORD, address="203.0.113.5").status_code == 302


def test_guesses_from_many_addresses_lock_the_account(owner: User) -> None:
    lock_account()
    assert log_in(Client(), password=PASSWORD, address="203.0.113.5").status_code == 429


def test_guesses_at_many_accounts_lock_the_address(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "LIMITS", ((("ip_address",), 7),))
    statuses = [log_in(Client(), username=f"name-{number}").status_code for number in range(8)]
    assert statuses == [200] * 6 + [429] * 2
    assert log_in(Client(), password=PASSWORD).status_code == 429
    assert log_in(Client(), password=PASSWORD, address="203.0.113.5").status_code == 302


def test_a_known_device_can_log_in_to_a_locked_account(owner: User) -> None:
    known = Client()
    assert log_in(known, password=PASSWORD).status_code == 302
    known.post("/accounts/logout/")
    lock_account()
    assert log_in(known, password="a typing error").status_code == 200
    assert log_in(known, password=PASSWORD).status_code == 302


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_a_known_device_has_a_limit_of_its_own(owner: User) -> None:
    known = Client()
    log_in(known, password=PASSWORD)
    known.post("/accounts/logout/")
    lock_account()
    for _ in range(throttling.MAX_DEVICE_ATTEMPTS):
        log_in(known)
    assert log_in(known, password=PASSWORD).status_code == 429


def test_a_device_is_known_to_its_own_account_only(owner: User) -> None:
    make_user("mallory")
    known = Client()
    log_in(known, username="mallory", password=PASSWORD)
    [cookie] = [cookie for name, cookie in known.cookies.items() if name.startswith("concord_device_")]
    assert cookie["httponly"]
    known.post("/accounts/logout/")
    lock_account()
    renamed = Client()
    renamed.cookies[login_limits._cookie_name("olga")] = cookie.value
    assert log_in(known, password=PASSWORD).status_code == 429
    assert log_in(renamed, password=PASSWORD).status_code == 429


def test_an_emailed_link_lets_the_owner_into_a_locked_account(owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(email="olga@example.org")
    lock_account()
    client = Client()
    client.post("/accounts/reset/", {"email": "olga@example.org"})
    email._executor.submit(int).result(timeout=120)
    [link] = [line for line in mail.outbox[0].body.splitlines() if "://" in line]
    page = client.get(link, follow=True)
    client.post(page.request["PATH_INFO"], {"new_password1": NEW, "new_password2": NEW})
    assert log_in(client, password=NEW).status_code == 302


def test_the_page_names_the_way_out(owner: User) -> None:
    lock_account()
    page = log_in(Client(), password=PASSWORD).text
    assert "a browser in which you have logged in before" in page
    assert "reset your password by email" in page


def test_log_in_records_hold_the_address_behind_the_proxy(owner: User) -> None:
    log_in(Client(), address="203.0.113.5")
    assert AccessAttempt.objects.get().ip_address == "203.0.113.5"
