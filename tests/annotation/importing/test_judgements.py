"""Importing judgements: rows, event log, idempotence, problem messages, the import page and the commands."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation.importing.judgement_files import read_judgements
from annotation.importing.judgements import import_judgements
from annotation.importing.problems import ImportFileError
from annotation.models import AuditEntry, EventHead, Judgement, PlatformIdentity, Project, User, Worker
from annotation.services import create_project
from annotation.services.items import correct_item
from annotation.storage import event_log
from tests.helpers.imports import upload, write

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

GOOD = "worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-3,cats-1,A\nbob,cats-2,cats-1, Tie \nbob,dogs-1,cats-1,b\n"
UKPCONVARG = os.environ.get("CONCORD_UKPCONVARG", "")


def run_import(project: Project, folder: Path, content: str) -> dict[str, int]:
    return import_judgements(project=project, user=None, rows=read_judgements(write(folder, content))).counts


def winners(project: Project) -> list[str]:
    """The preferred item of each judgement, in log order."""
    rows = project.judgements.order_by("sequence").select_related("item_lo", "item_hi")
    return [{"lo": row.item_lo.key, "hi": row.item_hi.key}.get(row.choice, "tie") for row in rows]


def chain_is_intact(project: Project) -> bool:
    previous = ""
    for number, event in enumerate(project.judgements.order_by("sequence"), start=1):
        if (event.sequence, event.previous_hash, event.hash) != (number, previous, event_log.event_hash(event)):
            return False
        previous = event.hash
    head = EventHead.objects.get(project=project)
    return (head.sequence, head.hash) == (project.judgements.count(), previous)


def test_rows_become_judgements_in_canonical_order_and_one_hash_chain(project: Project, tmp_path: Path) -> None:
    assert run_import(project, tmp_path, GOOD) == {"added": 4, "ties": 1, "workers": 2, "unchanged": 0, "traits": 0}
    assert winners(project) == ["cats-1", "cats-3", "tie", "cats-1"]
    assert chain_is_intact(project)
    for judgement in project.judgements.all():
        assert (judgement.source, judgement.assignment, judgement.lo_was_left) == ("import", None, None)


def test_imported_judgements_count_towards_the_load_of_items(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    run_import(project, tmp_path, GOOD)
    loads = dict(project.items.exclude(load=0).values_list("key", "load"))
    assert loads == {"cats-1": 4, "cats-2": 2, "cats-3": 1, "dogs-1": 1}


def test_worker_names_are_stored_only_as_platform_identities(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    identities = PlatformIdentity.objects.filter(project=project, platform="import")
    assert set(identities.values_list("external_id", flat=True)) == {"ann", "bob"}
    assert not Worker.objects.filter(code__in=["ann", "bob"]).exists()
    assert set(Worker.objects.values_list("state", flat=True)) == {"finished"}


def test_importing_the_same_file_again_adds_nothing(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    audits = AuditEntry.objects.count()
    assert run_import(project, tmp_path, GOOD) == {"added": 0, "ties": 0, "workers": 0, "unchanged": 4, "traits": 0}
    assert (project.judgements.count(), Worker.objects.count(), AuditEntry.objects.count()) == (4, 2, audits)


def test_a_longer_file_adds_only_the_new_rows(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    longer = GOOD + "ann,dogs-1,dogs-2,b\ncem,dogs-1,dogs-2,a\n"
    assert run_import(project, tmp_path, longer) == {"added": 2, "ties": 0, "workers": 1, "unchanged": 4, "traits": 0}
    assert chain_is_intact(project)


def test_a_repeated_pair_in_one_file_is_another_round(project: Project, tmp_path: Path) -> None:
    repeats = "worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-2,cats-1,a\nann,cats-1,cats-2,tie\n"
    run_import(project, tmp_path, repeats)
    assert list(project.judgements.values_list("round", flat=True)) == [1, 2, 3]
    assert winners(project) == ["cats-1", "cats-2", "tie"]
    assert run_import(project, tmp_path, repeats)["added"] == 0


def test_a_corrected_item_does_not_duplicate_imported_judgements(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    correct_item(item=project.items.get(key="cats-1"), user=None, text="Cats purr well.", group="cats")
    assert run_import(project, tmp_path, GOOD)["unchanged"] == 4
    assert set(project.judgements.filter(item_lo__key="cats-1").values_list("item_lo__revision", flat=True)) == {1}
    run_import(project, tmp_path, "worker,a,b,choice\ncem,cats-1,cats-2,a\n")
    assert winners(project)[-1] == "cats-1"


def test_an_erased_worker_does_not_return_with_the_same_file(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    PlatformIdentity.objects.filter(external_id="ann").delete()
    assert run_import(project, tmp_path, GOOD)["workers"] == 0
    assert not PlatformIdentity.objects.filter(external_id="ann").exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_of_one_file_add_its_judgements_once(project: Project, tmp_path: Path) -> None:
    rows = read_judgements(write(tmp_path, GOOD))

    def import_rows(_: int) -> int:
        try:
            return import_judgements(project=project, user=None, rows=rows).counts["added"]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(import_rows, range(4))) == [0, 0, 0, 4]
    assert chain_is_intact(project)


INVALID_FILES = {
    "empty": ("", "At least 1 judgement is needed.", None),
    "header only": ("worker,a,b,choice\n", "At least 1 judgement is needed.", None),
    "no choice column": ("worker,a,b\nann,cats-1,cats-2\n", "is missing", (1, "choice")),
    "another choice": ("worker,a,b,choice\nann,cats-1,cats-2,upper\n", "a, b or tie", (2, "choice")),
    "no worker": ("worker,a,b,choice\n,cats-1,cats-2,a\n", "empty", (2, "worker")),
    "long worker": (f"worker,a,b,choice\n{'w' * 201},cats-1,cats-2,a\n", "200", (2, "worker")),
    "with itself": ("worker,a,b,choice\nann,cats-1,cats-1,a\n", "itself", (2, "b")),
    "unknown item": (
        "worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-1,fish-1,a\n",
        "no items with these keys: “fish-1”",
        (3, "a, b"),
    ),
    "item but for case": ("worker,a,b,choice\nann,Cats-1,cats-2,a\n", "did you mean “cats-1”?", (2, "a, b")),
    "uneven": ("worker,a,b,choice\nann,cats-1,cats-2\n", "3 columns", (2, "")),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_problems_are_reported_with_line_and_column(project: Project, olga: Client, tmp_path: Path, name: str) -> None:
    content, message, place = INVALID_FILES[name]
    with pytest.raises(ImportFileError) as caught:
        run_import(project, tmp_path, content)
    assert message in caught.value.format_text()
    if place is not None:
        assert place in [(problem.line, problem.column) for problem in caught.value.problems]
    response = upload(olga, project, "judgements", content)
    assert response.status_code == 422
    assert "Nothing was imported" in response.content.decode()
    assert (project.judgements.count(), Worker.objects.count()) == (0, 0)


def test_a_different_answer_to_an_imported_pair_is_rejected(project: Project, tmp_path: Path) -> None:
    run_import(project, tmp_path, GOOD)
    with pytest.raises(ImportFileError, match="Line 2, column “choice”: The study already has different answers"):
        run_import(project, tmp_path, GOOD.replace("cats-2,a", "cats-2,b"))
    assert winners(project)[0] == "cats-1"


def test_an_upload_is_previewed_then_confirmed(project: Project, olga: Client) -> None:
    preview = upload(olga, project, "judgements", GOOD)
    assert preview.context["plan"].counts == {"added": 4, "ties": 1, "workers": 2, "unchanged": 0, "traits": 0}
    assert not project.judgements.exists()
    address = f"/projects/{project.slug}/judgements/import/"
    done = olga.post(address, {"ticket": preview.context["ticket"]}, follow=True)
    assert "4 judgements added, 0 unchanged." in done.content.decode()
    assert chain_is_intact(project)
    assert olga.post(address, {"ticket": preview.context["ticket"]}).status_code == 409
    assert project.judgements.count() == 4


def test_an_import_announces_its_judgements_once(
    project: Project, tmp_path: Path, settings, django_capture_on_commit_callbacks
) -> None:
    announced.clear()
    settings.AFTER_JUDGEMENT = [f"{__name__}.record_announcement"]
    with django_capture_on_commit_callbacks(execute=True):
        run_import(project, tmp_path, GOOD)
    assert announced == [project.pk]


announced: list[int] = []


def record_announcement(project_id: int) -> None:
    announced.append(project_id)


def test_the_commands_read_a_ukpconvarg_folder(owner: User, ukpconvarg_folder: Path, capsys) -> None:
    project = create_project(owner=owner, slug="water", title="Water")
    call_command("import_items", "water", str(ukpconvarg_folder))
    call_command("import_judgements", "water", str(ukpconvarg_folder))
    assert "9 added (3 ties, 3 new workers)" in capsys.readouterr().out
    assert (project.items.count(), project.workers.count(), project.judgements.count()) == (6, 3, 9)
    call_command("import_judgements", "water", str(ukpconvarg_folder / "judgements.csv"))
    assert "0 added (0 ties, 0 new workers), 9 unchanged." in capsys.readouterr().out


def test_the_command_reports_problems_with_line_and_column(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Line 2, column “choice”: Invalid choices: “upper”") as caught:
        call_command("import_judgements", project.slug, str(write(tmp_path, INVALID_FILES["another choice"][0])))
    assert caught.value.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not UKPCONVARG, reason="CONCORD_UKPCONVARG does not name a folder")
def test_the_complete_ukpconvarg_data_set_is_imported(owner: User) -> None:
    project = create_project(owner=owner, slug="ukp", title="UKPConvArg")
    call_command("import_items", "ukp", UKPCONVARG)
    call_command("import_judgements", "ukp", UKPCONVARG)
    ties = project.judgements.filter(choice=Judgement.Choice.TIE)
    assert (project.items.count(), project.workers.count()) == (1052, 1442)
    assert (project.judgements.count(), ties.count()) == (16_927, 3698)
