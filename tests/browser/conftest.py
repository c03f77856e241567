"""A real server in a thread, with WebSockets, and a real Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserType, Page, expect

from annotation.models import Project, User
from tests.browser.dashboards.live_page import log_in
from tests.browser.judging.judging_session import JudgingSession, make_study
from tests.helpers.serving import serving
from tests.modelling.samples.cached_fits import cached_fits as cached_fits

# Chromium obeys only the last --disable-features, so it repeats Playwright's. The address bar's two suggestion pages,
# loaded with every window, would take half a second of CPU for each context.
DISABLED_FEATURES = (
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "AimEnabled",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
]

expect.set_options(timeout=60_000)  # ms: generous, since the machine may be busy
os.environ["NODE_NO_WARNINGS"] = "1"  # on a busy machine Playwright's Node process warns about timeouts just missed
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # Playwright's event loop runs in the thread that uses the ORM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Close every page of the test before its server stops: open pages poll and hold a renderer process."""
    browser: Browser | None = getattr(item, "funcargs", {}).get("browser")
    for context in browser.contexts if browser else []:
        context.close()


@pytest.fixture(scope="session", autouse=True)
def _require_chromium() -> None:
    if CHROMIUM is None:
        message = "Chromium is not installed: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {"executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture
def large_text(browser_type: BrowserType) -> Iterator[Browser]:
    """A browser whose user has set the font size to 32 px."""
    settings = "--blink-settings=defaultFontSize=32"
    browser = browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, settings])
    yield browser
    browser.close()


@pytest.fixture
def served(transactional_db: None) -> Iterator[str]:
    """The URL of a running Concord on the test's own database."""
    with serving(ws="websockets-sansio") as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide", "phone"])
def page_of_owner(request: pytest.FixtureRequest, browser: Browser, served: str, owner: User) -> Page:
    """A page of the owner of “pets”, on a wide screen and on a phone."""
    width, scheme = request.param
    page = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    log_in(page, served)
    return page


@pytest.fixture
def start_session(served: str, browser: Browser, project: Project) -> Callable[..., JudgingSession]:
    """Return a function that opens a browser as a new worker who has joined the study."""

    def start(*, quota: int = 6, context: dict[str, Any] | None = None, **settings: object) -> JudgingSession:
        make_study(project, quota=quota)
        Project.objects.filter(pk=project.pk).update(**settings)
        return JudgingSession(browser.new_context(**(context or {})), served).join()

    return start
