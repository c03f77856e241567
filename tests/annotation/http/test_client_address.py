"""The client's address: X-Forwarded-For counts only from trusted proxies."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from annotation.http.client_address import TrustedProxies, client_address

PROXY, CLIENT, FORGED = "10.0.0.7", "203.0.113.5", "198.51.100.9"


def find(settings, trusted: str, forwarded: str, peer: str = PROXY) -> str:
    settings.TRUSTED_PROXIES = TrustedProxies.parse(trusted)
    return client_address(RequestFactory().get("/", REMOTE_ADDR=peer, headers={"X-Forwarded-For": forwarded}))


def test_the_header_is_ignored_by_default(settings) -> None:
    assert TrustedProxies() == settings.TRUSTED_PROXIES
    assert find(settings, "", CLIENT) == PROXY


@pytest.mark.parametrize("trusted", ["1", "10.0.0.0/8", "127.0.0.1, 10.0.0.7"])
def test_the_address_added_by_a_trusted_proxy_is_used(settings, trusted: str) -> None:
    assert find(settings, trusted, CLIENT) == CLIENT


@pytest.mark.parametrize("trusted", ["1", "10.0.0.0/8"])
def test_an_address_that_the_client_sent_itself_is_not_used(settings, trusted: str) -> None:
    assert find(settings, trusted, f"{FORGED}, {CLIENT}") == CLIENT


@pytest.mark.parametrize("trusted", ["2", "10.0.0.0/8"])
def test_two_proxies_in_a_row_are_skipped(settings, trusted: str) -> None:
    assert find(settings, trusted, f"{FORGED}, {CLIENT}, 10.0.0.8") == CLIENT


def test_a_connection_past_the_proxy_keeps_its_own_address(settings) -> None:
    assert find(settings, "10.0.0.0/8", FORGED, peer=CLIENT) == CLIENT
    assert find(settings, "2", FORGED, peer=CLIENT) == CLIENT


@pytest.mark.parametrize("forwarded", ["", "unknown", "<script>", "1.2.3.4.5", ","])
def test_an_invalid_header_leaves_the_address_of_the_connection(settings, forwarded: str) -> None:
    assert find(settings, "1", forwarded) == PROXY


def test_one_subscriber_of_ipv6_has_one_address(settings) -> None:
    assert find(settings, "1", "2001:db8:1:2:aaaa::1") == find(settings, "1", "2001:db8:1:2:bbbb::2")
    assert find(settings, "1", "2001:db8:1:3::1") == "2001:db8:1:3::"
    assert find(settings, "1", f"::ffff:{CLIENT}") == CLIENT


def test_a_unix_socket_has_a_placeholder(settings) -> None:
    assert find(settings, "", "", peer="") == "0.0.0.0"


@pytest.mark.parametrize("text", ["proxy.example.org", "10.0.0.1/8", "-1"])
def test_an_invalid_setting_is_rejected_at_start(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="TRUSTED_PROXIES must be the number of proxies"):
        TrustedProxies.parse(text)
