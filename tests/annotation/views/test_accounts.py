"""Changing and resetting a researcher's password, and sending email."""

from collections.abc import Callable

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from annotation.http import throttling
from annotation.models import AuditEntry, User
from annotation.services import email as email_service
from config.settings.email import EmailServer
from modelling.web.api.tokens import create_token, find_token
from tests.conftest import PASSWORD, make_user

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
NEW = "nine green bottles on a wall"


@pytest.fixture
def paula(db: None) -> User:
    return make_user("paula", email="paula@example.org")


def sent_emails() -> list[mail.EmailMessage]:
    """All emails, after the background sender has finished."""
    email_service._executor.submit(int).result(timeout=120)
    return mail.outbox


def find_link(message: mail.EmailMessage) -> str:
    [line] = [line for line in message.body.splitlines() if "://" in line]
    return line


def request_reset(client: Client, email: str, **headers: str):
    return client.post("/accounts/reset/", {"email": email}, **headers)


# Change


def test_a_changed_password_ends_all_other_sessions(paula: User, log_in: LogIn) -> None:
    here, elsewhere = log_in(paula), log_in(paula)
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    changed = here.post("/accounts/password/", form, follow=True)
    assert "Your password was changed." in changed.text
    assert here.get("/projects/").status_code == 200
    assert elsewhere.get("/projects/")["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"old_password": "guess", "new_password1": NEW, "new_password2": NEW}, "entered incorrectly"),
        ({"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}, "too short"),
        ({"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW + "."}, "didn’t match"),
    ],
)
def test_a_wrong_or_weak_password_changes_nothing(
    form: dict[str, str], message: str, paula: User, log_in: LogIn
) -> None:
    assert message in log_in(paula).post("/accounts/password/", form).text
    paula.refresh_from_db()
    assert paula.check_password(PASSWORD)


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_guessing_the_old_password_is_throttled(paula: User, log_in: LogIn) -> None:
    client = log_in(paula)
    for _ in range(throttling.MAX_PASSWORD_ATTEMPTS):
        client.post("/accounts/password/", {"old_password": "guess"})
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    assert client.post("/accounts/password/", form).status_code == 429


# Reset


def test_an_emailed_link_sets_a_new_password_once(paula: User, client: Client, log_in: LogIn) -> None:
    elsewhere = log_in(paula)
    assert "Check your email" in client.post("/accounts/reset/", {"email": "paula@example.org"}, follow=True).text
    [message] = sent_emails()
    assert message.to == ["paula@example.org"]
    link = find_link(message)
    page = client.get(link, follow=True)
    form = {"new_password1": NEW, "new_password2": NEW}
    done = client.post(page.request["PATH_INFO"], form, follow=True)
    assert "Your new password is set." in done.text
    assert client.login(username="paula", password=NEW, request=done.wsgi_request)
    assert elsewhere.get("/projects/").status_code == 302
    assert Client().get(link, follow=True).status_code == 410


def test_a_reset_revokes_api_tokens_and_a_change_keeps_them(paula: User, client: Client, log_in: LogIn) -> None:
    """After a reset, tokens may belong to an intruder; after a change, the user's scripts must keep working."""
    _token, secret = create_token(user=paula, name="script", scope="read", days=7)
    form = {"new_password1": NEW, "new_password2": NEW}
    here = log_in(paula)
    assert "Your API tokens keep working" in here.get("/accounts/password/").text
    here.post("/accounts/password/", {"old_password": PASSWORD, **form})
    assert find_token(secret) is not None
    request_reset(client, "paula@example.org")
    page = client.get(find_link(sent_emails()[0]), follow=True)
    assert "your API tokens revoked" in page.text
    client.post(page.request["PATH_INFO"], {"new_password1": PASSWORD, "new_password2": PASSWORD})
    assert find_token(secret) is None
    assert AuditEntry.objects.filter(action="revoked an API token", user=paula).count() == 1


def test_a_weak_new_password_is_explained(paula: User, client: Client) -> None:
    request_reset(client, "paula@example.org")
    page = client.get(find_link(sent_emails()[0]), follow=True)
    response = client.post(page.request["PATH_INFO"], {"new_password1": "short", "new_password2": "short"})
    assert response.status_code == 422
    assert "too short" in response.text


def test_an_unknown_address_gets_the_same_response_and_no_email(paula: User, client: Client) -> None:
    known, unknown = request_reset(client, "paula@example.org"), request_reset(client, "nobody@example.org")
    assert (known.status_code, known["Location"]) == (unknown.status_code, unknown["Location"])
    assert len(sent_emails()) == 1


def test_the_email_is_sent_in_the_background(paula: User, client: Client, monkeypatch) -> None:
    """Otherwise the response time would reveal whether an account exists."""
    queued = []
    monkeypatch.setattr(email_service, "run_in_background", lambda *args, **kwargs: queued.append(args))
    monkeypatch.setattr("django.template.loader.get_template", None)
    assert request_reset(client, "paula@example.org").status_code == 302
    assert len(queued) == 1


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_emails_to_one_address_are_limited_with_the_same_response(paula: User, client: Client) -> None:
    statuses = {request_reset(client, email).status_code for email in ["paula@example.org", "PAULA@example.org"] * 4}
    assert statuses == {302}
    assert len(sent_emails()) == throttling.MAX_EMAILS


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_reset_requests_are_throttled_by_ip_address(client: Client) -> None:
    statuses = [
        request_reset(client, f"a{number}@example.org").status_code
        for number in range(throttling.MAX_PASSWORD_RESETS + 1)
    ]
    assert statuses == [302] * throttling.MAX_PASSWORD_RESETS + [429]


@pytest.mark.parametrize("header", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_links_use_the_configured_address_not_the_host_header(
    header: str, paula: User, client: Client, settings
) -> None:
    settings.PUBLIC_ADDRESS = "https://study.example.org"
    response = request_reset(client, "paula@example.org", **{header: "evil.example"})
    assert response.status_code == (400 if header == "HTTP_HOST" else 302)
    request_reset(client, "paula@example.org")
    assert {find_link(message).split("/accounts/")[0] for message in sent_emails()} == {"https://study.example.org"}


def test_without_a_configured_address_links_use_the_allowed_host(paula: User, client: Client) -> None:
    request_reset(client, "paula@example.org", HTTP_X_FORWARDED_HOST="evil.example")
    assert find_link(sent_emails()[0]).startswith("http://testserver/accounts/reset/")


def test_a_failed_email_is_logged_without_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*args: object) -> None:
        raise OSError("paula@example.org")

    email_service.run_in_background(fail)
    sent_emails()
    assert "an email could not be sent: OSError" in caplog.text
    assert "paula" not in caplog.text


def test_link_tokens_are_not_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="concord.request"):
        client.get("/accounts/reset/MQ/a-key/")
        client.post("/invitations/another-key/")
    paths = [record.path for record in caplog.records if record.name == "concord.request"]
    assert paths == ["/accounts/reset/*/*/", "/invitations/*/"]
    assert "key" not in caplog.text


# Email settings


def test_without_a_mail_server_emails_are_printed() -> None:
    assert EmailServer.from_url("").backend == "django.core.mail.backends.console.EmailBackend"


def test_a_mail_server_is_configured_by_one_url() -> None:
    found = EmailServer.from_url("smtp+tls://me%40example.org:p%2Fw@mail.example.org")
    assert (found.host, found.port, found.user, found.password) == ("mail.example.org", 587, "me@example.org", "p/w")
    assert (found.starttls, found.tls) == (True, False)
    assert (
        EmailServer.from_url("smtps://mail.example.org").tls,
        EmailServer.from_url("smtps://mail.example.org").port,
    ) == (True, 465)


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail.example.org", "smtp://"])
def test_an_invalid_email_url_is_rejected_at_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL must look like"):
        EmailServer.from_url(url)
