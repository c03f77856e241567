"""The HTTP client of webhooks: refused addresses, TLS and time limits."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelling.updater.webhooks import http_client
from modelling.updater.webhooks.http_client import AddressRefused, Target, Unreachable
from tests.modelling.updater.webhooks.receiver import NAME, receiving

PUBLIC = "93.184.215.14"


@pytest.fixture
def canary() -> Iterator[socket.socket]:
    """A private server that must not receive a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


class FakeNameServer:
    """A fake name server that gives the prepared answers in turn and counts the queries."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.queries = list(answers), 0

    def getaddrinfo(self, host: str, port: int, **_more: object) -> list[tuple[object, ...]]:
        self.queries += 1
        address = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in address.split()]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: str) -> FakeNameServer:
    names = FakeNameServer(*answers)
    monkeypatch.setattr(http_client.socket, "getaddrinfo", names.getaddrinfo)
    return names


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.10", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "192.0.0.8", "192.0.2.1", "198.18.0.1", "203.0.113.7", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a00:1", "::7f00:1",
        "2002:7f00:1::", "2002:a9fe:a9fe::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2001::1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not http_client.is_public(address)
    with pytest.raises(AddressRefused, match="private network"):
        http_client.first_public_address([PUBLIC, address])


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"])
def test_a_public_address_is_accepted(address: str) -> None:
    assert http_client.is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/", "ftp://hooks.example.org/", "file:///etc/passwd", "hooks.example.org",
        "https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "https://0x7f000001/",
        "https://0177.0.0.1/", "https://127.1/", "https://localhost/", "https://169.254.169.254/latest/meta-data/",
        "//hooks.example.org/", "https://hooks.example.org@127.0.0.1/", "https://user:word@hooks.example.org/",
        "https://127.0.0.1\\@hooks.example.org/",
        "https://hooks.example.org#@127.0.0.1/", "https://hooks.example.org\\.evil.example/",
        "https://hooks.example.org /",
        "https://hooks.example.org/\r\nHost: evil.example", "https://hooks.example.org/a b", "https://hooks.example.org/\t",
        "https://hooks.example.org:0/", "https://hooks.example.org:99999/", "https://hooks.example.org:443:80/",
        "https://hooks.example.org./", "https://-hooks.example.org/", "https://bücher.example/", "https://ｈooks.example.org/",
        "https://hooks.example.org?x=1", "https://hooks.example.org/#part", "", "https://", "https:///path",
        f"https://{'a' * 64}.example/", f"https://{'a.' * 130}example/",
    ],
)  # fmt: skip
def test_other_urls_are_refused_before_the_name_is_resolved(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = resolve_to(monkeypatch, PUBLIC)
    with pytest.raises(AddressRefused, match="Enter an address such as"):
        http_client.post(url, b"{}", {})
    assert names.queries == 0


def test_a_url_is_split_into_its_parts() -> None:
    assert Target.parse("HTTPS://Hooks.Example.org/In?id=5") == Target("hooks.example.org", 443, "/In?id=5")
    assert Target.parse("https://hooks.example.org:8443").name == "hooks.example.org:8443"


@pytest.mark.parametrize("inside", ["127.0.0.1", "::ffff:127.0.0.1", f"{PUBLIC} 127.0.0.1"])
def test_a_name_that_resolves_to_a_private_address_is_refused(
    inside: str, canary: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, inside)
    with pytest.raises(AddressRefused, match="private network"):
        http_client.post(f"https://{NAME}:{canary.getsockname()[1]}/", b"{}", {})


def test_dns_rebinding_does_not_work(canary: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name resolves to a public address first and to a private one later; it is resolved only once."""
    names = resolve_to(monkeypatch, PUBLIC, "127.0.0.1")
    connected_to = []

    def refuse(address: object, port: int, seconds: float) -> socket.socket:
        connected_to.append(str(address))
        raise ConnectionRefusedError

    monkeypatch.setattr(http_client, "connect", refuse)
    url = f"https://{NAME}:{canary.getsockname()[1]}/"
    with pytest.raises(Unreachable):
        http_client.post(url, b"{}", {})
    assert (names.queries, connected_to) == (1, [PUBLIC])
    with pytest.raises(AddressRefused, match="private network"):
        http_client.post(url, b"{}", {})
    assert connected_to == [PUBLIC]


def test_the_address_of_the_open_connection_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent on a connection to a private address."""
    with socket.create_server(("127.0.0.1", 0)) as inside:
        private_connection = socket.create_connection(inside.getsockname())
        resolve_to(monkeypatch, PUBLIC)
        monkeypatch.setattr(http_client, "connect", lambda *_: private_connection)
        with pytest.raises(AddressRefused, match="private network"):
            http_client.post(f"https://{NAME}/", b"{}", {})
        arrived, _address = inside.accept()
        with arrived:
            assert arrived.recv(100) == b""


def test_an_unknown_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_more: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(http_client.socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match="could not be resolved"):
        http_client.post(f"https://{NAME}/", b"{}", {})


# With a real server: a local address counts as public only here ----------------------------------------------------


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1")
    monkeypatch.setattr(http_client, "is_public", lambda address: address == "127.0.0.1")


@pytest.mark.usefixtures("reachable")
def test_a_message_is_sent_with_the_host_name_of_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(http_client, "tls_context", lambda: trusting)
        assert http_client.post(f"https://{NAME}:{receiver.port}/in?id=5", b'{"a":1}', {"X-Sign": "ok"}) == 204
    [message] = receiver.messages
    assert message.line == "POST /in?id=5 HTTP/1.1"
    assert message.body == b'{"a":1}'
    assert receiver.names == [NAME]
    assert (message.headers["Host"], message.headers["X-Sign"]) == (f"{NAME}:{receiver.port}", "ok")


@pytest.mark.usefixtures("reachable")
def test_a_redirect_is_returned_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: socket.socket
) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(http_client, "tls_context", lambda: trusting)
        inside = f"http://127.0.0.1:{canary.getsockname()[1]}/"
        receiver.answers = [f"HTTP/1.1 302 Found\r\nLocation: {inside}\r\n\r\n".encode()]
        assert http_client.post(f"https://{NAME}:{receiver.port}/", b"{}", {}) == 302
    assert len(receiver.messages) == 1


@pytest.mark.usefixtures("reachable")
def test_an_untrusted_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path, name="other.example.org") as (receiver, trusting):
        url = f"https://{NAME}:{receiver.port}/"
        for context in (trusting, ssl.create_default_context()):
            monkeypatch.setattr(http_client, "tls_context", lambda context=context: context)
            with pytest.raises(Unreachable, match="certificate"):
                http_client.post(url, b"{}", {})
    assert receiver.messages == []


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200", b"x" * 5000])
def test_an_invalid_response_is_reported(answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(http_client, "tls_context", lambda: trusting)
        receiver.answers = [answer]
        with pytest.raises(Unreachable):
            http_client.post(f"https://{NAME}:{receiver.port}/", b"{}", {})


@pytest.mark.usefixtures("reachable")
def test_a_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable, match="in time"):
        http_client.post(f"https://{NAME}:{silent.getsockname()[1]}/", b"{}", {})
