"""A local HTTPS server that receives webhooks, with its own certificate."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NAME = "hooks.example.org"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"
PIECE = 10  # bytes sent at once: a status line may arrive in several pieces


@dataclass
class Message:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """The received messages and server names, and the prepared responses."""

    port: int
    answers: list[bytes] = field(default_factory=lambda: [OK])
    messages: list[Message] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)


def make_certificate(folder: Path, name: str = NAME) -> tuple[Path, Path]:
    """Create a key and a self-signed certificate for this name."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*make, "-keyout", key, "-out", certificate, *names], check=True, capture_output=True)
    return key, certificate


@contextmanager
def receiving(folder: Path, name: str = NAME) -> Iterator[tuple[Receiver, ssl.SSLContext]]:
    """Run a receiver; yield it with a TLS context that trusts its certificate."""
    key, certificate = make_certificate(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiver = Receiver(server.getsockname()[1])
        context.sni_callback = lambda _connection, called, _context: receiver.names.append(called)
        threading.Thread(target=_serve, args=(server, context, receiver), daemon=True).start()
        yield receiver, ssl.create_default_context(cafile=str(certificate))


def _serve(server: socket.socket, context: ssl.SSLContext, receiver: Receiver) -> None:
    while True:
        try:
            plain, _address = server.accept()
        except OSError:
            return  # the server was closed
        try:
            with context.wrap_socket(plain, server_side=True) as secure:
                receiver.messages.append(_read(secure))
                answer = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                for start in range(0, len(answer), PIECE):
                    secure.sendall(answer[start : start + PIECE])
        except OSError:
            continue  # the client rejected the certificate


def _read(secure: ssl.SSLSocket) -> Message:
    with secure.makefile("rb") as incoming:
        line = incoming.readline().decode().strip()
        headers = {}
        while header := incoming.readline().decode().strip():
            name, _colon, value = header.partition(": ")
            headers[name] = value
        return Message(line, headers, incoming.read(int(headers.get("Content-Length", 0))))
