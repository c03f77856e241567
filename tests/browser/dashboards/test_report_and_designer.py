"""The report and the study designer in a browser: by keyboard, on a phone, without requests, with live progress."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from annotation.models import Project
from modelling.models import StudySimulation
from modelling.updater.simulations import simulate_one
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
SIZES = {"Items": 6, "Workers": 6, "Judgements per worker": 10, "Workers per pair": 6, "Simulated crowds": 3}


def plan(page: Page) -> None:
    for label, value in {**SIZES, "Number of top items": 2}.items():
        page.get_by_label(label, exact=True).fill(str(value))
    page.get_by_label("Pay", exact=True).select_option("judgement")
    page.get_by_label("Amount").fill("0.1")


def test_a_simulation_is_started_followed_and_shown(page_of_owner: Page, served: str, project: Project) -> None:
    page = page_of_owner
    page.goto(f"{served}/projects/pets/designer/")
    plan(page)
    page.get_by_role("button", name="Simulate").press("Enter")
    expect(page.get_by_text("The simulation has started.")).to_be_visible()
    simulate_one("test")
    expect(page.get_by_text("1 of 3 crowds simulated")).to_be_visible(timeout=15_000)
    while simulate_one("test"):
        pass
    expect(page.get_by_role("heading", name="Expected results")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("img", name="After 60 judgements")).to_be_visible()
    expect(page.get_by_text("Cost: 6.00 GBP.")).to_be_visible()
    assert not find_page_problems(page)
    assert not find_keyboard_problems(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    assert not find_page_problems(page)


def test_a_simulation_is_cancelled_by_keyboard(page_of_owner: Page, served: str, project: Project) -> None:
    page = page_of_owner
    page.goto(f"{served}/projects/pets/designer/")
    plan(page)
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("button", name="Cancel the simulation").press("Enter")
    expect(page.get_by_text("The simulation was cancelled.")).to_be_visible()
    assert StudySimulation.objects.get().state == "cancelled"


def test_an_impossible_plan_names_the_field(page_of_owner: Page, served: str, project: Project) -> None:
    page = page_of_owner
    page.goto(f"{served}/projects/pets/designer/")
    plan(page)
    page.get_by_label("Judgements per worker", exact=True).fill("16")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_role("alert")).to_contain_text("6 items form only 15 pairs")
    assert not find_page_problems(page)


def test_the_report_opens_without_a_server_and_requests_nothing(
    page_of_owner: Page, served: str, project: Project, browser: Browser, tmp_path: Path
) -> None:
    make_fitted_study(project)
    page = page_of_owner
    page.goto(f"{served}/projects/pets/ranking/")
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download the report").press("Enter")
    file = tmp_path / "report.html"
    downloaded.value.save_as(file)
    reader = browser.new_page(viewport={"width": 1280, "height": 900})
    requests, errors = list[str](), list[str]()
    reader.on("request", lambda request: requests.append(request.url))
    reader.on("console", lambda message: errors.append(message.text))
    reader.goto(file.as_uri())
    assert (requests, errors) == ([file.as_uri()], [])
    assert reader.locator("h2").first.evaluate("heading => getComputedStyle(heading).borderBottomWidth") == "1px"
    expect(reader.get_by_role("img", name="Score and 95 % interval of 18 items")).to_be_visible()
    for width in (1280, 390):
        reader.set_viewport_size({"width": width, "height": 900})
        assert not find_page_problems(reader)
    reader.close()
