"""`verify` finds what was done behind Concord's back, and names the row."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from annotation import append_only
from annotation.models import EventHead, Judgement, Project, Worker
from annotation.services import Receipt, enrol, retract
from annotation.verification import missing_guards, problems_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def log(project: Project, worker: Worker, judge: Callable[..., Receipt]) -> list[Judgement]:
    """Five judgements, the second taken back."""
    judgements = [judge(worker, choice).judgement for choice in ("left", "tie", "right", "skip", "left")]
    retract(worker=worker, judgement=judgements[1].uuid, uuid=judgements[0].uuid)
    return judgements


@pytest.fixture
def tampering() -> Callable[..., None]:
    """Raw SQL without the guard, as someone with the database's password could run."""

    def run(statement: str, *values: object) -> None:
        append_only.release(connection)
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
        append_only.guard(connection)

    return run


def test_an_untouched_log_is_in_order(project: Project, log: list[Judgement]) -> None:
    assert list(problems_of(project)) == []


def test_a_changed_answer_is_found_and_named(project: Project, log: list[Judgement], tampering: Callable) -> None:
    other = "hi" if log[2].choice == "lo" else "lo"
    tampering("UPDATE annotation_judgement SET choice = %s WHERE id = %s", other, log[2].pk)
    assert [p for p in problems_of(project) if f"judgement {log[2].pk} (sequence 3)" in p and "changed" in p]


def test_a_changed_text_is_found_through_every_judgement_of_it(
    project: Project, log: list[Judgement], tampering: Callable
) -> None:
    tampering("UPDATE annotation_item SET revision = 7 WHERE id = %s", log[0].item_lo_id)
    assert any(f"judgement {log[0].pk} " in problem for problem in problems_of(project))


def test_a_deleted_event_is_found(project: Project, log: list[Judgement], tampering: Callable) -> None:
    tampering("DELETE FROM annotation_judgement WHERE id = %s", log[3].pk)
    assert any("follows sequence 3" in problem for problem in problems_of(project))


def test_a_log_cut_short_is_found(project: Project, log: list[Judgement], tampering: Callable) -> None:
    tampering("DELETE FROM annotation_retraction")
    assert any("its head says 6" in problem for problem in problems_of(project))


def test_a_judgement_by_a_worker_of_another_project_is_found(
    project: Project, stranger: object, log: list[Judgement], tampering: Callable
) -> None:
    foreign = enrol(project=Project.objects.get(slug="elsewhere"))
    tampering("UPDATE annotation_judgement SET worker_id = %s WHERE id = %s", foreign.pk, log[0].pk)
    assert any("another project" in problem for problem in problems_of(project))


def test_a_missing_guard_is_found() -> None:
    append_only.release(connection)
    assert len(list(missing_guards())) == 4
    append_only.guard(connection)
    assert list(missing_guards()) == []


def test_the_command_ends_with_1_and_names_the_row(log: list[Judgement], tampering: Callable, capsys) -> None:
    call_command("verify")
    assert "All is well in 1 project(s)." in capsys.readouterr().out
    tampering("UPDATE annotation_judgement SET response_ms = 5 WHERE id = %s", log[1].pk)
    with pytest.raises(SystemExit) as ended:
        call_command("verify")
    assert ended.value.code == 1
    assert f"pets: judgement {log[1].pk} (sequence 2) does not match its hash" in capsys.readouterr().out


def test_a_head_that_was_set_back_is_found(project: Project, log: list[Judgement]) -> None:
    EventHead.objects.filter(project=project).update(sequence=2)
    assert any("head says 2" in problem for problem in problems_of(project))


def test_a_project_that_is_not_there_is_not_called_well(log: list[Judgement]) -> None:
    with pytest.raises(CommandError, match="no project called nosuch"):
        call_command("verify", "nosuch")


def test_fewer_than_no_versions_cannot_be_learned_again(log: list[Judgement]) -> None:
    with pytest.raises(CommandError, match="must be 0 or more"):
        call_command("verify", "--rebuild", "-1")
