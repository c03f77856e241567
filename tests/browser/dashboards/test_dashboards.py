"""Researcher pages in a browser: live updates, recovery after interruptions, accessibility on every screen."""

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, WebSocketRoute, expect

from annotation import services
from annotation.models import EventHead, Project, User
from modelling.dashboards.common.freshness import get_freshness
from modelling.models import ModelSnapshot, ScoreboardEntry, SettingsSearch, UpdateState
from modelling.training import versions
from modelling.updater import settings_search
from modelling.updater.update import update_one
from modelling.web import live
from tests.browser.dashboards.live_page import log_in, make_watched_study, publish, submit_login
from tests.browser.helpers.page_checks import find_page_problems, violations
from tests.browser.helpers.remote_server import RemoteServer, run_remote_server
from tests.modelling.samples.two_camps import make_fitted_study

DEADLINE = 60_000  # ms; generous, since the machine may be busy
MINUTE = 60_000
LONGEST_DELAY = 30_000  # ms; more than the longest delay between two attempts to connect
SILENCE = 46_000  # ms; the page gives a socket up after 45 seconds
PAUSED = "#live-paused"
# Record which versions the page has shown, and whether it was reloaded.
OBSERVER = """
() => {
  window.notReloaded = true;
  window.seen = {};
  const look = () => {
    const shown = document.getElementById("status")?.textContent.match(/Version (\\d+), from/);
    if (shown) window.seen[shown[1]] = true;
  };
  new MutationObserver(look).observe(document.getElementById("live"), { childList: true, subtree: true });
  look();
}
"""


@pytest.fixture
def embedded(served: str, transactional_db: None) -> str:
    """The address of the embedded profile with the watched study."""
    make_watched_study()
    return served


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteServer]:
    """The server profile with the watched study."""
    with run_remote_server(tmp_path_factory.mktemp("remote")) as running:
        yield running


def open_live_page(context: BrowserContext, address: str, path: str = "ranking/") -> Page:
    """Open a page and wait for its first live message."""
    page = context.new_page()
    page.clock.install()
    log_in(page, address)
    page.goto(f"{address}/projects/pets/{path}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate(OBSERVER)
    return page


def expect_version(page: Page, number: int) -> None:
    """Check that the page shows this version without having been reloaded."""
    page.wait_for_function(f"() => window.seen['{number}']", timeout=DEADLINE)
    assert page.evaluate("window.notReloaded"), "the page was reloaded"


def reconnect(page: Page) -> None:
    """Wait until the page is live again, skipping the delays between its attempts but never shortening an attempt."""
    attempts: list[WebSocket] = []
    page.on("websocket", lambda attempt: attempts.append(attempt))

    def is_paused() -> bool:
        if page.locator("#live").get_attribute("data-state") == "live":
            return False
        if all(attempt.is_closed() for attempt in attempts):
            page.clock.fast_forward(LONGEST_DELAY)
        return True

    wait_while(page, is_paused, "the page did not reconnect")


def wait_while(page: Page, condition: Callable[[], bool], failure: str) -> None:
    """Wait until the condition is false; meanwhile the page's events are handled."""
    deadline = time.monotonic() + DEADLINE / 1000
    while condition():
        assert time.monotonic() < deadline, failure
        page.wait_for_timeout(100)


def test_open_pages_are_notified_within_two_seconds() -> None:
    """Checks the polling interval only: how fast a page loads depends on the machine."""
    assert live.POLL_SECONDS + live.SEND_SECONDS <= 2.0


def test_an_open_page_shows_new_versions(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    for number in (2, 3, 4):
        publish(number)
        expect_version(page, number)


def test_a_page_on_the_server_profile_stays_live_while_redis_is_down(remote: RemoteServer, browser: Browser) -> None:
    page = open_live_page(browser.new_context(ignore_https_errors=True), remote.address)
    remote.publish(2)
    expect_version(page, 2)
    remote.redis.kill()
    remote.publish(3)
    expect_version(page, 3)
    expect(page.locator(PAUSED)).to_be_hidden()
    remote.redis.start()


def test_a_page_recovers_after_a_minute_without_network(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    context.set_offline(True)
    page.clock.fast_forward(MINUTE)
    expect(page.locator(PAUSED)).to_be_visible()
    publish(2)
    page.clock.fast_forward(MINUTE)
    expect(page.locator("#status")).to_contain_text("Version 1, from")
    context.set_offline(False)
    reconnect(page)
    expect_version(page, 2)
    expect(page.locator(PAUSED)).to_be_hidden()


def test_a_silent_socket_is_closed_and_reopened(embedded: str, page: Page) -> None:
    """When the network fails without closing the connection, the socket stays open but silent."""
    opened: list[WebSocketRoute] = []
    page.clock.install()
    page.route_web_socket("**/ws/**", lambda silent: opened.append(silent))
    log_in(page, embedded)
    wait_while(page, lambda: not opened, "the page opened no socket")
    page.clock.fast_forward(SILENCE)
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    page.clock.fast_forward(LONGEST_DELAY)
    expect(page.locator(PAUSED)).to_be_visible()
    assert len(opened) >= 2  # the page's clock also runs on its own, so there may be more attempts


def test_progress_moves_without_fetching_the_ranking_again(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    UpdateState.objects.update(progress={"what": "fitting", "iteration": 4, "share": 0.25, "change": 0.1})
    expect(page.locator("progress")).to_have_attribute("value", "25")
    UpdateState.objects.update(progress={}, condition="degraded", message="The disk is full.")
    expect(page.locator(".notice.warning:visible").filter(has_text="The disk is full.")).to_have_count(1)
    assert requests
    assert all(address.endswith("fragment=status") for address in requests)


def test_a_change_by_a_user_refreshes_a_page_about_the_same_version(embedded: str, context: BrowserContext) -> None:
    page, project = open_live_page(context, embedded), Project.objects.get()
    with page.expect_request(lambda request: request.url.endswith("fragment=1")):
        services.change_project(project=project, user=User.objects.get(), changes={"state": Project.State.PAUSED})


def test_a_page_that_ages_is_refreshed_after_a_minute(embedded: str, page: Page) -> None:
    freshness, opened, requests = get_freshness(Project.objects.get()), list[WebSocketRoute](), list[str]()
    state = {"revision": freshness.version_number, "labels": freshness.last_event}
    message = json.dumps({**state, "mark": freshness.status_hash, "changed": freshness.last_change})

    def send_state(socket: WebSocketRoute) -> None:
        opened.append(socket)
        socket.send(message)

    page.clock.install()
    log_in(page, embedded)
    page.route_web_socket("**/ws/**", send_state)
    page.goto(f"{embedded}/projects/pets/activity/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.on("request", lambda request: requests.append(request.url))
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 10"))  # so that a busy machine does not age the page
    page.clock.fast_forward(MINUTE // 2 - 10_000)
    opened[-1].send(message)  # on a busy machine the page may have connected again
    page.evaluate("document.title")
    assert requests == []
    with page.expect_request(lambda request: request.url.endswith("fragment=1")):
        page.clock.fast_forward(MINUTE // 2 + 5_000)
        opened[-1].send(message)


def test_a_waiting_updater_is_shown_at_once(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    EventHead.objects.update(sequence=11)
    UpdateState.objects.update(condition="waiting", message="Waiting for the first judgements.")
    expect(page.locator("#status")).to_contain_text("Waiting for the first judgements.")


def test_a_field_keeps_its_text_and_selection_during_an_update(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    page.locator("#q").press_sequentially("pur")
    page.locator("#q").evaluate("field => field.setSelectionRange(1, 2)")
    publish(2)
    expect_version(page, 2)
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#q")).to_have_value("pur")
    assert page.locator("#q").evaluate("field => [field.selectionStart, field.selectionEnd]") == [1, 2]
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/ranking/?q=pur&**")


def test_a_posted_text_is_predicted_again_by_a_new_version(embedded: str, context: BrowserContext) -> None:
    """The text was sent by POST and is not in the URL; text typed afterwards is not sent."""
    project = Project.objects.get(slug="pets")
    make_fitted_study(project)
    page = open_live_page(context, embedded, "new-argument/")
    page.fill("[name=text]", "Evidence and numbers speak for cats.")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("dl.facts")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert "text=" not in page.url
    page.evaluate(OBSERVER)
    page.fill("[name=text]", "Something else")
    versions.request_refit(project=project, user=None)
    with page.expect_request(lambda request: "fragment=1" in request.url) as again:
        assert update_one("test").number == 3
    assert again.value.method == "POST"
    assert "Evidence and numbers" in again.value.post_data
    page.wait_for_function("() => window.seen['3'] && window.notReloaded")
    expect(page.locator("dl.facts")).to_be_visible()


def test_a_typed_text_survives_the_end_of_a_session(embedded: str, context: BrowserContext) -> None:
    """The user is sent to the login page and back, and the text is not in the URL."""
    page = open_live_page(context, embedded, "new-argument/")
    page.fill("[name=text]", "Evidence speaks for cats.\nNumbers, too.")
    context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Predict").click()
    page.wait_for_url("**/accounts/login/**")
    submit_login(page)
    expect(page.locator("[name=text]")).to_have_value("Evidence speaks for cats.\nNumbers, too.")


def test_a_button_stays_while_it_is_being_pressed(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    page.locator("#q").press_sequentially("purr")
    page.get_by_role("button", name="Show").hover()
    page.mouse.down()
    publish(2)
    expect_version(page, 2)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"/ranking/\?q=purr&"))


def test_a_page_leads_to_the_login_after_logging_out_elsewhere(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded)
    other = context.new_page()
    other.goto(f"{embedded}/projects/")
    other.get_by_role("button", name="Log out").click()
    publish(2)
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_sixth_window_says_that_it_is_not_updated(embedded: str, context: BrowserContext) -> None:
    open_live_page(context, embedded)
    for _ in range(4):
        another = context.new_page()
        another.goto(f"{embedded}/projects/pets/ranking/")
        expect(another.locator("#live")).to_have_attribute("data-state", "live")
    sixth = context.new_page()
    sixth.goto(f"{embedded}/projects/pets/ranking/")
    expect(sixth.locator("#live-crowded")).to_be_visible()
    expect(sixth.locator(PAUSED)).to_be_hidden()


def test_open_pages_follow_a_pinned_version(embedded: str, context: BrowserContext) -> None:
    publish(2)
    page = open_live_page(context, embedded)
    other = context.new_page()
    other.goto(f"{embedded}/projects/pets/model/versions/1/")
    other.locator("summary", has_text="Roll back to this version").click()
    other.get_by_role("button", name="Show this version").click()
    expect(other.locator(".notice").first).to_contain_text("All pages now show version 1.")
    expect(page.locator("#status")).to_contain_text("Version 1 is pinned; the newest version is 2.")
    page.get_by_role("button", name="Show the newest version").click()
    expect(page.locator("#status")).to_contain_text("Version 2, from")
    expect(page.locator("#status")).not_to_contain_text("pinned")


def test_an_open_page_follows_a_settings_search_whose_result_is_used(embedded: str, context: BrowserContext) -> None:
    page = open_live_page(context, embedded, "model/settings/")
    page.get_by_role("button", name="Search for good settings").click()
    expect(page.locator("#live")).to_contain_text("Waiting for the updater")
    settings = {"n_components": 3}
    row = {"name": "3 components", "settings": settings, "loss": 0.61, "accuracy": 0.66, "losses": [0.61]}
    SettingsSearch.objects.update(state="running", progress={"done": 1, "of": 8}, table=[row])
    expect(page.locator("#live")).to_contain_text("1 of 8 settings evaluated")
    SettingsSearch.objects.update(state="done", progress={}, winner=settings, message=settings_search.BY_GROUP)
    page.get_by_role("button", name="Use these settings").click()
    expect(page.locator("[name=n_components]")).to_have_value("3")


# Accessibility

PAGES = [
    "model/", "model/versions/2/", "model/compare/?from=1&to=2", "model/settings/", "components/",
]  # fmt: skip
SCREENS = [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")]


def with_everything(project: Project, owner: User) -> None:
    """Two versions, one of them pinned, with a scoreboard, a settings search, a failed fit and a running one."""
    diagnostics = {
        "bounds": [-120.0, -101.0],
        "warnings": ["It stopped early."],
        "seconds": {"reading": 0.1, "fitting": 2.0},
    }
    publish(2)
    ModelSnapshot.objects.filter(number=2).update(diagnostics=diagnostics, excluded={"retracted": 2})
    versions.pin(project=project, user=owner, number=1)
    counts = {
        "labels": 10,
        "decided": 9,
        "correct": 7,
        "log_loss": 5.0,
        "brier": 2.0,
        "calibration": [[1, 0.5, 1]] * 10,
    }
    ScoreboardEntry.objects.create(snapshot=ModelSnapshot.objects.get(number=1), method="personal", **counts)
    row = {"name": "3 components", "settings": {"n_components": 3}, "loss": 0.61, "accuracy": None, "losses": [0.61]}
    SettingsSearch.objects.create(project=project, state="done", table=[row], message=settings_search.AT_RANDOM)
    progress = {"what": "fitting", "iteration": 4, "share": 0.25}
    UpdateState.objects.update(condition="degraded", message="The disk is full.", progress=progress)


def without_versions(project: Project, owner: User) -> None:
    UpdateState.objects.update(current=None, condition="waiting", message="Waiting for the first judgements.")
    ModelSnapshot.objects.all().delete()


@pytest.mark.parametrize("prepare", [with_everything, without_versions])
def test_pages_are_accessible_on_every_screen(
    embedded: str, browser: Browser, prepare: Callable[[Project, User], None]
) -> None:
    prepare(Project.objects.get(slug="pets"), User.objects.get(username="olga"))
    paths = PAGES if prepare is with_everything else ["model/", "model/compare/", "model/settings/"]
    problems = []
    for width, scheme in SCREENS:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        log_in(page, embedded)
        for path in paths:
            page.goto(f"{embedded}/projects/pets/{path}")
            problems += [(width, scheme, *found) for found in find_page_problems(page)]
        context.close()
    assert problems == []


def test_an_invalid_setting_is_explained_beside_its_field(embedded: str, page: Page) -> None:
    log_in(page, embedded)
    page.goto(f"{embedded}/projects/pets/model/settings/")
    page.locator("[name=refit_growth]").fill("7")
    page.locator("form.narrow").evaluate("form => { form.noValidate = true; form.requestSubmit(); }")
    expect(page.locator("#id_refit_growth_error")).to_have_text("Choose a number from 1.1 to 2.")
    assert violations(page) == []
