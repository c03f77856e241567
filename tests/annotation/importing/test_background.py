"""Imports of many judgements: staged, started at once, appended in chunks, and continued after a kill."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from annotation.importing import background, judgements
from annotation.importing.background import continue_imports, import_judgements
from annotation.importing.judgement_files import ImportedJudgement, read_judgements
from annotation.importing.judgements import ImportRunning, JudgementImportPlan
from annotation.importing.split_by_study import import_split
from annotation.models import ImportChunk, Judgement, JudgementImport, PlatformIdentity, Project, User, Worker
from annotation.services import archive_project, delete_project, enrol, erase_worker
from annotation.services.items import add_item
from annotation.services.privacy.retention import erase_worker_data, idle_projects
from annotation.services.verification import find_problems
from modelling.updater import update_state
from tests.annotation.services.privacy.test_erasure import dump_database

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ROWS = 7
FILE = "worker,a,b,choice\n" + "".join(
    f"w{n % 3},cats-{a},cats-{b},{choice}\n"
    for n, (a, b, choice) in enumerate(
        [(1, 2, "a"), (2, 3, "b"), (3, 4, "tie"), (1, 3, "a"), (2, 4, "b"), (1, 4, "a"), (1, 2, "tie")]
    )
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "AT_ONCE", 2)
    monkeypatch.setattr(background, "BURST_SECONDS", 0.0001)  # about one chunk
    monkeypatch.setattr(judgements, "PART", 2)


def start(project: Project, folder: Path, content: str = FILE) -> JudgementImportPlan:
    path = folder / "judgements.csv"
    path.write_text(content, encoding="utf-8")
    return import_judgements(project=project, user=None, rows=read_judgements(path))


def finish() -> None:
    while continue_imports():
        pass


def test_nothing_changes_until_the_import_is_continued(project: Project, tmp_path: Path) -> None:
    plan = start(project, tmp_path)
    assert (plan.in_background, plan.counts["added"]) == (True, ROWS)
    assert not Judgement.objects.exists()
    assert not Worker.objects.exists()
    finish()
    job = JudgementImport.objects.get()
    assert (job.state, job.added, job.total) == ("done", ROWS, ROWS)
    assert not ImportChunk.objects.exists()
    assert list(Judgement.objects.values_list("sequence", flat=True)) == list(range(1, ROWS + 1))
    assert list(PlatformIdentity.objects.order_by("worker").values_list("external_id", flat=True)) == ["w0", "w1", "w2"]
    assert list(find_problems(project)) == []


def test_the_result_is_that_of_an_import_at_once(project: Project, tmp_path: Path, monkeypatch) -> None:
    start(project, tmp_path)
    finish()
    chunked = list(Judgement.objects.values_list("uuid", "item_lo", "item_hi", "choice", "round"))
    loads = list(project.items.order_by("pk").values_list("load", flat=True))
    assert start(project, tmp_path).counts["added"] == 0
    assert [str(planned[0]) for planned in chunked] == [
        record["uuid"]
        for part in judgements.split_plan(plan_of(project, tmp_path))
        for record in part.get("judgements", [])
    ]
    assert sum(loads) == 2 * ROWS


def plan_of(project: Project, folder: Path) -> JudgementImportPlan:
    """The plan of the same file in an empty log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgements, "_stored_winners", lambda project: {})
        return judgements.plan_judgements(project, read_judgements(folder / "judgements.csv"))


def test_times_notes_traits_and_extra_columns_are_imported(project: Project) -> None:
    at = timezone.now().replace(microsecond=0)
    details = {"judged_at": at, "response_ms": 0, "note": "Hard.", "extra": {"round": "2"}, "traits": {"age": "40"}}
    rows = [ImportedJudgement(n, "ann", "cats-1", f"cats-{n}", "b", **details) for n in (2, 3, 4)]
    import_judgements(project=project, user=None, rows=rows)
    finish()
    for judgement in Judgement.objects.select_related("details", "note"):
        assert (judgement.response_ms, judgement.choice, judgement.note.text) == (0, "hi", "Hard.")
        assert (judgement.details.judged_at, judgement.details.columns) == (at, {"round": "2"})
    assert Worker.objects.get().traits == {"age": "40"}
    assert Judgement.objects.count() == 3


def test_a_kill_between_chunks_loses_and_doubles_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(project, tmp_path)
    continue_imports()
    continue_imports()
    before = Judgement.objects.count()
    with monkeypatch.context() as killed:
        killed.setattr(judgements, "add_load", lambda pairs: 1 / 0)  # after the events of the chunk were written
        with pytest.raises(ZeroDivisionError):
            finish()
    assert Judgement.objects.count() == before
    finish()
    assert Judgement.objects.count() == ROWS
    assert list(find_problems(project)) == []


def test_a_kill_before_the_start_imports_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(background, "_start", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            start(project, tmp_path)
    finish()
    assert not Judgement.objects.exists()
    assert JudgementImport.objects.get().state == "staging"
    JudgementImport.objects.update(created_at=timezone.now() - timedelta(days=2))
    continue_imports()
    assert not JudgementImport.objects.exists()
    assert not ImportChunk.objects.exists()


def test_a_second_import_is_refused_until_the_first_is_complete(project: Project, tmp_path: Path) -> None:
    start(project, tmp_path)
    for content in (FILE, "worker,a,b,choice\nann,cats-1,cats-2,a\n"):
        with pytest.raises(ImportRunning):
            start(project, tmp_path, content)
    assert JudgementImport.objects.count() == 1
    finish()
    assert start(project, tmp_path, "worker,a,b,choice\nann,cats-1,cats-2,a\n").counts["added"] == 1


def test_rows_are_checked_again_if_the_study_changed_before_the_start(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, staged = background._stage, []

    def stage_while_an_item_is_added(*args: object) -> JudgementImport:
        staged.append(stage(*args))
        if len(staged) == 1:
            add_item(project=project, user=None, key="new", text="New.")
        return staged[-1]

    monkeypatch.setattr(background, "_stage", stage_while_an_item_is_added)
    start(project, tmp_path)
    assert len(staged) == 2
    assert JudgementImport.objects.get().state == "running"


def test_answers_are_recorded_between_chunks_and_the_model_waits_for_the_end(
    project: Project, tmp_path: Path, judge
) -> None:
    start(project, tmp_path)
    continue_imports()
    continue_imports()
    assert judge(enrol(project=project)).created
    assert update_state.claim_project("one") is None
    finish()
    assert update_state.claim_project("one").project == project
    assert Judgement.objects.count() == ROWS + 1
    assert list(find_problems(project)) == []


def test_the_import_of_a_deleted_study_ends(project: Project, owner: User, tmp_path: Path) -> None:
    start(project, tmp_path)
    continue_imports()
    archive_project(project=project, user=owner, archived=True)
    delete_project(project=project, user=owner)
    assert continue_imports() is False
    assert not JudgementImport.objects.exists()


def test_the_command_waits_for_the_end(project: Project, tmp_path: Path) -> None:
    (tmp_path / "judgements.csv").write_text(FILE, encoding="utf-8")
    call_command("import_judgements", "pets", str(tmp_path))
    assert Judgement.objects.count() == ROWS
    assert JudgementImport.objects.get().state == "done"


def test_the_page_of_the_study_shows_the_progress(project: Project, owner: User, log_in) -> None:
    client: Client = log_in(owner)
    address = f"/projects/{project.slug}/judgements/import/"
    page = client.post(address, {"file": SimpleUploadedFile("x.csv", FILE.encode())})
    assert client.post(address, {"ticket": page.context["ticket"]}).status_code == 302
    assert "0 of 7 judgements added" in client.get(f"/projects/{project.slug}/").text
    while Judgement.objects.count() < 4:
        continue_imports()
    fragment = client.get(f"/projects/{project.slug}/?fragment=1").text
    assert "4 of 7 judgements added" in fragment
    assert 'max="7"' in fragment
    finish()
    assert "of 7 judgements" not in client.get(f"/projects/{project.slug}/").text


def test_an_import_that_cannot_go_on_says_so_and_can_be_repeated(
    project: Project, owner: User, log_in, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise IntegrityError

    start(project, tmp_path)
    while Judgement.objects.count() < 4:
        continue_imports()
    with monkeypatch.context() as broken:
        broken.setattr(judgements, "append_part", refuse)
        finish()
    assert JudgementImport.objects.get().state == "failed"
    assert "stopped after 4 of 7 judgements" in log_in(owner).get(f"/projects/{project.slug}/").text
    start(project, tmp_path)
    finish()
    assert Judgement.objects.count() == ROWS


def test_a_split_file_starts_all_its_studies_together(
    project: Project, owner: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        ImportedJudgement(n, f"w{n % 3}", "cats-1", f"cats-{n % 3 + 2}", "a", study="one" if n < 4 else "two")
        for n in range(8)
    ]
    with monkeypatch.context() as killed:
        killed.setattr(background, "audit", lambda *args: 1 / 0)  # while the imports are being started
        with pytest.raises(ZeroDivisionError):
            import_split(project=project, user=owner, rows=rows)
    finish()
    assert not Judgement.objects.exists()
    assert set(JudgementImport.objects.values_list("state", flat=True)) == {"staging"}
    assert import_split(project=project, user=owner, rows=rows).in_background
    finish()
    copies = Project.objects.filter(slug__startswith="pets-").order_by("slug")
    assert [(copy.slug, copy.judgements.count()) for copy in copies] == [("pets-one", 4), ("pets-two", 4)]
    assert not import_split(project=project, user=owner, rows=rows).changes_anything
    assert [problem for copy in copies for problem in find_problems(copy)] == []


# Erasure while an import is running

CANARY = "5f00canary"
PERSON = f"Zoë \\ “{CANARY}”"


def import_a_person(project: Project) -> list[ImportedJudgement]:
    """Start an import with four judgements of a person and two of another worker; the first chunks are appended."""
    details = {"note": f"I am {PERSON}", "extra": {"mail": f"{PERSON}@example.org"}, "traits": {"name": PERSON}}
    rows = [ImportedJudgement(n, PERSON, "cats-1", f"cats-{n}", "b", **details) for n in (2, 3, 4)]
    rows += [ImportedJudgement(9, PERSON, "dogs-1", "dogs-2", "a", **details)]
    rows += [ImportedJudgement(n, "w2", "cats-1", f"cats-{n}", "b") for n in (2, 3)]
    import_judgements(project=project, user=None, rows=rows)
    while Judgement.objects.count() < 2:
        continue_imports()
    return rows


@pytest.mark.parametrize("remove", [False, True])
def test_erasing_a_worker_during_an_import_is_like_erasing_them_afterwards(project: Project, remove: bool) -> None:
    import_a_person(project)
    person = Judgement.objects.first().worker
    assert CANARY in dump_database()
    erase_worker(worker=person, user=None, remove_judgements=remove)
    assert CANARY not in dump_database()
    finish()
    job = JudgementImport.objects.get()
    kept = Judgement.objects.not_retracted()
    assert (job.state, job.added, job.total) == ("done", 4 if remove else 6, 4 if remove else 6)
    assert kept.filter(worker=person).count() == (0 if remove else 4)
    assert kept.exclude(worker=person).count() == 2
    assert Worker.objects.count() == 2
    assert CANARY not in dump_database()
    assert Worker.objects.get(pk=person.pk).traits == {}
    assert list(find_problems(project)) == []


def test_a_worker_erased_while_an_import_is_prepared_is_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = import_a_person(project)
    finish()
    person = Judgement.objects.first().worker
    new = [replace(rows[0], a="dogs-1", b="dogs-3"), replace(rows[5], a="dogs-1", b="dogs-3"), *rows]
    start_import, tried = background._start, []

    def erase_before_the_start(staged: object) -> bool:
        tried.append(staged)
        if len(tried) == 1:
            erase_worker(worker=person, user=None)
        return start_import(staged)

    monkeypatch.setattr(background, "_start", erase_before_the_start)
    plan = import_judgements(project=project, user=None, rows=new)
    finish()
    assert (len(tried), plan.counts["added"]) == (2, 1)
    assert CANARY not in dump_database()
    assert Judgement.objects.filter(worker=person).count() == 4


def test_names_erased_by_the_end_of_retention_do_not_stop_an_import(project: Project) -> None:
    import_a_person(project)
    project.retention_days = 1
    project.save()
    assert list(idle_projects(timezone.now() + timedelta(days=9))) == [], "an import is running"
    erase_worker_data(project)  # had begun before the import
    finish()
    assert JudgementImport.objects.get().state == "done"
    assert Judgement.objects.count() == 6
    assert list(find_problems(project)) == []
