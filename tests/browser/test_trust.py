"""What makes results trustworthy: votes beside the model, cautions, intervals, exclusion and own IDs."""

import re

import pytest
from playwright.sync_api import Page, expect

from annotation.models import Item, Judgement, Project, Worker
from modelling.models import ModelSnapshot
from modelling.updater.update import update_one
from tests.browser.helpers.page_checks import find_keyboard_problems, find_page_problems
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

IMPORTED = "worker,a,b,choice,comment\nanna-7,text-000,text-001,a,It is shorter.\n"
MENTIONS_95_PERCENT = "elements => elements.filter(each => each.offsetParent && each.innerText.includes('95 %')).length"


@pytest.fixture
def study(served: str, project: Project) -> str:
    """The address of a fitted study."""
    make_fitted_study(project)
    return f"{served}/projects/pets"


def test_votes_are_beside_the_model_and_a_disagreement_has_a_reason(page_of_owner: Page, study: str) -> None:
    page, item = page_of_owner, Item.objects.get(key="text-000")
    judged = Judgement.objects.filter(item_lo=item) | Judgement.objects.filter(item_hi=item)
    won = judged.filter(item_lo=item, choice="lo").count() + judged.filter(item_hi=item, choice="hi").count()
    n, ties = judged.count(), judged.filter(choice="tie").count()
    votes = f"{won}, {n - won - ties}, {ties}"
    page.goto(f"{study}/ranking/")
    cells = page.get_by_role("region", name="Ranking").locator("tbody tr").filter(has_text="text-000").locator("td")
    *_others, shown, win_rate, bradley_terry_rank = cells.all_inner_texts()
    assert (shown, win_rate) == (votes, f"{round(100 * (won + ties / 2) / n)} %")
    assert re.fullmatch(r"\d+", bradley_terry_rank)
    assert not page.locator(".table-scroll:has(.dense)").evaluate("table => table.scrollWidth > table.clientWidth")
    against = page.get_by_role("region", name="Model against votes").locator("tbody tr").first
    expect(against.locator("td").last).to_have_text(re.compile(r"\w+ \w+.*\."))
    page.goto(f"{study}/ranking/{item.pk}/")
    expect(page.get_by_text(votes, exact=True)).to_be_visible()


def test_every_page_of_results_says_why_to_be_cautious(page_of_owner: Page, study: str) -> None:
    page = page_of_owner
    ModelSnapshot.objects.update(diagnostics={"converged": False})
    for path in ("ranking/", "components/", "workers/", "exports/", "claims/", "reliability/"):
        page.goto(f"{study}/{path}")
        caution = "Read version 1 with caution: the fit stopped before its results settled."
        expect(page.get_by_text(caution)).to_be_visible()
        assert find_page_problems(page) == []
    page.get_by_role("link", name="About this version").click()
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_worker_page_shows_the_assessment_with_its_evidence(page_of_owner: Page, study: str, width: int) -> None:
    page, worker = page_of_owner, Worker.objects.earliest("pk")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{study}/workers/?sort=careless")
    expect(page.get_by_text("this is an opinion, not an error")).to_be_visible()
    assert find_page_problems(page) == []
    page.goto(f"{study}/workers/{worker.code}/")
    about = page.get_by_role("region", name="Careless or different?")
    expect(about.get_by_text("The worker's other answers predict")).to_be_visible()
    expect(about.get_by_text("An assessment excludes no one.")).to_be_visible()
    about.get_by_role("link", name="Decide whether this worker counts").press("Enter")
    expect(page.get_by_text("Exclude this worker …")).to_be_in_viewport()
    assert find_page_problems(page) == []
    assert find_keyboard_problems(page) == []


def test_tastes_have_an_interval_that_excludes_0_and_a_number_of_judgements(page_of_owner: Page, study: str) -> None:
    page = page_of_owner
    page.goto(f"{study}/components/")
    links = page.get_by_text("Associated with:").first
    expect(links).to_contain_text(re.compile(r"camp: facts\s+[+-]?\d\.\d ± \d\.\d SD, n = 8"))
    workers = page.get_by_text("Workers:").first.inner_text()
    shown = re.findall(r"(-?\d+\.\d) ± (\d+\.\d), n = \d+", workers)
    page.goto(f"{study}/workers/{Worker.objects.earliest('pk').code}/")
    rows = page.get_by_role("region", name="Differences by item").locator("tbody tr").all_inner_texts()
    shown += [re.findall(r"(-?\d+\.\d\d) ± (\d+\.\d\d)", text)[-1] for text in rows]
    assert len(shown) > len(rows) > 0
    assert [each for each in shown if abs(float(each[0])) < float(each[1])] == []


def test_intervals_are_explained_once_on_each_page(page_of_owner: Page, study: str) -> None:
    page, item, worker = page_of_owner, Item.objects.get(key="text-000"), Worker.objects.earliest("pk")
    for path in (
        "ranking/",
        f"ranking/{item.pk}/",
        f"workers/{worker.code}/",
        "components/",
        "new-argument/?text=Facts",
    ):
        page.goto(f"{study}/{path}")
        expect(page.locator("main")).to_contain_text("±")
        assert page.locator("main p").evaluate_all(MENTIONS_95_PERCENT) == 1, path


def test_a_worker_is_excluded_compared_and_included_again(page_of_owner: Page, study: str) -> None:
    page, worker = page_of_owner, Worker.objects.earliest("pk")
    page.goto(f"{study}/workers/{worker.code}/")
    page.get_by_text("Exclude this worker …").press("Enter")
    page.get_by_label("Reason").fill("answers in half a second")
    assert find_page_problems(page) == find_keyboard_problems(page) == []
    page.get_by_role("button", name="Exclude this worker", exact=True).press("Enter")
    expect(page.get_by_text("This worker is excluded.")).to_be_visible()
    expect(page.get_by_text("The worker gets no more pairs.")).to_be_visible()
    assert update_one("test").number == 2
    page.reload()
    assert find_page_problems(page) == []
    page.get_by_role("link", name="Rank changes: version 1 with this worker, version 2 without").click()
    expect(page.get_by_text("answers in half a second")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Let this worker judge").click()
    expect(page.get_by_text("The worker can go on judging")).to_be_visible()
    page.get_by_role("button", name="Include this worker again").click()
    expect(page.get_by_text("This worker is excluded.")).to_be_hidden()
    assert not Worker.objects.get(pk=worker.pk).suspended


def test_imported_workers_keep_their_id_and_reasons_are_shown(page_of_owner: Page, study: str) -> None:
    page = page_of_owner
    page.goto(f"{study}/judgements/import/")
    file = {"name": "answers.csv", "mimeType": "text/csv", "buffer": IMPORTED.encode()}
    page.locator("#file").set_input_files(file)
    page.get_by_role("button", name="Upload and preview").click()
    page.get_by_role("button", name="Import judgements").click()
    expect(page.get_by_text("1 judgement added")).to_be_visible()
    assert update_one("test").number == 2
    page.goto(f"{study}/workers/?q=anna-7")
    page.locator("tbody a").first.click()
    expect(page.get_by_text("ID in the imported file: anna-7")).to_be_visible()
    expect(page.get_by_text("It is shorter.")).to_be_visible()
    page.goto(f"{study}/ranking/{Item.objects.get(key='text-000').pk}/")
    expect(page.get_by_text("It is shorter.")).to_be_visible()
