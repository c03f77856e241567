"""`verify` finds changes made outside Concord and names the row."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from annotation.models import EventHead, Judgement, Project, Worker
from annotation.services import Receipt, enrol, retract
from annotation.services.verification import find_problems, find_trigger_problems
from annotation.storage import event_log

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def log(project: Project, worker: Worker, judge: Callable[..., Receipt]) -> list[Judgement]:
    """Five judgements, the second retracted."""
    judgements = [judge(worker, choice).judgement for choice in ("left", "tie", "right", "skip", "left")]
    retract(worker=worker, judgement=judgements[1].uuid, uuid=judgements[0].uuid)
    return judgements


@pytest.fixture
def tampering() -> Callable[..., None]:
    """Return a function that runs SQL with the triggers removed, as someone with the database password could."""

    def run(statement: str, *values: object) -> None:
        event_log.drop_triggers(connection)
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
        event_log.create_triggers(connection)

    return run


def test_an_untouched_log_has_no_problems(project: Project, log: list[Judgement]) -> None:
    assert list(find_problems(project)) == []


def test_a_changed_answer_is_found(project: Project, log: list[Judgement], tampering: Callable) -> None:
    other = "hi" if log[2].choice == "lo" else "lo"
    tampering("UPDATE annotation_judgement SET choice = %s WHERE id = %s", other, log[2].pk)
    assert [p for p in find_problems(project) if f"judgement {log[2].pk} (sequence 3)" in p and "changed" in p]


def test_a_changed_item_is_found_through_its_judgements(
    project: Project, log: list[Judgement], tampering: Callable
) -> None:
    tampering("UPDATE annotation_item SET revision = 7 WHERE id = %s", log[0].item_lo_id)
    assert any(f"judgement {log[0].pk} " in problem for problem in find_problems(project))


def test_a_deleted_event_is_found(project: Project, log: list[Judgement], tampering: Callable) -> None:
    tampering("DELETE FROM annotation_judgement WHERE id = %s", log[3].pk)
    assert any("follows sequence 3" in problem for problem in find_problems(project))


def test_a_truncated_log_is_found(project: Project, log: list[Judgement], tampering: Callable) -> None:
    tampering("DELETE FROM annotation_retraction")
    assert any("its head is at 6" in problem for problem in find_problems(project))


def test_a_judgement_by_a_worker_of_another_project_is_found(
    project: Project, stranger: object, log: list[Judgement], tampering: Callable
) -> None:
    foreign = enrol(project=Project.objects.get(slug="elsewhere"))
    tampering("UPDATE annotation_judgement SET worker_id = %s WHERE id = %s", foreign.pk, log[0].pk)
    assert any("another project" in problem for problem in find_problems(project))


def test_missing_triggers_are_found() -> None:
    assert list(find_trigger_problems()) == []
    event_log.drop_triggers(connection)
    assert len(list(find_trigger_problems())) == (6 if connection.vendor == "postgresql" else 4)
    event_log.create_triggers(connection)
    assert list(find_trigger_problems()) == []


def test_a_trigger_of_the_same_name_with_another_text_is_found() -> None:
    name = "annotation_judgement_no_update"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            on = f"{name} BEFORE UPDATE ON annotation_judgement FOR EACH ROW"
            cursor.execute(f"CREATE OR REPLACE TRIGGER {on} WHEN (false) EXECUTE FUNCTION concord_append_only()")
        else:
            cursor.execute(f"DROP TRIGGER {name}")
            cursor.execute(f"CREATE TRIGGER {name} BEFORE UPDATE ON annotation_judgement BEGIN SELECT 1; END")
    (problem,) = find_trigger_problems()
    assert f"{name}, which keeps events append-only, was changed" in problem


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no trigger functions and cannot disable one")
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "CREATE OR REPLACE FUNCTION concord_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NEW; END $$",
            "was changed",
        ),
        ("ALTER TABLE annotation_judgement DISABLE TRIGGER annotation_judgement_no_update", "is missing"),
        ("ALTER TABLE annotation_judgement ENABLE REPLICA TRIGGER annotation_judgement_no_update", "is missing"),
    ],
)
def test_a_trigger_that_no_longer_acts_is_found(statement: str, found: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
    assert any("annotation_judgement_no_update" in problem and found in problem for problem in find_trigger_problems())


def test_the_command_exits_with_1_and_names_the_row(log: list[Judgement], tampering: Callable, capsys) -> None:
    call_command("verify")
    assert "No problems found in 1 project(s)." in capsys.readouterr().out
    tampering("UPDATE annotation_judgement SET response_ms = 5 WHERE id = %s", log[1].pk)
    with pytest.raises(SystemExit) as ended:
        call_command("verify")
    assert ended.value.code == 1
    assert f"pets: judgement {log[1].pk} (sequence 2) does not match its hash" in capsys.readouterr().out


def test_a_head_that_was_set_back_is_found(project: Project, log: list[Judgement]) -> None:
    EventHead.objects.filter(project=project).update(sequence=2)
    assert any("head is at 2" in problem for problem in find_problems(project))


def test_an_unknown_project_is_an_error(log: list[Judgement]) -> None:
    with pytest.raises(CommandError, match="no project called nosuch"):
        call_command("verify", "nosuch")


def test_a_negative_number_of_versions_is_refused(log: list[Judgement]) -> None:
    with pytest.raises(CommandError, match="must be 0 or more"):
        call_command("verify", "--rebuild", "-1")
