"""Links that work like passwords, codes and query strings are masked in every log line."""

import http.client
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from benchmarks.load.installation import ROOT, Installation, die_with_parent
from benchmarks.load.waiting import wait_until
from config.monitoring import json_logging
from config.monitoring.json_logging import LOGGED_PARAMETERS, PARAMETER, JsonFormatter, mask_private

CANARY = "c4n4ry"


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern)


def private_addresses() -> list[str]:
    """An address of every route with a private parameter, which is the canary."""
    json_logging.load_private_paths()
    found = sorted({route for route in routes(get_resolver().url_patterns) if not route.startswith("/admin/")})
    return [
        PARAMETER.sub(lambda match: "1" if match[1] in LOGGED_PARAMETERS else f"{CANARY}-{match[1]}", route)
        for route in found
        if set(PARAMETER.findall(route)) - LOGGED_PARAMETERS
    ]


def format_message(message: str, *args: object) -> str:
    return JsonFormatter().format(logging.LogRecord("x", logging.ERROR, "", 0, message, args, None))


def test_every_route_with_a_token_or_code_is_masked() -> None:
    addresses = private_addresses()
    for needed in (f"/invitations/{CANARY}-token/", f"/accounts/reset/{CANARY}-uidb64/{CANARY}-token/"):
        assert needed in addresses
    for address in addresses:
        assert CANARY not in mask_private(address), address
        assert CANARY not in mask_private(address.rstrip("/")), address
        assert CANARY not in format_message("Internal Server Error: %s", f"https://study.example.org{address}?x=1")


def test_public_names_and_numbers_stay_readable() -> None:
    json_logging.load_private_paths()
    for path in ("/s/pets/judgements/", "/projects/pets/items/7/", "/accounts/reset/sent/", "/api/v1/projects/pets"):
        assert mask_private(path) == path
    assert mask_private("/projects/pets/workers/abc/erase/") == "/projects/pets/workers/*/erase/"


def test_query_strings_are_masked() -> None:
    assert mask_private('"GET /s/pets/?PROLIFIC_PID=5f00 HTTP/1.1" 200') == '"GET /s/pets/?* HTTP/1.1" 200'


def test_the_traceback_of_an_error_is_masked() -> None:
    json_logging.load_private_paths()
    try:
        raise ValueError(f"cannot open /invitations/{CANARY}/")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert "cannot open /invitations/*/" in line["error"]


@pytest.mark.django_db
def test_a_csrf_failure_is_logged_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        assert Client(enforce_csrf_checks=True).post(f"/invitations/{CANARY}/").status_code == 403
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert any("Forbidden" in line for line in lines)
    assert not any(CANARY in line for line in lines)


@pytest.mark.slow
def test_uvicorn_with_verbose_logging_logs_no_secret(tmp_path: Path) -> None:
    """uvicorn started directly, with its access log and at log level trace."""
    with Installation(tmp_path) as server:
        server.create_tables()
        command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(server.port)]
        command += ["--lifespan", "off", "--log-level", "trace", "--access-log"]
        with server.log.open("wb") as log:
            options = {"cwd": ROOT, "stdout": log, "stderr": log, "start_new_session": True}
            environment = server.environment() | {"LOG_LEVEL": "DEBUG"}
            server.process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent, **options)
        wait_until(server.is_ready, 300, "the server did not respond")
        for path in (f"/invitations/{CANARY}/?{CANARY}=1", f"/accounts/reset/{CANARY}/{CANARY}/", "/ws/projects/x/"):
            request_with_cookie(server.port, path)
        written = server.log.read_text()
    assert re.search(r'"path": "/invitations/\*/"', written), written
    assert CANARY not in written


def request_with_cookie(port: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers = {"Cookie": f"sessionid={CANARY}", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    connection.request("GET", path, headers=headers | (upgrade if path.startswith("/ws/") else {}))
    connection.getresponse().read()
    connection.close()
