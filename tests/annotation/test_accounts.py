"""A researcher's password: changed, forgotten, set anew; and what nobody learns on the way."""

from collections.abc import Callable

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from annotation import letters, throttling
from annotation.models import AuditEntry, User
from config.mail import Mail
from modelling.tokens import find_token, make_token
from tests.conftest import PASSWORD, make_user

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
NEW = "nine green bottles on a wall"


@pytest.fixture
def person(db: None) -> User:
    return make_user("paula", email="paula@example.org")


def delivered() -> list[mail.EmailMessage]:
    """Every letter that was posted until now."""
    letters._sender.submit(int).result(timeout=30)
    return mail.outbox


def link_in(letter: mail.EmailMessage) -> str:
    [line] = [line for line in letter.body.splitlines() if "://" in line]
    return line


def ask(client: Client, email: str, **more: str):
    return client.post("/accounts/reset/", {"email": email}, **more)


# Changing it


def test_a_changed_password_ends_every_other_session(person: User, log_in: LogIn) -> None:
    here, elsewhere = log_in(person), log_in(person)
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    changed = here.post("/accounts/password/", form, follow=True)
    assert "Your password is changed." in changed.text
    assert here.get("/projects/").status_code == 200
    assert elsewhere.get("/projects/")["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"old_password": "guess", "new_password1": NEW, "new_password2": NEW}, "entered incorrectly"),
        ({"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}, "too short"),
        ({"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW + "."}, "didn’t match"),
    ],
)
def test_a_wrong_or_weak_one_changes_nothing(form: dict[str, str], words: str, person: User, log_in: LogIn) -> None:
    assert words in log_in(person).post("/accounts/password/", form).text
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


@pytest.mark.usefixtures("no_minute_passes")
def test_whoever_finds_an_open_browser_cannot_guess_for_long(person: User, log_in: LogIn) -> None:
    client = log_in(person)
    for _ in range(throttling.GUESSES):
        client.post("/accounts/password/", {"old_password": "guess"})
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    assert client.post("/accounts/password/", form).status_code == 429


# Setting it anew


def test_a_link_by_letter_sets_a_new_password_once(person: User, client: Client, log_in: LogIn) -> None:
    elsewhere = log_in(person)
    assert "Look into your mail" in client.post("/accounts/reset/", {"email": "paula@example.org"}, follow=True).text
    [letter] = delivered()
    assert letter.to == ["paula@example.org"]
    link = link_in(letter)
    page = client.get(link, follow=True)
    form = {"new_password1": NEW, "new_password2": NEW}
    done = client.post(page.request["PATH_INFO"], form, follow=True)
    assert "Your new password is set." in done.text
    assert client.login(username="paula", password=NEW, request=done.wsgi_request)
    assert elsewhere.get("/projects/").status_code == 302
    assert Client().get(link, follow=True).status_code == 410


def test_a_password_set_by_letter_revokes_the_tokens_and_a_changed_one_tells_that_they_stay(
    person: User, client: Client, log_in: LogIn
) -> None:
    """Who reads another's mail, or has their password, may have made a token; who changes theirs has scripts."""
    _token, words = make_token(user=person, name="script", scope="read", days=7)
    form = {"new_password1": NEW, "new_password2": NEW}
    here = log_in(person)
    assert "Your API tokens go on working" in here.get("/accounts/password/").text
    here.post("/accounts/password/", {"old_password": PASSWORD, **form})
    assert find_token(words) is not None
    ask(client, "paula@example.org")
    page = client.get(link_in(delivered()[0]), follow=True)
    assert "Your API tokens are revoked" in page.text
    client.post(page.request["PATH_INFO"], {"new_password1": PASSWORD, "new_password2": PASSWORD})
    assert find_token(words) is None
    assert AuditEntry.objects.filter(action="revoked an API token", user=person).count() == 1


def test_a_weak_new_password_is_explained(person: User, client: Client) -> None:
    ask(client, "paula@example.org")
    page = client.get(link_in(delivered()[0]), follow=True)
    answer = client.post(page.request["PATH_INFO"], {"new_password1": "short", "new_password2": "short"})
    assert answer.status_code == 422
    assert "too short" in answer.text


def test_who_has_no_account_is_told_the_same_and_gets_no_letter(person: User, client: Client) -> None:
    known, unknown = ask(client, "paula@example.org"), ask(client, "nobody@example.org")
    assert (known.status_code, known["Location"]) == (unknown.status_code, unknown["Location"])
    assert len(delivered()) == 1


def test_the_letter_is_written_beside_the_request(person: User, client: Client, monkeypatch) -> None:
    """Else the time an answer takes would tell who has an account."""
    posted = []
    monkeypatch.setattr(letters, "later", lambda *args, **more: posted.append(args))
    monkeypatch.setattr("django.template.loader.get_template", None)
    assert ask(client, "paula@example.org").status_code == 302
    assert len(posted) == 1


@pytest.mark.usefixtures("no_minute_passes")
def test_no_mailbox_is_flooded_and_the_answer_stays_the_same(person: User, client: Client) -> None:
    answers = {ask(client, email).status_code for email in ["paula@example.org", "PAULA@example.org"] * 4}
    assert answers == {302}
    assert len(delivered()) == throttling.LETTERS


@pytest.mark.usefixtures("no_minute_passes")
def test_one_address_asks_only_so_often(client: Client) -> None:
    answers = [ask(client, f"a{number}@example.org").status_code for number in range(throttling.RESETS + 1)]
    assert answers == [302] * throttling.RESETS + [429]


@pytest.mark.parametrize("header", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_links_lead_to_the_configured_address_whatever_the_request_claims(
    header: str, person: User, client: Client, settings
) -> None:
    """B59."""
    settings.PUBLIC_ADDRESS = "https://study.example.org"
    answer = ask(client, "paula@example.org", **{header: "evil.example"})
    assert answer.status_code == (400 if header == "HTTP_HOST" else 302)
    ask(client, "paula@example.org")
    assert {link_in(letter).split("/accounts/")[0] for letter in delivered()} == {"https://study.example.org"}


def test_without_one_links_lead_to_the_host_that_was_asked(person: User, client: Client) -> None:
    ask(client, "paula@example.org", HTTP_X_FORWARDED_HOST="evil.example")
    assert link_in(delivered()[0]).startswith("http://testserver/accounts/reset/")


def test_a_letter_that_cannot_be_sent_is_a_line_in_the_log_without_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(*args: object) -> None:
        raise OSError("paula@example.org")

    letters.later(away)
    delivered()
    assert "a letter could not be sent: OSError" in caplog.text
    assert "paula" not in caplog.text


def test_the_key_of_a_letter_is_in_no_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="concord.request"):
        client.get("/accounts/reset/MQ/a-key/")
        client.post("/invitations/another-key/")
    paths = [record.path for record in caplog.records if record.name == "concord.request"]
    assert paths == ["/accounts/reset/*/", "/invitations/*/"]
    assert "key" not in caplog.text


# How letters leave


def test_without_a_mail_server_letters_are_printed() -> None:
    assert Mail.of("").backend == "django.core.mail.backends.console.EmailBackend"


def test_a_mail_server_is_one_address() -> None:
    found = Mail.of("smtp+tls://me%40example.org:p%2Fw@mail.example.org")
    assert (found.host, found.port, found.user, found.password) == ("mail.example.org", 587, "me@example.org", "p/w")
    assert (found.starttls, found.tls) == (True, False)
    assert (Mail.of("smtps://mail.example.org").tls, Mail.of("smtps://mail.example.org").port) == (True, 465)


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail.example.org", "smtp://"])
def test_any_other_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL must look like"):
        Mail.of(url)
