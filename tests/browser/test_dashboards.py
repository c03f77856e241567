"""Pages about the model as researchers watch them: they follow by themselves, heal by themselves, and can be read."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, WebSocketRoute, expect

from annotation import services
from annotation.models import EventHead, Project, User
from modelling import searching, versions
from modelling.dashboards.freshness import freshness_of
from modelling.models import ModelSnapshot, ScoreboardEntry, SettingsSearch, UpdateState
from modelling.updating import run_one
from tests.browser.far import Far, far_away
from tests.browser.reading import problems_here, violations
from tests.browser.watched import fill_in_the_log_in, log_in, make_watched_study, publish
from tests.modelling.two_camps import fitted_study

IN_TIME = 2.0  # seconds from publication to page
MINUTE = 60_000
NEXT_TRY = 30_000  # ms; longer than the longest pause between two tries
SILENCE = 46_000  # ms; the page gives a socket up after 45 seconds
TRIES = 6
NOTE = "#live-paused"
# When the page first says each version, by the clock of this machine.
OBSERVER = """
() => {
  window.unchanged = true;
  window.seen = {};
  const look = () => {
    const said = document.getElementById("status")?.textContent.match(/Version (\\d+), from/);
    if (said && !window.seen[said[1]]) window.seen[said[1]] = Date.now() / 1000;
  };
  new MutationObserver(look).observe(document.getElementById("live"), { childList: true, subtree: true });
  look();
}
"""


@pytest.fixture
def near(served: str, transactional_db: None) -> str:
    """The embedded profile with the watched study."""
    make_watched_study()
    return served


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    """The server profile with the watched study."""
    with far_away(tmp_path_factory.mktemp("far")) as running:
        yield running


def watched(context: BrowserContext, address: str, path: str = "ranking/") -> Page:
    """An open page that has heard from its socket."""
    page = context.new_page()
    page.clock.install()
    log_in(page, address)
    page.goto(f"{address}/projects/pets/{path}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.evaluate(OBSERVER)
    return page


def seconds_until_shown(page: Page, number: int, published: float) -> float:
    page.wait_for_function(f"() => window.seen['{number}']", timeout=15_000)
    assert page.evaluate("window.unchanged"), "the page was loaded again"
    return float(page.evaluate(f"window.seen['{number}']")) - published


def catch_up(page: Page, number: int) -> None:
    """The page's next tries to connect come early, until one of them has shown this version, without loading again."""
    for _ in range(TRIES):
        page.clock.fast_forward(NEXT_TRY)
        with suppress(TimeoutError):
            page.wait_for_function(f"() => window.seen['{number}']", timeout=5_000)
            break
    assert page.evaluate(f"window.unchanged && window.seen['{number}']"), "the page did not heal itself"


def test_an_open_page_shows_a_new_version_within_two_seconds(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    late = [seconds_until_shown(page, number, publish(number)) for number in (2, 3, 4)]
    assert max(late) < IN_TIME, late


def test_the_same_with_postgresql_and_redis_which_may_be_away_for_a_minute(far: Far, browser: Browser) -> None:
    page = watched(browser.new_context(ignore_https_errors=True), far.address)
    published = float(far.run("from tests.browser.watched import publish; print(publish(2))"))
    assert seconds_until_shown(page, 2, published) < IN_TIME
    far.redis.kill()
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    page.clock.fast_forward(MINUTE)
    expect(page.locator(NOTE)).to_be_visible()
    far.run("from tests.browser.watched import publish; publish(3)")
    page.clock.fast_forward(MINUTE)
    expect(page.locator(NOTE)).to_be_visible()
    far.redis.start()
    catch_up(page, 3)
    expect(page.locator(NOTE)).to_be_hidden()


def test_a_page_without_network_for_a_minute_heals_itself(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    context.set_offline(True)
    page.clock.fast_forward(MINUTE)
    expect(page.locator(NOTE)).to_be_visible()
    publish(2)
    page.clock.fast_forward(MINUTE)
    expect(page.locator("#status")).to_contain_text("Version 1, from")
    context.set_offline(False)
    catch_up(page, 2)
    expect(page.locator(NOTE)).to_be_hidden()


def test_a_socket_that_says_nothing_for_long_is_given_up(near: str, page: Page) -> None:
    """A network that has died without a word: the socket is open, and nothing comes."""
    opened: list[WebSocketRoute] = []
    page.clock.install()
    log_in(page, near)
    page.route_web_socket("**/ws/**", lambda silent: opened.append(silent))
    page.goto(f"{near}/projects/pets/ranking/")
    expect(page.locator("#live")).not_to_have_attribute("data-state", "paused")
    page.clock.fast_forward(SILENCE)
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    assert len(opened) == 1
    page.clock.fast_forward(NEXT_TRY)
    expect(page.locator(NOTE)).to_be_visible()
    assert len(opened) == 2


def test_progress_moves_without_fetching_the_ranking_again(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    UpdateState.objects.update(progress={"what": "fitting", "iteration": 4, "share": 0.25, "change": 0.1})
    expect(page.locator("progress")).to_have_attribute("value", "25")
    UpdateState.objects.update(progress={}, condition="degraded", words="The disk is full.")
    expect(page.locator(".notice.warning:visible")).to_contain_text("The disk is full.")
    assert asked
    assert all(address.endswith("fragment=status") for address in asked)


def test_what_somebody_changes_by_hand_moves_a_page_about_the_same_version(near: str, context: BrowserContext) -> None:
    page, project = watched(context, near), Project.objects.get()
    with page.expect_request(lambda request: request.url.endswith("fragment=1")):
        services.change_project(project=project, user=User.objects.get(), changes={"state": Project.State.PAUSED})


def test_what_changes_with_time_alone_is_asked_for_again_after_a_minute(near: str, page: Page) -> None:
    freshness, opened, asked = freshness_of(Project.objects.get()), list[WebSocketRoute](), list[str]()
    standing = json.dumps({name: getattr(freshness, name) for name in ("revision", "labels", "mark", "changed")})

    def speak(socket: WebSocketRoute) -> None:
        opened.append(socket)
        socket.send(standing)

    page.clock.install()
    log_in(page, near)
    page.route_web_socket("**/ws/**", speak)
    page.goto(f"{near}/projects/pets/activity/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(MINUTE // 2)
    opened[0].send(standing)
    page.clock.fast_forward(MINUTE // 2)
    assert asked == []
    with page.expect_request(lambda request: request.url.endswith("fragment=1")):
        opened[0].send(standing)


def test_saved_judgements_are_counted_while_they_wait(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    EventHead.objects.update(sequence=11)
    UpdateState.objects.update(condition="waiting", words="Waiting for the first judgements.")
    expect(page.locator("#status")).to_contain_text("Waiting for the first judgements.")


def test_what_somebody_writes_is_not_taken_from_under_their_hands(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    page.locator("#q").press_sequentially("pur")
    page.locator("#q").evaluate("field => field.setSelectionRange(1, 2)")
    seconds_until_shown(page, 2, publish(2))
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#q")).to_have_value("pur")
    assert page.locator("#q").evaluate("field => [field.selectionStart, field.selectionEnd]") == [1, 2]
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/ranking/?q=pur&**")


def test_a_pasted_text_is_asked_again_of_a_new_version(near: str, context: BrowserContext) -> None:
    """It came by POST and is not in the address; what is typed afterwards is not asked."""
    project = Project.objects.get(slug="pets")
    fitted_study(project)
    page = watched(context, near, "new-argument/")
    page.fill("[name=text]", "Evidence and numbers speak for cats.")
    page.get_by_role("button", name="Ask the model").click()
    expect(page.locator("dl.facts")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert "text=" not in page.url
    page.evaluate(OBSERVER)
    page.fill("[name=text]", "Something else")
    versions.ask_for_refit(project=project, user=None)
    with page.expect_request(lambda request: "fragment=1" in request.url) as again:
        assert run_one("test").number == 3
    assert again.value.method == "POST"
    assert "Evidence and numbers" in again.value.post_data
    page.wait_for_function("() => window.seen['3'] && window.unchanged")
    expect(page.locator("dl.facts")).to_be_visible()


def test_a_text_is_still_in_the_box_after_a_session_that_ended(near: str, context: BrowserContext) -> None:
    """A login page comes in between, and the text is not in the address."""
    page = watched(context, near, "new-argument/")
    page.fill("[name=text]", "Evidence speaks for cats.\nNumbers, too.")
    context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Ask the model").click()
    page.wait_for_url("**/accounts/login/**")
    fill_in_the_log_in(page)
    expect(page.locator("[name=text]")).to_have_value("Evidence speaks for cats.\nNumbers, too.")


def test_a_button_that_is_being_pressed_stays_until_it_is_let_go(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    page.locator("#q").press_sequentially("purr")
    page.get_by_role("button", name="Show").hover()
    page.mouse.down()
    seconds_until_shown(page, 2, publish(2))
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"/ranking/\?q=purr&"))


def test_whoever_logs_out_elsewhere_is_led_to_the_door(near: str, context: BrowserContext) -> None:
    page = watched(context, near)
    other = context.new_page()
    other.goto(f"{near}/projects/")
    other.get_by_role("button", name="Log out").click()
    publish(2)
    for _ in range(TRIES):
        page.clock.run_for(NEXT_TRY)
        with suppress(TimeoutError):
            page.wait_for_url("**/accounts/login/**", timeout=2_000)
            break
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_sixth_window_says_that_it_does_not_follow(near: str, context: BrowserContext) -> None:
    watched(context, near)
    for _ in range(4):
        another = context.new_page()
        another.goto(f"{near}/projects/pets/ranking/")
        expect(another.locator("#live")).to_have_attribute("data-state", "live")
    sixth = context.new_page()
    sixth.goto(f"{near}/projects/pets/ranking/")
    expect(sixth.locator("#live-crowded")).to_be_visible()
    expect(sixth.locator(NOTE)).to_be_hidden()


def test_an_owner_pins_an_older_version_and_open_pages_follow(near: str, context: BrowserContext) -> None:
    publish(2)
    page = watched(context, near)
    other = context.new_page()
    other.goto(f"{near}/projects/pets/model/versions/1/")
    other.locator("summary", has_text="Roll back to this version").click()
    other.get_by_role("button", name="Yes, show this version").click()
    expect(other.locator(".notice").first).to_contain_text("Every page shows version 1 now.")
    expect(page.locator("#status")).to_contain_text("Version 1 is pinned; the model has gone on to version 2.")
    page.get_by_role("button", name="Show the newest").click()
    expect(page.locator("#status")).to_contain_text("Version 2, from")
    expect(page.locator("#status")).not_to_contain_text("pinned")


def test_a_search_runs_on_while_its_page_is_open_and_is_used_by_a_click(near: str, context: BrowserContext) -> None:
    page = watched(context, near, "model/settings/")
    page.get_by_role("button", name="Search for good settings").click()
    expect(page.locator("#live")).to_contain_text("Waiting for the updater")
    settings = {"n_components": 3}
    row = {"name": "3 components", "settings": settings, "loss": 0.61, "accuracy": 0.66, "losses": [0.61]}
    SettingsSearch.objects.update(state="running", progress={"done": 1, "of": 8}, table=[row])
    expect(page.locator("#live")).to_contain_text("1 of 8 settings tried")
    SettingsSearch.objects.update(state="done", progress={}, winner=settings, words=searching.BY_GROUP)
    page.get_by_role("button", name="Use these settings").click()
    expect(page.locator("[name=n_components]")).to_have_value("3")


# Reading -------------------------------------------------------------------------------------------------------------

PAGES = [
    "model/", "model/versions/2/", "model/compare/?from=1&to=2", "model/settings/", "components/",
]  # fmt: skip
SCREENS = [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")]


def everything_to_say(project: Project, owner: User) -> None:
    """Two versions, one pinned, a scoreboard, a search, a fit that runs after one that failed."""
    told = {"bounds": [-120.0, -101.0], "warnings": ["It stopped early."], "seconds": {"reading": 0.1, "fitting": 2.0}}
    publish(2)
    ModelSnapshot.objects.filter(number=2).update(diagnostics=told, excluded={"retracted": 2})
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
    SettingsSearch.objects.create(project=project, state="done", table=[row], words=searching.BY_CHANCE)
    progress = {"what": "fitting", "iteration": 4, "share": 0.25}
    UpdateState.objects.update(condition="degraded", words="The disk is full.", progress=progress)


def nothing_to_say(project: Project, owner: User) -> None:
    UpdateState.objects.update(current=None, condition="waiting", words="Waiting for the first judgements.")
    ModelSnapshot.objects.all().delete()


@pytest.mark.parametrize("prepare", [everything_to_say, nothing_to_say])
def test_pages_can_be_read_by_everybody_on_every_screen(
    near: str, browser: Browser, prepare: Callable[[Project, User], None]
) -> None:
    prepare(Project.objects.get(slug="pets"), User.objects.get(username="olga"))
    paths = PAGES if prepare is everything_to_say else ["model/", "model/compare/", "model/settings/"]
    problems = []
    for width, scheme in SCREENS:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        log_in(page, near)
        for path in paths:
            page.goto(f"{near}/projects/pets/{path}")
            problems += [(width, scheme, *found) for found in problems_here(page)]
        context.close()
    assert problems == []


def test_a_wrong_setting_is_named_beside_its_field(near: str, page: Page) -> None:
    log_in(page, near)
    page.goto(f"{near}/projects/pets/model/settings/")
    page.locator("[name=refit_growth]").fill("7")
    page.locator("form.narrow").evaluate("form => { form.noValidate = true; form.requestSubmit(); }")
    expect(page.locator("#id_refit_growth_error")).to_have_text("Choose a number from 1.1 to 2.")
    assert violations(page) == []
