"""The ranking as a file: page, admin and command line give the same bytes."""

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from annotation import services
from annotation.http.downloads import escape_formula
from annotation.models import AuditEntry, Item, Project, User
from modelling.models import ModelSnapshot
from modelling.updater.update import update_one

pytestmark = pytest.mark.django_db

ADMIN_ACTION = {"action": "export_projects", "what": "ranking", "format": "csv"}


@pytest.fixture
def snapshot(project: Project, judge: Callable[..., services.Receipt]) -> ModelSnapshot:
    Item.objects.filter(key="cats-1").update(key="=cats-1", text="+1 for cats, said\nthe cat")
    for choice in ("left", "right"):
        worker = services.enrol(project=project)
        for _ in range(4):
            judge(worker, choice)
    published = update_one("test")
    assert published is not None
    return published


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_the_file_has_the_order_version_and_event_of_the_page(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).get("/projects/pets/ranking.csv")
    assert answer["Content-Disposition"] == 'attachment; filename="pets-ranking-seq8-v1.csv"'
    rows = rows_of(answer.getvalue())
    assert [int(row["rank"]) for row in rows] == list(range(1, 8))
    assert {(row["version"], row["as_of_seq"]) for row in rows} == {("1", "8")}
    means = [float(row["mean"]) for row in rows]
    assert means == sorted(means, reverse=True)
    assert AuditEntry.objects.filter(action="exported the ranking", user=owner).exists()


def test_page_admin_and_command_give_the_same_bytes(
    snapshot: ModelSnapshot, owner: User, admin_client: Client, log_in: Callable[[User], Client], tmp_path: Path
) -> None:
    call_command("export", "pets", "--output", str(tmp_path / "r.csv"))
    selected = {**ADMIN_ACTION, "_selected_action": [snapshot.project_id]}
    from_admin = admin_client.post("/admin/annotation/project/", selected)
    from_page = log_in(owner).get("/projects/pets/ranking.csv")
    assert (tmp_path / "r.csv").read_bytes() == from_page.getvalue() == from_admin.getvalue()


def test_admin_names_projects_without_a_ranking(snapshot: ModelSnapshot, owner: User, admin_client: Client) -> None:
    other = services.create_project(owner=owner, slug="more", title="More")
    only_empty = {**ADMIN_ACTION, "_selected_action": [other.pk]}
    page = admin_client.post("/admin/annotation/project/", only_empty, follow=True).text
    assert "More: This study has no ranking yet" in page


def test_two_rankings_are_zipped(
    snapshot: ModelSnapshot, owner: User, admin_client: Client, judge: Callable[..., services.Receipt]
) -> None:
    other = services.create_project(owner=owner, slug="more", title="More", state="open", update_batch=1)
    for text in ("Tea.", "Coffee.", "Water."):
        Item.objects.create(project=other, key=text, text=text)
    judge(services.enrol(project=other))
    assert update_one("test") is not None
    both = {**ADMIN_ACTION, "_selected_action": [snapshot.project_id, other.pk]}
    answer = admin_client.post("/admin/annotation/project/", both)
    names = zipfile.ZipFile(io.BytesIO(answer.getvalue())).namelist()
    assert names == ["more-ranking-seq1-v1.csv", "pets-ranking-seq8-v1.csv"]


def test_texts_cannot_become_formulas_and_numbers_stay_numbers(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    rows = rows_of(log_in(owner).get("/projects/pets/ranking.csv").getvalue())
    odd = next(row for row in rows if "cats-1" in row["key"])
    assert (odd["key"], odd["text"]) == ("'=cats-1", "'+1 for cats, said\nthe cat")
    assert min(float(row["mean"]) for row in rows) < 0
    cells = {-1.5: -1.5, "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "plain": "plain", "": ""}
    assert [escape_formula(cell) for cell in cells] == list(cells.values())


def test_without_a_ranking_the_page_and_the_command_fail(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    assert log_in(owner).get("/projects/pets/ranking.csv").status_code == 404
    with pytest.raises(CommandError, match="no ranking yet"):
        call_command("export", "pets")
    with pytest.raises(CommandError, match="no project called"):
        call_command("export", "nothing")


def test_an_unwritable_output_file_is_reported(snapshot: ModelSnapshot, tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nowhere" / "r.csv", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(CommandError, match=f"could not be written to {place}: {why}"):
            call_command("export", "pets", "--output", str(place))
