"""Past judgements from files: the right rows in the right order in one chain, all or nothing, twice is once."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation import ledger
from annotation.curation import correct_item
from annotation.importing.judgements import import_judgements, read_judgements
from annotation.importing.problems import ImportRefused
from annotation.models import AuditEntry, EventHead, Judgement, PlatformIdentity, Project, User, Worker
from annotation.services import create_project

pytestmark = pytest.mark.django_db

GOOD = "worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-3,cats-1,A\nbob,cats-2,cats-1, Tie \nbob,dogs-1,cats-1,b\n"
UKPCONVARG = os.environ.get("CONCORD_UKPCONVARG", "")


@pytest.fixture
def olga(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture
def ukpconvarg_like(tmp_path: Path) -> Path:
    """A small folder in the layout of UKPConvArg: 6 items, 3 workers, 9 judgements, 3 of them ties."""
    items = ["item_id,fold,topic,stance,source_site,text"]
    items += [f"arg{n},{n % 2},Water,{'Yes' if n % 2 else 'No'},site,Text {n}" for n in range(6)]
    rows = ["worker_id,item_a,item_b,choice,fold"]
    rows += [f"w{w},arg{a},arg{a + 2},{choice},0" for w in range(3) for a, choice in enumerate(("a", "b", "tie"))]
    (tmp_path / "items.csv").write_text("\n".join(items) + "\n", encoding="utf-8")
    (tmp_path / "judgements.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def write(folder: Path, content: str) -> Path:
    path = folder / "judgements of any name"
    path.write_text(content, encoding="utf-8")
    return path


def take_in(project: Project, folder: Path, content: str) -> dict[str, int]:
    return import_judgements(project=project, user=None, rows=read_judgements(write(folder, content))).counts


def upload(client: Client, project: Project, content: str):
    file = SimpleUploadedFile("x.csv", content.encode())
    return client.post(f"/projects/{project.slug}/judgements/import/", {"file": file})


def winners(project: Project) -> list[str]:
    """Who won each judgement, in the order of the log."""
    rows = project.judgements.order_by("sequence").select_related("item_lo", "item_hi")
    return [{"lo": row.item_lo.key, "hi": row.item_hi.key}.get(row.choice, "tie") for row in rows]


def chain_is_whole(project: Project) -> bool:
    previous = ""
    for number, event in enumerate(project.judgements.order_by("sequence"), start=1):
        if (event.sequence, event.previous_hash, event.hash) != (number, previous, ledger.fingerprint(event)):
            return False
        previous = event.hash
    head = EventHead.objects.get(project=project)
    return (head.sequence, head.hash) == (project.judgements.count(), previous)


def test_answers_become_judgements_in_canonical_order_and_one_chain(project: Project, tmp_path: Path) -> None:
    assert take_in(project, tmp_path, GOOD) == {"added": 4, "ties": 1, "workers": 2, "unchanged": 0}
    assert winners(project) == ["cats-1", "cats-3", "tie", "cats-1"]
    assert chain_is_whole(project)
    for judgement in project.judgements.all():
        assert (judgement.source, judgement.assignment, judgement.lo_was_left) == ("import", None, None)


def test_imported_judgements_count_when_the_least_judged_items_are_looked_for(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    take_in(project, tmp_path, GOOD)
    loads = dict(project.items.exclude(load=0).values_list("key", "load"))
    assert loads == {"cats-1": 4, "cats-2": 2, "cats-3": 1, "dogs-1": 1}


def test_workers_get_a_random_code_and_their_name_is_kept_apart(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    identities = PlatformIdentity.objects.filter(project=project, platform="import")
    assert set(identities.values_list("external_id", flat=True)) == {"ann", "bob"}
    assert not Worker.objects.filter(code__in=["ann", "bob"]).exists()
    assert set(Worker.objects.values_list("state", flat=True)) == {"finished"}


def test_the_same_file_twice_adds_nothing(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    audits = AuditEntry.objects.count()
    assert take_in(project, tmp_path, GOOD) == {"added": 0, "ties": 0, "workers": 0, "unchanged": 4}
    assert (project.judgements.count(), Worker.objects.count(), AuditEntry.objects.count()) == (4, 2, audits)


def test_a_longer_file_adds_only_what_is_new(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    longer = GOOD + "ann,dogs-1,dogs-2,b\ncem,dogs-1,dogs-2,a\n"
    assert take_in(project, tmp_path, longer) == {"added": 2, "ties": 0, "workers": 1, "unchanged": 4}
    assert chain_is_whole(project)


def test_the_same_pair_again_in_one_file_is_another_round(project: Project, tmp_path: Path) -> None:
    repeats = "worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-2,cats-1,a\nann,cats-1,cats-2,tie\n"
    take_in(project, tmp_path, repeats)
    assert list(project.judgements.values_list("round", flat=True)) == [1, 2, 3]
    assert winners(project) == ["cats-1", "cats-2", "tie"]
    assert take_in(project, tmp_path, repeats)["added"] == 0


def test_a_correction_between_two_imports_does_not_let_the_file_in_twice(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    correct_item(item=project.items.get(key="cats-1"), user=None, text="Cats purr well.", group="cats")
    assert take_in(project, tmp_path, GOOD)["unchanged"] == 4
    assert set(project.judgements.filter(item_lo__key="cats-1").values_list("item_lo__revision", flat=True)) == {1}
    take_in(project, tmp_path, "worker,a,b,choice\ncem,cats-1,cats-2,a\n")
    assert winners(project)[-1] == "cats-1"


def test_an_erased_worker_does_not_come_back_with_the_same_file(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    PlatformIdentity.objects.filter(external_id="ann").delete()
    assert take_in(project, tmp_path, GOOD)["workers"] == 0
    assert not PlatformIdentity.objects.filter(external_id="ann").exists()


@pytest.mark.django_db(transaction=True)
def test_the_same_file_imported_by_four_people_at_once_comes_in_once(project: Project, tmp_path: Path) -> None:
    rows = read_judgements(write(tmp_path, GOOD))

    def one_of_them(_: int) -> int:
        try:
            return import_judgements(project=project, user=None, rows=rows).counts["added"]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as people:
        assert sorted(people.map(one_of_them, range(4))) == [0, 0, 0, 4]
    assert chain_is_whole(project)


REFUSED = {
    "empty": ("", "At least 1 judgement is needed.", None),
    "header only": ("worker,a,b,choice\n", "At least 1 judgement is needed.", None),
    "no choice column": ("worker,a,b\nann,cats-1,cats-2\n", "no column", (1, "choice")),
    "another choice": ("worker,a,b,choice\nann,cats-1,cats-2,left\n", "a, b or tie", (2, "choice")),
    "no worker": ("worker,a,b,choice\n,cats-1,cats-2,a\n", "empty", (2, "worker")),
    "long worker": (f"worker,a,b,choice\n{'w' * 201},cats-1,cats-2,a\n", "200", (2, "worker")),
    "with itself": ("worker,a,b,choice\nann,cats-1,cats-1,a\n", "itself", (2, "b")),
    "unknown item": ("worker,a,b,choice\nann,cats-1,cats-2,a\nann,cats-1,fish-1,a\n", "no item “fish-1”", (3, "b")),
    "item but for case": ("worker,a,b,choice\nann,Cats-1,cats-2,a\n", "Is “cats-1” meant?", (2, "a")),
    "uneven": ("worker,a,b,choice\nann,cats-1,cats-2\n", "3 columns", (2, "")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_with_line_and_column(project: Project, olga: Client, tmp_path: Path, name: str) -> None:
    content, words, place = REFUSED[name]
    with pytest.raises(ImportRefused) as caught:
        take_in(project, tmp_path, content)
    assert words in caught.value.in_words()
    if place is not None:
        assert place in [(problem.line, problem.column) for problem in caught.value.problems]
    answer = upload(olga, project, content)
    assert answer.status_code == 422
    assert "Nothing was imported" in answer.content.decode()
    assert (project.judgements.count(), Worker.objects.count()) == (0, 0)


def test_another_answer_to_an_imported_pair_is_refused_and_the_first_kept(project: Project, tmp_path: Path) -> None:
    take_in(project, tmp_path, GOOD)
    with pytest.raises(ImportRefused, match="Line 2, column “choice”: The project has another answer"):
        take_in(project, tmp_path, GOOD.replace("cats-2,a", "cats-2,b"))
    assert winners(project)[0] == "cats-1"


def test_an_upload_is_previewed_and_then_confirmed(project: Project, olga: Client) -> None:
    preview = upload(olga, project, GOOD)
    assert preview.context["plan"].counts == {"added": 4, "ties": 1, "workers": 2, "unchanged": 0}
    assert not project.judgements.exists()
    address = f"/projects/{project.slug}/judgements/import/"
    done = olga.post(address, {"ticket": preview.context["ticket"]}, follow=True)
    assert "4 judgements were added" in done.content.decode()
    assert chain_is_whole(project)
    assert olga.post(address, {"ticket": preview.context["ticket"]}).status_code == 409
    assert project.judgements.count() == 4


def test_whoever_waits_for_judgements_is_told_once(
    project: Project, tmp_path: Path, settings, django_capture_on_commit_callbacks
) -> None:
    told.clear()
    settings.AFTER_JUDGEMENT = [f"{__name__}.hear"]
    with django_capture_on_commit_callbacks(execute=True):
        take_in(project, tmp_path, GOOD)
    assert told == [project.pk]


told: list[int] = []


def hear(project_id: int) -> None:
    told.append(project_id)


def test_the_commands_read_a_folder_laid_out_like_ukpconvarg(owner: User, ukpconvarg_like: Path, capsys) -> None:
    project = create_project(owner=owner, slug="water", title="Water")
    call_command("import_items", "water", str(ukpconvarg_like))
    call_command("import_judgements", "water", str(ukpconvarg_like))
    assert "9 added (3 ties, 3 new workers)" in capsys.readouterr().out
    assert (project.items.count(), project.workers.count(), project.judgements.count()) == (6, 3, 9)
    call_command("import_judgements", "water", str(ukpconvarg_like / "judgements.csv"))
    assert "0 added (0 ties, 0 new workers), 9 unchanged." in capsys.readouterr().out


def test_the_command_refuses_in_plain_words(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Line 2, column “choice”: “left” is not a choice") as caught:
        call_command("import_judgements", project.slug, str(write(tmp_path, REFUSED["another choice"][0])))
    assert caught.value.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not UKPCONVARG, reason="CONCORD_UKPCONVARG does not name a folder")
def test_the_ukpconvarg_folder_comes_in_whole(owner: User) -> None:
    project = create_project(owner=owner, slug="ukp", title="UKPConvArg")
    call_command("import_items", "ukp", UKPCONVARG)
    call_command("import_judgements", "ukp", UKPCONVARG)
    ties = project.judgements.filter(choice=Judgement.Choice.TIE)
    assert (project.items.count(), project.workers.count()) == (1052, 1442)
    assert (project.judgements.count(), ties.count()) == (16_927, 3698)
