"""The ranking of a study in several parts, on a wide screen and on a phone."""

import os

import pytest
from playwright.sync_api import Browser, expect

from annotation.models import User
from tests.browser.helpers.page_checks import find_page_problems
from tests.browser.test_end_to_end import log_in
from tests.modelling.exports.samples import fit
from tests.modelling.samples.histories import make_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PAIRS = [(0, 1), (1, 2), (0, 2), (3, 4)]


@pytest.mark.parametrize("width", [1280, 390])
def test_parts_can_be_chosen_and_a_merged_list_is_labelled(
    browser: Browser, served: str, owner: User, width: int
) -> None:
    fit(make_study("parts", [(who, a, b, "first") for who in range(3) for a, b in PAIRS], owner=owner))
    with browser.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        log_in(page, served, owner.username)
        page.goto(f"{served}/projects/parts/ranking/")
        expect(page.get_by_text("Ranks, tiers, top 10 and intervals are within each part.")).to_be_visible()
        expect(page.get_by_text("Read version 1 with caution:")).to_be_visible()
        assert find_page_problems(page) == []
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=f"{folder}/ranking-{width}.png", full_page=True)
        page.get_by_label("Part", exact=True).select_option("merged")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.get_by_text("Extrapolated from the texts.")).to_be_visible()
        assert find_page_problems(page) == []
