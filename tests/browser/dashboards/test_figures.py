"""Figures for papers and headings with explanations, in a browser."""

import re
import struct

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Project, User
from tests.browser.helpers.page_checks import find_page_problems
from tests.browser.test_end_to_end import log_in
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def ranking(served: str, page: Page, project: Project, owner: User) -> Page:
    make_fitted_study(project)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(page, served, owner.username)
    page.goto(f"{served}/projects/pets/ranking/")
    expect(page.locator("[data-figure=intervals] .main-svg").first).to_be_visible()
    return page


def test_a_figure_is_saved_for_print_with_item_names_and_caption(ranking: Page) -> None:
    figure = ranking.locator("[data-figure=intervals]")
    expect(figure.locator(".ytick text").first).to_have_text(re.compile(r"reason \d+\. +1$"))
    with ranking.expect_download() as download:
        figure.get_by_role("button", name="PNG").click()
    width, _height = struct.unpack(">II", download.value.path().read_bytes()[16:24])
    assert width == 2125  # 18 cm at 300 dots per inch
    ranking.evaluate("window.print = () => { window.printed = document.title; }")
    figure.get_by_role("button", name="PDF").click()
    content = ranking.pdf(prefer_css_page_size=True)
    assert ranking.evaluate("window.printed") == "pets-intervals-v1"
    assert len(re.findall(rb"/MediaBox ?\[0 0 510", content)) == 1, "not one page of 18 cm"
    assert b"/Subtype /Image" not in content
    ranking.evaluate("window.dispatchEvent(new Event('afterprint'))")
    figure.get_by_text("Caption", exact=True).click()
    figure.get_by_role("button", name="Copy the caption").click()
    expect(figure.get_by_role("button", name="Copied")).to_be_visible()
    caption = ranking.evaluate("navigator.clipboard.readText()")
    assert caption.startswith("Score by rank, 95 % interval. Score and 95 % interval of 18 items")
    assert find_page_problems(ranking) == []


def test_a_heading_is_explained_on_focus(ranking: Page) -> None:
    tip = ranking.get_by_text("How much workers' own scores for the item differ.")
    expect(tip).to_be_hidden()
    ranking.locator(".hint", has_text="Polarisation").focus()
    expect(tip).to_be_visible()
    assert find_page_problems(ranking) == []
