"""The import pages: columns can be changed, rows of one study chosen and files split; odd items are pointed out."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from annotation.importing.background import continue_imports
from annotation.models import ImportedDetails, JudgementNote, Membership, PlatformIdentity, Project, User, Worker
from annotation.services import create_project, erase_worker
from annotation.services.verification import find_problems
from tests.helpers.imports import upload

pytestmark = pytest.mark.django_db

REAL_STUDIES = os.environ.get("CONCORD_STUDIES", "")
ITEMS = "key,text\n" + "".join(f"{n},Vehicle {n}\n" for n in range(1, 5))
VEHICLES = """study,worker,left,right,winner,response_ms,comment
nuisance,n70,1,2,2,3732,
nuisance,n70,2,3,2,2100,It is louder.
violation,v1,1,2,1,900,
violation,v1,3,4,4,1100,
"""


@pytest.fixture
def park(owner: User) -> Project:
    """A draft study without items."""
    return create_project(owner=owner, slug="park", title="Vehicles in the park")


def post(client: Client, project: Project, kind: str, data: dict[str, Any]) -> Any:
    return client.post(f"/projects/{project.slug}/{kind}/import/", data)


def uses_in(page: Any) -> dict[str, str]:
    form = page.context["form"]
    return {form.fields[name].label: form[name].value() for name in form.fields if name.startswith("use_")}


def fields(page: Any, rows: str = "", **uses: str) -> dict[str, str]:
    """The values of the form on the page, with other rows to import or other uses of the columns of these names."""
    form = page.context["form"]
    values = {name: form[name].value() for name in form.fields}
    labels = {form.fields[name].label: name for name in form.fields}
    changes = {labels[name]: use for name, use in uses.items()} | ({"study": rows} if rows else {})
    return {"ticket": page.context["ticket"], **values, **changes}


def import_file(client: Client, project: Project, kind: str, content: str | bytes, **changes: str) -> Any:
    page = upload(client, project, kind, content)
    if changes:
        page = post(client, project, kind, fields(page, **changes))
    assert page.status_code == 200, page.content.decode()
    done = post(client, project, kind, {**fields(page), "import": "on"})
    assert done.status_code == 302, done.content.decode()
    return done


def test_the_page_shows_the_columns_with_examples_and_guessed_uses(park: Project, olga: Client) -> None:
    page = upload(olga, park, "items", "id,label,prompt\n1,Car,Which?\n2,Bus,Which?\n")
    assert uses_in(page) == {"id": "key", "label": "text", "prompt": "group"}
    assert "Car" in page.content.decode()
    assert page.context["plan"].counts["added"] == 2


def test_a_changed_use_gets_a_new_preview_before_anything_is_imported(park: Project, olga: Client) -> None:
    page = upload(olga, park, "items", "id,label,year\n1,Car,1990\n2,Bus,2001\n")
    changed = post(olga, park, "items", {**fields(page, year="feature"), "import": "on"})
    assert (changed.status_code, uses_in(changed)["year"], park.items.count()) == (200, "feature", 0)
    post(olga, park, "items", {**fields(changed), "import": "on"})
    assert [item.features for item in park.items.all()] == [{"year": 1990.0}, {"year": 2001.0}]


def test_a_file_with_missing_columns_can_be_mapped_on_the_page(park: Project, olga: Client) -> None:
    page = upload(olga, park, "items", "Code Nr,Fahrzeug\n1,Auto\n2,Bus\n")
    assert page.status_code == 422
    assert "Columns are missing: “key”, “text”" in page.content.decode()
    mapped = post(olga, park, "items", fields(page, **{"Code Nr": "key", "Fahrzeug": "text"}))
    post(olga, park, "items", {**fields(mapped), "import": "on"})
    assert set(park.items.values_list("key", "text")) == {("1", "Auto"), ("2", "Bus")}


def test_two_columns_cannot_have_the_same_single_use(park: Project, olga: Client) -> None:
    page = upload(olga, park, "items", "id,label,name\n1,Car,C\n2,Bus,B\n")
    refused = post(olga, park, "items", {**fields(page, name="text"), "import": "on"})
    assert refused.status_code == 422
    assert "Only one column can be used as: Text that workers read." in refused.content.decode()
    assert not park.items.exists()


def test_identical_texts_and_lone_items_are_pointed_out(park: Project, olga: Client) -> None:
    content = "key,text,group\nk1,Same.,g\nk2,Same.,g\nk3,Same.,h\n"
    page = upload(olga, park, "items", content).content.decode()
    assert "1 text appears more than once in its group: k1 = k2." in page
    assert "1 item is alone in its group and will never be judged: k3." in page


def test_rows_of_one_study_are_chosen_on_the_page(park: Project, olga: Client) -> None:
    import_file(olga, park, "items", ITEMS)
    page = upload(olga, park, "judgements", VEHICLES)
    assert page.status_code == 200
    assert "rows of several studies" in page.content.decode()
    assert "plan" not in page.context
    chosen = post(olga, park, "judgements", fields(page, rows="=nuisance"))
    assert chosen.context["plan"].counts["added"] == 2
    post(olga, park, "judgements", {**fields(chosen), "import": "on"})
    first, second = park.judgements.order_by("sequence")
    assert (first.choice, first.response_ms, second.note.text) == ("hi", 3732, "It is louder.")
    assert PlatformIdentity.objects.get(worker=first.worker).external_id == "n70"
    assert not list(find_problems(park))


def test_a_file_is_split_into_one_copy_per_study(park: Project, olga: Client) -> None:
    import_file(olga, park, "items", ITEMS)
    import_file(olga, park, "judgements", VEHICLES, rows="split")
    nuisance, violation = Project.objects.filter(slug__startswith="park-").order_by("slug")
    assert (nuisance.slug, nuisance.title) == ("park-nuisance", "Vehicles in the park: nuisance")
    assert [study.judgements.count() for study in (park, nuisance, violation)] == [0, 2, 2]
    assert violation.items.count() == 4
    again = post(olga, park, "judgements", fields(upload(olga, park, "judgements", VEHICLES), rows="split"))
    assert again.context["plan"].counts["unchanged"] == 4
    assert not again.context["plan"].changes_anything


def test_only_owners_can_split_a_file(park: Project, olga: Client, analyst: User) -> None:
    import_file(olga, park, "items", ITEMS)
    Membership.objects.create(project=park, user=analyst, role="analyst")
    client = Client()
    client.force_login(analyst)
    page = upload(client, park, "judgements", VEHICLES)
    assert "Import each study into a copy" not in page.content.decode()
    assert post(client, park, "judgements", fields(page, rows="split")).status_code == 422


def test_traits_are_imported_and_the_first_of_several_values_counts(park: Project, olga: Client) -> None:
    import_file(olga, park, "items", ITEMS)
    content = "worker,a,b,choice,background\nw,1,2,a,piano\nw,2,3,b,guitar\nv,1,2,tie,\n"
    page = post(olga, park, "judgements", fields(upload(olga, park, "judgements", content), background="trait"))
    assert "several values for the same worker in 1 rows" in page.content.decode()
    post(olga, park, "judgements", {**fields(page), "import": "on"})
    assert sorted(worker.traits.get("background", "") for worker in park.workers.all()) == ["", "piano"]


def test_the_preview_separates_the_extra_columns(park: Project, olga: Client) -> None:
    import_file(olga, park, "items", "key,text\n1,Car\n2,Bus\n")
    page = upload(olga, park, "judgements", "worker,a,b,choice,mood,room\nw1,1,2,a,calm,B4\n")
    page = post(olga, park, "judgements", fields(page, mood="keep", room="keep"))
    texts = strip_tags(page.content.decode().replace("</div>", "; "))
    assert "mood: calm; room: B4" in " ".join(texts.split())


def test_traits_can_be_added_by_importing_the_same_file_again(park: Project, olga: Client) -> None:
    import_file(olga, park, "items", ITEMS)
    content = "worker,a,b,choice,background\nw,1,2,a,piano\n"
    import_file(olga, park, "judgements", content)
    import_file(olga, park, "judgements", content, background="trait")
    assert (park.judgements.count(), park.workers.get().traits) == (1, {"background": "piano"})


def test_erasing_a_worker_erases_their_id_details_and_reasons(park: Project, olga: Client, owner: User) -> None:
    import_file(olga, park, "items", ITEMS)
    content = "worker,a,b,choice,timestamp,comment,ip\nann,1,2,a,2026-03-01T10:00:00Z,Louder.,192.0.2.1\n"
    import_file(olga, park, "judgements", content)
    details = ImportedDetails.objects.get()
    assert (details.judged_at.isoformat(), details.columns) == ("2026-03-01T10:00:00+00:00", {"ip": "192.0.2.1"})
    erase_worker(worker=Worker.objects.get(project=park), user=owner)
    counts = [kind.objects.count() for kind in (ImportedDetails, JudgementNote, PlatformIdentity)]
    assert (counts, park.judgements.count()) == ([0, 0, 0], 1)
    assert not list(find_problems(park))


@pytest.mark.slow
@pytest.mark.skipif(
    not REAL_STUDIES, reason="CONCORD_STUDIES does not name a folder with vehicles, music and ukpconvarg"
)
@pytest.mark.parametrize(
    ("study", "choices", "counts", "details"),
    [
        ("vehicles", {"rows": "=nuisance_pairs"}, (26, 2000), False),
        ("music", {}, (118, 2805), True),
        ("ukpconvarg", {}, (1052, 16_927), True),
    ],
)
def test_real_studies_are_imported_as_they_are(
    park: Project, olga: Client, study: str, choices: dict[str, str], counts: tuple[int, int], details: bool
) -> None:
    folder = Path(REAL_STUDIES) / study
    import_file(olga, park, "items", (folder / "items.csv").read_bytes())
    import_file(olga, park, "judgements", (folder / "judgements.csv").read_bytes(), **choices)
    while continue_imports():  # large files are appended by the updater
        pass
    assert (park.items.count(), park.judgements.count()) == counts
    assert ImportedDetails.objects.exists() == details
    assert not list(find_problems(park))
