"""The report: every number is on a page or in an export, every text is escaped, no worker appears."""

import re
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser

import pytest
from django.template.defaultfilters import floatformat
from django.test import Client

from annotation.models import Item, Judgement, Project, StudyPassport, User, Worker
from annotation.services.exclusion import exclude_worker
from modelling.dashboards.report import facts
from modelling.dashboards.report.document import render_report
from modelling.models import ModelSnapshot
from modelling.simulation.demo_study import load_demo
from modelling.training.snapshots import CODE_VERSION
from modelling.updater.update import update_one
from tests.modelling.exports.samples import TEXTS, csv_rows, export_bytes, fit, odd_study
from tests.modelling.samples.histories import answer, make_study
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = pytest.mark.django_db

NUMBER = re.compile(r"(?<![\w.,])-?\d[\d,]*(?:\.\d+)?(?![\w])")
PAGES = ("ranking/", "ranking/?page=2", "reliability/", "components/", "claims/", "stopping/", "workers/", "settings/",
         "model/versions/{version}/", "passport/", "")  # fmt: skip
EXPORTS = ("ranking", "judgements", "workers", "reliability", "claims", "components", "versions")
# The citation, the software version, and what texts of the document say about itself.
CONSTANTS = {"2020", "109", "689", "718", "95", "256", "10", "120", "5", "0", "1", "2", "100", "0.5"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)> & \"quoted\" 'apostrophe' {{ project.slug }}"
ARABIC = "القطط أفضل من الكلاب لأنها هادئة"


def visible_text(html: str) -> str:
    """The text of a page without figures, styles, scripts and tags."""
    body = re.sub(r"<(svg|style|script|head)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", body))


def elements(html: str) -> dict[str, set[str]]:
    """The names of all elements with the names of their attributes, as a browser reads them."""
    found: dict[str, set[str]] = {}

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.setdefault(tag, set()).update(name for name, _value in attrs)

    Reader().feed(html)
    return found


def numbers(text: str) -> set[str]:
    return {number.strip(",").replace(",", "") for number in NUMBER.findall(text)}


def rounded_cells(content: bytes) -> set[str]:
    """The numbers of a CSV file as pages print them, with 0 to 3 digits, and the days of its times."""
    found = set()
    for row in csv_rows(content):
        for cell in row.values():
            found |= numbers(cell)
            try:
                found |= {f"{float(cell):.{digits}f}" for digits in range(4)}
            except ValueError:
                found |= set(re.findall(r"\d{4}-\d{2}-\d{2}", cell))
    return found


def known_numbers(client: Client, project: Project, snapshot: ModelSnapshot, more: Sequence[str] = ()) -> set[str]:
    known = set(CONSTANTS) | numbers(str(Judgement.objects.filter(project=project).count()))
    for page in (*PAGES, *more):
        response = client.get(f"/projects/{project.slug}/{page.format(version=snapshot.number)}")
        assert response.status_code == 200, page
        known |= numbers(visible_text(response.text)) | numbers(
            " ".join(re.findall(r'aria-label="([^"]*)"', response.text))
        )
    for what in EXPORTS:
        known |= rounded_cells(export_bytes(project, what, "csv"))
    return known


def without_hashes_and_dates(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{64}\b|doi:\S+|\d{4}-\d{2}-\d{2}( \d{2}:\d{2}(:\d{2})?)?", " ", text)


@pytest.fixture
def messy(db: None) -> ModelSnapshot:
    """A study with a retraction, a skip, an excluded worker and items of two groups."""
    project = odd_study()
    worker = Worker.objects.filter(project=project).order_by("pk").last()
    exclude_worker(worker=worker, user=None, reason="answered in three seconds")
    return fit(project)


def test_every_number_is_on_a_page_or_in_an_export(client: Client, project: Project, owner: object) -> None:
    client.force_login(owner)
    snapshot = make_fitted_study(project)
    report = visible_text(render_report(snapshot))
    missing = numbers(without_hashes_and_dates(report)) - known_numbers(client, project, snapshot)
    assert not missing - numbers(CODE_VERSION)


def test_every_number_of_a_messy_study_is_on_a_page_or_in_an_export(admin_client: Client, messy: ModelSnapshot) -> None:
    texts = " ".join(Item.objects.filter(project=messy.project).values_list("text", flat=True))
    report = visible_text(render_report(messy))
    missing = numbers(without_hashes_and_dates(report)) - known_numbers(admin_client, messy.project, messy)
    assert not missing - numbers(CODE_VERSION) - numbers(texts)
    assert "1 worker was excluded by the researcher: “ answered in three seconds ”." in " ".join(report.split())
    assert "Judgements left out (retracted): 1." in " ".join(report.split())


@pytest.mark.slow
def test_every_number_of_the_demo_is_on_a_page_or_in_an_export(admin_client: Client, admin_user: User) -> None:
    project = load_demo(admin_user)
    snapshot = update_one("test")
    assert snapshot is not None
    texts = " ".join(Item.objects.filter(project=project).values_list("text", flat=True))
    report = visible_text(render_report(snapshot))
    known = known_numbers(admin_client, project, snapshot, [f"ranking/?part={n}" for n in range(1, 5)])
    assert not numbers(without_hashes_and_dates(report)) - known - numbers(CODE_VERSION) - numbers(texts)


def test_the_table_equals_the_ranking_page(client: Client, project: Project, owner: object) -> None:
    client.force_login(owner)
    snapshot = make_fitted_study(project)
    page = client.get("/projects/pets/ranking/").context["ranking"]
    [part] = facts.build_report(snapshot).parts
    assert [row.entry for row in part.rows] == [row.score for row in page.rows]
    shown = re.findall(r'aria-label="(-?[\d.]+ ± [\d.]+)"', client.get("/projects/pets/ranking/").text)
    assert re.findall(r"(-?[\d.]+ ± [\d.]+)", visible_text(render_report(snapshot))) == shown


def test_reliability_components_and_provenance_equal_their_pages(project: Project, admin_client: Client) -> None:
    snapshot = make_fitted_study(project)
    report = render_report(snapshot)
    for page in ("reliability", "components"):
        facts_of_page = admin_client.get(f"/projects/pets/{page}/").context["page"]
        assert getattr(facts.build_report(snapshot), page) == facts_of_page
    assert {snapshot.data_hash, snapshot.checksum} <= set(re.findall(r"[0-9a-f]{64}", report))
    assert "variance" in report.lower()
    assert "Simpson, E., &amp; Gurevych, I. (2020)" in report


def test_hostile_texts_are_escaped_everywhere(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(title=HOSTILE[:200], question=HOSTILE)
    StudyPassport.objects.create(project=project, exclusion_rules=HOSTILE, stop_rule=HOSTILE)
    snapshot = make_fitted_study(project)
    Item.objects.filter(project=project, active=True).update(text=HOSTILE * 3, group="<b>group</b>")
    for item in Item.objects.filter(project=project, active=True):
        Item.objects.filter(pk=item.pk).update(key=f"<svg onload=alert({item.pk})>")
    snapshot.refresh_from_db()
    html = render_report(snapshot)
    assert not {"script", "img", "b"} & elements(html).keys()
    assert not [name for names in elements(html).values() for name in names if name.startswith("on")]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "{{ project.slug }}" in html


def test_the_document_requests_nothing(messy: ModelSnapshot) -> None:
    html = render_report(messy)
    assert not re.findall(r"\b(src|href|action|data)=|url\(|@import|https?://|style=", html)
    assert "default-src 'none'; style-src 'sha256-" in unescape(html)


def test_right_to_left_texts_keep_their_direction(project: Project) -> None:
    snapshot = make_fitted_study(project)
    Item.objects.filter(project=project, key="text-000").update(text=ARABIC)
    assert f'<span dir="auto">{ARABIC}</span>' in render_report(snapshot)


def test_long_texts_are_cut_and_printed_in_full_in_the_appendix(project: Project) -> None:
    snapshot = make_fitted_study(project)
    long = "A long reason. " * 40
    Item.objects.filter(project=project, key="text-000").update(text=long)
    report = facts.build_report(snapshot)
    assert [item.key for item in report.appendix] == ["text-000"]
    table, appendix = render_report(snapshot).split("Appendix: texts in full")
    assert long not in table
    assert long in appendix


def test_a_long_ranking_shows_the_best_of_each_part(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = make_fitted_study(project)
    monkeypatch.setattr(facts, "MAX_ROWS", 5)
    report = facts.build_report(snapshot)
    assert [row.entry.rank for part in report.parts for row in part.rows] == [1, 2, 3, 4, 5]
    assert not report.is_complete
    assert "The tables show 5 of 18 items" in visible_text(render_report(snapshot))


def test_no_worker_appears(messy: ModelSnapshot) -> None:
    html = render_report(messy)
    assert not [code for code in Worker.objects.values_list("code", flat=True) if code in html]
    assert "young" not in html


def test_a_study_without_components_says_so(messy: ModelSnapshot) -> None:
    report = facts.build_report(messy)
    sentence = "The judgements show no components: workers do not differ"
    assert (sentence in render_report(messy)) == (not report.components.axes)


def test_one_worker_is_not_several(db: None) -> None:
    study = make_study("small", texts=TEXTS)
    answer(study, [(0, a, b, "first") for b in range(5) for a in range(b)])
    text = " ".join(visible_text(render_report(fit(study))).split())
    assert "1 worker gave 10 judgements of pairs of 5 items." in text
    assert "in the appendix" not in text, "no text is cut"
    assert "Nothing is safe to claim yet" in text


def test_a_study_of_ties_says_why_it_has_no_reliability(db: None) -> None:
    study = make_study("ties", texts=TEXTS)
    answer(study, [(worker, a, b, "tie") for worker in range(3) for b in range(5) for a in range(b)])
    snapshot = fit(study)
    reasons = {each.name: each.reason for each in facts.build_report(snapshot).reliability.measures}
    assert reasons["ssr"] == reasons["alpha"] == "All answers are ties."
    assert reasons["self_consistency"] == "Not enough data."
    assert reasons["tie_rate"] == ""
    assert "0.00 ±" in visible_text(render_report(snapshot))


def test_the_methods_state_the_hyperparameters(messy: ModelSnapshot) -> None:
    lapse = floatformat(100 * messy.hyperparameters["lapse"], 1)
    assert f"answers given at random = {lapse} %" in " ".join(visible_text(render_report(messy)).split())
    messy.diagnostics.pop("hyperparameters")
    assert "The model learned" not in render_report(messy)


def test_the_report_is_german_if_asked(messy: ModelSnapshot) -> None:
    html = render_report(messy, "de")
    assert '<html lang="de"' in html
    assert "Reproduzierbarkeit" in html
    assert "Reproducibility" not in html


def test_the_same_version_gives_the_same_bytes(project: Project) -> None:
    snapshot = make_fitted_study(project)
    first = render_report(snapshot)
    Judgement.objects.filter(project=project).first()
    assert render_report(ModelSnapshot.objects.get(pk=snapshot.pk)) == first
    assert update_one("test") is None
