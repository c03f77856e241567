"""Rate limits: counters are not forgotten before their window ends, nor kept after it."""

import pytest
from django.core.cache import cache
from django.test import Client

from annotation import services
from annotation.http import throttling
from annotation.http.client_address import TrustedProxies
from annotation.models import Project

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_throttle_clock")]

OTHERS = 1000  # Django's memory cache forgets at 300 entries


def test_a_flood_of_others_does_not_reset_the_counter_of_a_worker(project: Project) -> None:
    flooder = services.enrol(project=project)
    for _ in range(throttling.REQUESTS_PER_SECOND):
        assert not throttling.worker_is_too_fast(flooder)
    for number in range(OTHERS):
        throttling._count(f"posts-other-{number}", seconds=1)
    assert throttling.worker_is_too_fast(flooder)


def test_a_thousand_addresses_do_not_reset_the_limit_of_one(client: Client, settings) -> None:
    settings.TRUSTED_PROXIES = TrustedProxies(count=1)

    def ask(address: str) -> int:
        return client.post(
            "/accounts/reset/", {"email": f"{address}@example.org"}, headers={"X-Forwarded-For": address}
        ).status_code

    statuses = [ask("203.0.113.5") for _ in range(throttling.MAX_PASSWORD_RESETS)]
    statuses += [ask(f"198.51.{number // 250}.{number % 250}") for number in range(400)]
    assert set(statuses) == {302}
    assert ask("203.0.113.5") == 429


def test_counters_of_a_past_window_are_dropped() -> None:
    counters = throttling.MemoryCounters()
    for number in range(OTHERS):
        counters.count(f"name-{number}", seconds=60, window=1)
    assert counters.count("name-1", seconds=60, window=2) == 1
    assert len(counters._windows[60][1]) == 1


def test_limits_hold_while_the_cache_is_away(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError

    settings.RATE_LIMITS = "cache"
    monkeypatch.setattr(cache, "add", refuse)
    attempts = [throttling.too_many_password_attempts("7") for _ in range(throttling.MAX_PASSWORD_ATTEMPTS + 1)]
    assert attempts == [False] * throttling.MAX_PASSWORD_ATTEMPTS + [True]


def test_several_processes_share_the_counters_in_the_cache(settings) -> None:
    settings.RATE_LIMITS = "cache"
    for _ in range(throttling.MAX_PASSWORD_ATTEMPTS):
        throttling.too_many_password_attempts("7")
    throttling.memory.clear()  # as in another process
    assert throttling.too_many_password_attempts("7")


def test_two_hundred_workers_behind_one_address_can_join(project: Project) -> None:
    statuses = {Client().post(f"/s/{project.slug}/join/", {"consent": "on"}).status_code for _ in range(200)}
    assert statuses == {302}
    assert project.workers.count() == 200
