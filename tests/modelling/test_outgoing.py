"""What Concord calls, and what it refuses to call, however the address is written and wherever the name leads."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelling import outgoing
from modelling.outgoing import Refused, Target, Unreachable
from tests.modelling.receiver import NAME, receiving

PUBLIC = "93.184.215.14"


@pytest.fixture
def canary() -> Iterator[socket.socket]:
    """A server inside: nobody may ever connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setblocking(False)
        yield door
        with pytest.raises(BlockingIOError):
            door.accept()


class Names:
    """A name server that gives one answer after the other, the last for ever, and counts how often it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = list(answers), 0

    def getaddrinfo(self, host: str, port: int, **_more: object) -> list[tuple[object, ...]]:
        self.asked += 1
        address = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in address.split()]


def leads_to(monkeypatch: pytest.MonkeyPatch, *answers: str) -> Names:
    names = Names(*answers)
    monkeypatch.setattr(outgoing.socket, "getaddrinfo", names.getaddrinfo)
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
    assert not outgoing.is_public(address)
    with pytest.raises(Refused, match="private network"):
        outgoing.checked([PUBLIC, address])


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"])
def test_a_public_address_is_not(address: str) -> None:
    assert outgoing.is_public(address)


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
def test_an_address_written_in_any_other_way_is_refused_before_anything_is_looked_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = leads_to(monkeypatch, PUBLIC)
    with pytest.raises(Refused, match="Write an address such as"):
        outgoing.post(url, b"{}", {})
    assert names.asked == 0


def test_the_parts_of_an_address() -> None:
    assert Target.of("HTTPS://Hooks.Example.org/In?id=5") == Target("hooks.example.org", 443, "/In?id=5")
    assert Target.of("https://hooks.example.org:8443").name == "hooks.example.org:8443"


@pytest.mark.parametrize("inside", ["127.0.0.1", "::ffff:127.0.0.1", f"{PUBLIC} 127.0.0.1"])
def test_a_name_that_leads_inside_is_refused(
    inside: str, canary: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads_to(monkeypatch, inside)
    with pytest.raises(Refused, match="private network"):
        outgoing.post(f"https://{NAME}:{canary.getsockname()[1]}/", b"{}", {})


def test_a_name_that_leads_elsewhere_a_moment_later_gains_nothing(
    canary: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: public when it is checked, inside when it would be asked again. It is not asked again."""
    names = leads_to(monkeypatch, PUBLIC, "127.0.0.1")
    connected_to = []

    def nobody_there(address: object, port: int, seconds: float) -> socket.socket:
        connected_to.append(str(address))
        raise ConnectionRefusedError

    monkeypatch.setattr(outgoing, "connected", nobody_there)
    url = f"https://{NAME}:{canary.getsockname()[1]}/"
    with pytest.raises(Unreachable):
        outgoing.post(url, b"{}", {})
    assert (names.asked, connected_to) == (1, [PUBLIC])
    with pytest.raises(Refused, match="private network"):
        outgoing.post(url, b"{}", {})
    assert connected_to == [PUBLIC]


def test_the_open_connection_is_checked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the system made of the address: nothing is said on a connection that ends inside."""
    with socket.create_server(("127.0.0.1", 0)) as inside:
        leads_inside = socket.create_connection(inside.getsockname())
        leads_to(monkeypatch, PUBLIC)
        monkeypatch.setattr(outgoing, "connected", lambda *_: leads_inside)
        with pytest.raises(Refused, match="private network"):
            outgoing.post(f"https://{NAME}/", b"{}", {})
        arrived, _address = inside.accept()
        with arrived:
            assert arrived.recv(100) == b""


def test_a_name_that_nobody_knows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_more: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(outgoing.socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match="No server of this name"):
        outgoing.post(f"https://{NAME}/", b"{}", {})


# A real exchange: only here does an address of this machine count as public -----------------------------------------


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, "127.0.0.1")
    monkeypatch.setattr(outgoing, "is_public", lambda address: address == "127.0.0.1")


@pytest.mark.usefixtures("reachable")
def test_a_message_goes_out_under_the_name_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(outgoing, "trust", lambda: trusting)
        assert outgoing.post(f"https://{NAME}:{receiver.port}/in?id=5", b'{"a":1}', {"X-Sign": "ok"}) == 204
    [message] = receiver.messages
    assert message.line == "POST /in?id=5 HTTP/1.1"
    assert message.body == b'{"a":1}'
    assert receiver.names == [NAME]
    assert (message.headers["Host"], message.headers["X-Sign"]) == (f"{NAME}:{receiver.port}", "ok")


@pytest.mark.usefixtures("reachable")
def test_a_redirect_is_an_answer_and_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: socket.socket
) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(outgoing, "trust", lambda: trusting)
        inside = f"http://127.0.0.1:{canary.getsockname()[1]}/"
        receiver.answers = [f"HTTP/1.1 302 Found\r\nLocation: {inside}\r\n\r\n".encode()]
        assert outgoing.post(f"https://{NAME}:{receiver.port}/", b"{}", {}) == 302
    assert len(receiver.messages) == 1


@pytest.mark.usefixtures("reachable")
def test_a_certificate_of_another_name_or_of_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path, name="other.example.org") as (receiver, trusting):
        url = f"https://{NAME}:{receiver.port}/"
        for context in (trusting, ssl.create_default_context()):
            monkeypatch.setattr(outgoing, "trust", lambda context=context: context)
            with pytest.raises(Unreachable, match="certificate"):
                outgoing.post(url, b"{}", {})
    assert receiver.messages == []


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200", b"x" * 5000])
def test_what_is_no_answer_is_said(answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(tmp_path) as (receiver, trusting):
        monkeypatch.setattr(outgoing, "trust", lambda: trusting)
        receiver.answers = [answer]
        with pytest.raises(Unreachable):
            outgoing.post(f"https://{NAME}:{receiver.port}/", b"{}", {})


@pytest.mark.usefixtures("reachable")
def test_a_server_that_keeps_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable, match="in time"):
        outgoing.post(f"https://{NAME}:{silent.getsockname()[1]}/", b"{}", {})
