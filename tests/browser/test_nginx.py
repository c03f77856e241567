"""A pair is judged and a live page followed through nginx with the shipped configuration, and its limits hold."""

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from benchmarks.load.database import query
from tests.browser.dashboards.live_page import log_in
from tests.browser.helpers.nginx import ProxiedServer
from tests.browser.helpers.remote_server import server_profile

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SECONDS = 60
STUDY = "from tests.browser.dashboards.live_page import make_watched_study; make_watched_study()"
LAST_FAILURE = "SELECT ip_address FROM axes_accessattempt ORDER BY id DESC LIMIT 1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedServer]:
    with server_profile(tmp_path_factory.mktemp("nginx"), ProxiedServer) as server, server:
        server.run_python(STUDY)
        server.start("--no-updater", "--workers", "2")
        with server.proxying():
            yield server


def connect(server: ProxiedServer) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", server.https_port), timeout=SECONDS)
    return ssl._create_unverified_context().wrap_socket(plain, server_hostname="localhost")


def ask(server: ProxiedServer, method: str, path: str, **options: Any) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(
        "localhost", server.https_port, timeout=SECONDS, context=ssl._create_unverified_context()
    )
    connection.request(method, path, **options)
    response = connection.getresponse()
    response.body = response.read()  # type: ignore[attr-defined]
    connection.close()
    return response


def test_a_pair_is_judged_and_a_live_page_follows_through_nginx(server: ProxiedServer, browser: Browser) -> None:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.clock.install()
    page.goto(f"{server.address}/s/pets/")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-choice=left]")).to_be_enabled()
    expect(page.locator("#count")).to_have_text(re.compile(r"0 / \d+"))
    page.clock.fast_forward(350)  # the page ignores clicks in the first 300 ms of a pair
    page.get_by_role("button", name="First").click()
    expect(page.locator("#saved")).to_be_visible()
    assert query(server.database_url, "SELECT source FROM annotation_judgement") == [("browser",)]
    cookies = {cookie["name"]: cookie["secure"] for cookie in context.cookies()}
    assert all(cookies.values())
    assert any(name.startswith("__Host-concord_worker") for name in cookies)
    researcher = browser.new_context(ignore_https_errors=True).new_page()
    log_in(researcher, server.address)
    expect(researcher.locator("#live")).to_have_attribute("data-state", "live")
    server.publish(2)
    expect(researcher.get_by_text("Version 2, from")).to_be_visible()


def test_plain_http_is_redirected_to_the_configured_name(server: ProxiedServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=SECONDS)
    connection.request("GET", "/s/pets/?x=1", headers={"Host": "localhost"})
    response = connection.getresponse()
    assert (response.status, response.headers["Location"]) == (301, f"{server.address}/s/pets/?x=1")
    connection.close()
    connection.request("GET", "/", headers={"Host": "evil.example"})
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()


def test_responses_are_those_of_the_application(server: ProxiedServer) -> None:
    page = ask(server, "GET", "/accounts/login/")
    assert page.status == 200
    assert page.headers["Strict-Transport-Security"].startswith("max-age=31536000")
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert page.headers["Server"] == "nginx"
    style = page.body.decode().split('rel="stylesheet" href="')[1].split('"')[0]
    static = ask(server, "GET", style, headers={"Accept-Encoding": "gzip"})
    assert static.status == 200
    assert static.headers["Content-Encoding"] == "gzip"
    assert static.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert static.headers["X-Content-Type-Options"] == "nosniff"


def test_static_files_that_nginx_does_not_have_come_from_concord(server: ProxiedServer) -> None:
    """This is how docs/studies.md sets it up, without STATIC_ROOT."""
    (server.files_of_nginx / "judge.js").unlink()
    response = ask(server, "GET", "/static/judge.js")
    assert (response.status, response.headers["Content-Type"]) == (200, 'text/javascript; charset="utf-8"')
    assert ask(server, "GET", "/static/nothing.js").status == 404


@pytest.mark.parametrize(
    "path", ["/static../secret_key", "/static/../secret_key", "/static/%2e%2e/secret_key", "/.env"]
)
def test_no_file_beside_the_static_files_is_served(server: ProxiedServer, path: str) -> None:
    assert (server.folder / "secret_key").exists()
    assert ask(server, "GET", path).status in (400, 404)


def test_forwarded_headers_of_clients_are_overwritten(server: ProxiedServer) -> None:
    forged = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example"}
    page = ask(server, "GET", "/accounts/login/", headers=forged)
    assert page.status == 200, "not redirected: the scheme is that of the proxy"
    cookie = page.headers["Set-Cookie"].split(";")[0]
    token = page.body.decode().split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    body = f"csrfmiddlewaretoken={token}&username=nobody&password=wrong"
    form = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie, "Referer": f"{server.address}/"}
    assert ask(server, "POST", "/accounts/login/", body=body, headers={**forged, **form}).status == 200
    assert str(query(server.database_url, LAST_FAILURE)[0][0]) == "127.0.0.1"
    with pytest.raises(http.client.RemoteDisconnected):
        ask(server, "GET", "/", headers={"Host": "evil.example"})


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/s/pets/judgements/", 2_000_000, 413),
        ("/projects/pets/items/import/", 60_000_000, 413),
        ("/projects/pets/items/import/", 2_000_000, 403),
    ],
)
def test_large_bodies_are_refused_before_they_are_read(
    server: ProxiedServer, path: str, size: int, status: int
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(head.encode())
        if status != 413:
            connection.sendall(b"x" * size)
        assert connection.recv(12) == f"HTTP/1.1 {status}".encode()


def test_large_and_slow_heads_are_refused(server: ProxiedServer) -> None:
    assert ask(server, "GET", "/healthz", headers={"Cookie": "x" * 7000}).status == 200
    assert ask(server, "GET", "/healthz", headers={"Cookie": "x" * 9000}).status == 400
    assert ask(server, "GET", "/healthz", headers={f"X-{n}": "x" * 4000 for n in range(9)}).status == 400
    assert ask(server, "GET", "/" + "x" * 9000).status == 414
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        assert connection.recv(100) == b"", "the connection was not closed"


def test_while_the_application_is_restarted_clients_are_told_to_retry(server: ProxiedServer) -> None:
    server.kill()
    try:
        answer = ask(server, "GET", "/s/pets/")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert b"Try again in a few seconds" in answer.body
        sent = ask(server, "POST", "/s/pets/judgements/", body=json.dumps({}))
        assert sent.status == 503
    finally:
        server.start("--no-updater", "--workers", "2")
    assert ask(server, "GET", "/readyz").status == 503  # without an updater
    assert ask(server, "GET", "/healthz").status == 200
