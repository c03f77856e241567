"""A study made of imported files: from file to ranking, with the workers' own IDs, reasons, times and extra columns."""

import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from annotation.models import Project, User, Worker
from annotation.services import create_project, erase_worker
from modelling.updater import update

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ITEMS = "id,label\n1,Car\n2,Bus\n3,Pram\n4,Drone\n"
JUDGEMENTS = """judge,left,right,winner,submitted,response_ms,comment,device
n70,1,2,1,Wed Apr 14 20:01:15 GMT 2010,3732,Heavier and louder.,phone
n70,2,3,2,Wed Apr 14 20:02:15 GMT 2010,2100,,phone
n71,1,3,1,Wed Apr 14 20:03:15 GMT 2010,900,,
n71,3,4,tie,Wed Apr 14 20:04:15 GMT 2010,1100,Neither is a vehicle.,tablet
n71,2,4,2,,1300,,
"""


@pytest.fixture
def park(owner: User, olga: Client) -> Project:
    """A study whose items and judgements were imported through the pages, with a version."""
    project = create_project(owner=owner, slug="park", title="Park")
    for kind, content in (("items", ITEMS), ("judgements", JUDGEMENTS)):
        address = f"/projects/park/{kind}/import/"
        preview = olga.post(address, {"file": SimpleUploadedFile("file.csv", content.encode())})
        assert olga.post(address, {"ticket": preview.context["ticket"]}).status_code == 302
    update.update_one("test")
    return project


def export(client: Client, what: str) -> list[dict[str, Any]]:
    response = client.post("/projects/park/exports/", {"what": what, "format": "csv"})
    content = b"".join(response.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(content)))


def test_the_ranking_of_an_imported_study_is_shown(park: Project, olga: Client) -> None:
    page = olga.get("/projects/park/ranking/").content.decode()
    assert page.index("Car") < page.index("Drone")


def test_members_see_the_workers_own_ids_and_reasons(park: Project, olga: Client, viewer: User) -> None:
    code = Worker.objects.get(identity__external_id="n70").code
    assert "n70" in olga.get("/projects/park/workers/").content.decode()
    found = olga.get("/projects/park/workers/?q=n71").context["page"].rows
    assert [row.original_id for row in found] == ["n71"]
    page = olga.get(f"/projects/park/workers/{code}/").content.decode()
    assert "ID in the imported file:" in page
    assert "Heavier and louder." in page
    item = park.items.get(key="4")
    assert "Neither is a vehicle." in olga.get(f"/projects/park/ranking/{item.pk}/").content.decode()


def test_exports_have_times_reasons_and_extra_columns(park: Project, olga: Client) -> None:
    first, *_others, last = export(olga, "judgements")
    assert (first["judged_at"], first["note"], first["extra:device"], first["response_ms"]) == (
        "2010-04-14T20:01:15.000000+00:00", "Heavier and louder.", "phone", "3732",
    )  # fmt: skip
    assert (last["judged_at"], last["note"], last["extra:device"]) == ("", "", "")
    assert "n70" not in str(export(olga, "workers") + export(olga, "judgements"))


def test_original_ids_are_exported_in_a_table_of_their_own(park: Project, olga: Client, owner: User) -> None:
    assert {row["original_id"] for row in export(olga, "worker_ids")} == {"n70", "n71"}
    erase_worker(worker=Worker.objects.get(identity__external_id="n70"), user=owner)
    assert [row["original_id"] for row in export(olga, "worker_ids")] == ["n71"]
    assert "Heavier and louder." not in str(export(olga, "judgements"))


def test_an_exported_study_is_imported_again_with_its_details(park: Project, olga: Client, owner: User) -> None:
    exported = olga.post("/projects/park/exports/", {"what": "judgements", "format": "csv"})
    content = b"".join(exported.streaming_content)
    create_project(owner=owner, slug="copy", title="Copy")
    for kind, uploaded in (("items", ITEMS.encode()), ("judgements", content)):
        address = f"/projects/copy/{kind}/import/"
        preview = olga.post(address, {"file": SimpleUploadedFile("file.csv", uploaded)})
        assert olga.post(address, {"ticket": preview.context["ticket"]}).status_code == 302
    copied = Project.objects.get(slug="copy").judgements.earliest("sequence")
    assert (copied.details.columns, copied.note.text) == ({"device": "phone"}, "Heavier and louder.")
    assert copied.details.judged_at.year == 2010
