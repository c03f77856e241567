"""Before a study opens: the quota check, the missing consent text, and the fields of the chosen platform."""

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Project, Recruitment
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_quota_that_cannot_be_met_is_named_and_workers_get_the_true_number(
    page_of_owner: Page, served: str, project: Project
) -> None:
    page = page_of_owner
    Project.objects.filter(pk=project.pk).update(state="draft", consent="")
    page.goto(f"{served}/projects/pets/")
    expect(page.get_by_text("so a worker can make at most 9 judgements, not 40. Workers are told 9.")).to_be_visible()
    expect(page.get_by_text("The consent text is empty, so workers are not asked to agree")).to_be_visible()
    assert find_page_problems(page) == []
    page.get_by_text("Open the study …").press("Enter")
    page.get_by_role("button", name="Open the study", exact=True).press("Enter")
    expect(page.locator(".project-name .badge").first).to_have_text("open")
    page.goto(f"{served}/s/pets/")
    expect(page.get_by_text("9 pairs of short texts.")).to_be_visible()
    expect(page.locator("[name=consent]")).to_have_count(0)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_be_visible()


def test_recruitment_shows_the_fields_of_the_chosen_platform(
    page_of_owner: Page, served: str, project: Project
) -> None:
    page = page_of_owner
    page.goto(f"{served}/projects/pets/recruitment/")
    study, panel, prolific = "Study on the platform", "Only for another panel", "Only for Prolific"
    shown = {"": [], "prolific": [study, prolific], "mturk": [study], "generic": [study, panel]}
    for platform, legends in shown.items():
        page.locator("#id_platform").select_option(platform)
        for legend in (study, panel, prolific):
            expect(page.get_by_role("group", name=legend)).to_be_visible(visible=legend in legends)
        assert find_page_problems(page) == find_keyboard_problems(page) == []
    page.get_by_label("Parameter with the participant's ID").fill("")
    page.get_by_role("button", name="Save recruitment").click()
    expect(page.get_by_text("Enter the name of the parameter with the participant's ID.").last).to_be_visible()
    page.locator("#id_platform").select_option("")
    expect(page.get_by_role("group", name=panel)).to_be_visible()  # it has an error
    page.get_by_role("button", name="Save recruitment").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert Recruitment.objects.get().platform == ""
