"""Two-factor log-in: set up, log in, recovery codes, limits, and the reset by an administrator."""

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pyotp
import pytest
from axes.models import AccessAttempt
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation.http import throttling
from annotation.models import AuditEntry, RecoveryCode, TwoFactor, User
from annotation.services import two_factor
from tests.annotation.services.privacy.test_erasure import dump_database
from tests.conftest import PASSWORD, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

PAGE, LOGIN, CODE = "/accounts/two-factor/", "/accounts/login/", "/accounts/login/code/"
NOW = 1_700_000_000


class Phone:
    """An authenticator app and the clock that both sides share."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.secret, self.now = "", NOW
        monkeypatch.setattr(two_factor.time, "time", lambda: self.now)
        monkeypatch.setattr(throttling.time, "time", lambda: self.now)

    def code(self, later: int = 0) -> str:
        return pyotp.TOTP(self.secret).at(self.now + later)

    def next_code(self) -> str:
        self.now += 30
        return self.code()


@pytest.fixture
def phone(monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(monkeypatch)


@pytest.fixture
def codes(owner: User, phone: Phone) -> list[str]:
    """The recovery codes of an account with two-factor log-in."""
    client = Client()
    client.force_login(owner)
    assert client.post(PAGE, {"action": "begin"}).status_code == 302
    phone.secret = client.get(PAGE).context["secret"]
    page = client.post(PAGE, {"action": "confirm", "code": phone.code()})
    return list(page.context["codes"])


def enter_password(client: Client, password: str = PASSWORD, **more: str) -> str:
    answer = client.post(LOGIN, {"username": "olga", "password": password, **more})
    return str(answer.get("Location", answer.status_code))


def is_logged_in(client: Client) -> bool:
    return client.get("/projects/").status_code == 200


def test_the_password_alone_no_longer_logs_in(owner: User, codes: list[str], phone: Phone) -> None:
    client = Client()
    assert enter_password(client, next="/projects/new/") == CODE
    assert not is_logged_in(client)
    wrong = client.post(CODE, {"code": "000000"})
    assert wrong.status_code == 422
    assert "This code is wrong or has been used." in wrong.text
    assert not is_logged_in(client)
    assert client.post(CODE, {"code": f" {phone.next_code()} "})["Location"] == "/projects/new/"
    assert is_logged_in(client)


def test_an_account_without_a_second_factor_logs_in_as_before(owner: User) -> None:
    client = Client()
    client.force_login(owner)
    client.post(PAGE, {"action": "begin"})  # begun, but no code was entered
    assert enter_password(Client()) == "/projects/"


def test_a_code_works_once(owner: User, codes: list[str], phone: Phone) -> None:
    code = phone.next_code()
    for expected in (302, 422):
        client = Client()
        enter_password(client)
        assert client.post(CODE, {"code": code}).status_code == expected
    earlier = phone.code(later=-30)
    enter_password(client := Client())
    assert client.post(CODE, {"code": earlier}).status_code == 422, "older than the last accepted one"


@pytest.mark.parametrize(("wrong_by", "status"), [(-30, 302), (30, 302), (-90, 422), (90, 422)])
def test_a_clock_may_be_half_a_minute_wrong(codes: list[str], phone: Phone, wrong_by: int, status: int) -> None:
    phone.now += 300
    enter_password(client := Client())
    assert client.post(CODE, {"code": phone.code(wrong_by)}).status_code == status


@pytest.mark.django_db(transaction=True)
def test_of_two_simultaneous_log_ins_with_one_code_one_succeeds(owner: User, codes: list[str], phone: Phone) -> None:
    factor, code = TwoFactor.objects.get(), phone.next_code()

    def accept(code: str) -> bool:
        try:
            return two_factor.accept_code(factor, code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(accept, [code] * 4)) == 1
        assert sum(pool.map(accept, [codes[0]] * 4)) == 1


def test_a_recovery_code_works_once_and_is_recorded(owner: User, codes: list[str]) -> None:
    assert len(set(codes)) == 10
    for expected in (302, 422):
        enter_password(client := Client())
        assert client.post(CODE, {"code": codes[3].upper().replace("-", " ")}).status_code == expected
    assert RecoveryCode.objects.count() == 9
    assert AuditEntry.objects.get(action="used a recovery code", user=owner).details == {"left": 9}


def test_neither_secret_nor_codes_are_stored_in_plain_text(codes: list[str], phone: Phone) -> None:
    stored = dump_database()
    assert phone.secret not in stored
    assert not any(code in stored or code.replace("-", "") in stored for code in codes)


def test_wrong_codes_are_limited_and_count_as_failed_log_ins(owner: User, codes: list[str], phone: Phone) -> None:
    enter_password(client := Client())
    statuses = [client.post(CODE, {"code": "000000"}).status_code for _ in range(5)]
    assert statuses == [422] * 4 + [429]
    assert client.post(CODE, {"code": phone.next_code()}).status_code == 429
    assert enter_password(Client()) == "429", "the address is locked for the account"
    assert AccessAttempt.objects.get().failures_since_start >= 5


def test_codes_are_limited_by_account(owner: User, codes: list[str], phone: Phone) -> None:
    used = sum(not throttling.too_many_code_attempts(owner.pk) for _ in range(throttling.MAX_CODE_ATTEMPTS))
    assert used == throttling.MAX_CODE_ATTEMPTS - 1, "the setup has used one"
    enter_password(client := Client())
    assert client.post(CODE, {"code": phone.next_code()}).status_code == 429


def test_a_password_change_between_password_and_code_ends_the_attempt(
    owner: User, codes: list[str], phone: Phone
) -> None:
    enter_password(client := Client())
    owner.set_password("nine green bottles on a wall")
    owner.save()
    assert client.post(CODE, {"code": phone.next_code()})["Location"] == LOGIN
    enter_password(late := Client(), "nine green bottles on a wall")
    session = late.session
    session["two_factor"] = {**session["two_factor"], "at": 0}
    session.save()
    assert late.post(CODE, {"code": phone.next_code()})["Location"] == LOGIN


def test_the_administration_uses_the_same_log_in(codes: list[str], owner: User, phone: Phone) -> None:
    User.objects.update(is_staff=True, is_superuser=True)
    client = Client()
    assert client.get("/admin/", follow=True).request["PATH_INFO"] == LOGIN
    assert client.post("/admin/login/", {"username": "olga", "password": PASSWORD}).status_code == 302
    assert client.get("/admin/").status_code == 302, "not logged in"
    enter_password(client, next="/admin/")
    assert client.post(CODE, {"code": phone.next_code()})["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_new_codes_and_switching_off_need_a_code(owner: User, codes: list[str], phone: Phone, log_in) -> None:
    client: Client = log_in(owner)
    for action in ("renew", "disable"):
        assert client.post(PAGE, {"action": action, "code": "123"}).status_code == 422
    assert client.post(PAGE, {"action": "begin"}).status_code == 200
    assert TwoFactor.objects.get().confirmed_at, "a confirmed second factor cannot be replaced without a code"
    renewed = client.post(PAGE, {"action": "renew", "code": phone.next_code()}).context["codes"]
    assert not set(renewed) & set(codes)
    enter_password(other := Client())
    assert other.post(CODE, {"code": codes[0]}).status_code == 422
    assert client.post(PAGE, {"action": "disable", "code": renewed[0]}).status_code == 302
    assert enter_password(Client()) == "/projects/"


def test_a_setup_with_a_wrong_code_is_not_switched_on(owner: User, phone: Phone, log_in) -> None:
    client: Client = log_in(owner)
    client.post(PAGE, {"action": "begin"})
    assert client.post(PAGE, {"action": "confirm", "code": "000000"}).status_code == 422
    assert two_factor.find_two_factor(owner) is None


def test_a_replaced_secret_key_leaves_the_recovery_by_command(
    owner: User, codes: list[str], phone: Phone, settings
) -> None:
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another key"
    enter_password(client := Client())
    assert client.post(CODE, {"code": phone.next_code()}).status_code == 422
    settings.SECRET_KEY_FALLBACKS = [old]
    enter_password(client := Client())
    assert client.post(CODE, {"code": phone.next_code()}).status_code == 302


def test_an_administrator_resets_it_by_command(owner: User, codes: list[str]) -> None:
    output = StringIO()
    call_command("reset_two_factor", "olga", stdout=output)
    assert output.getvalue() == "Two-factor log-in is off for olga.\n"
    assert enter_password(Client()) == "/projects/"
    assert AuditEntry.objects.filter(action="reset two-factor log-in by command", user=owner).exists()
    make_user("ben")
    call_command("reset_two_factor", "ben", stdout=output)
    assert "There was no second factor to remove for ben." in output.getvalue()
    with pytest.raises(CommandError, match="There is no account"):
        call_command("reset_two_factor", "nobody")
