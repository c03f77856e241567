"""Signed checkpoints reveal a hash chain that was recomputed; forged checkpoints are refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from annotation.models import EventHead, Judgement, Project, Worker
from annotation.services import Receipt
from annotation.services.verification import find_problems
from annotation.services.verification.checkpoints import (
    Checkpoint,
    find_checkpoint_problems,
    has_valid_signature,
    sign_checkpoint,
)
from annotation.storage import event_log

pytestmark = pytest.mark.django_db
OTHER_KEY = "b3RoZXIgaW5zZWN1cmUgY2hlY2twb2ludCBrZXkgISE="


@pytest.fixture
def checkpoint(project: Project, worker: Worker, judge: Callable[..., Receipt]) -> Checkpoint:
    """The checkpoint of three judgements."""
    for choice in ("left", "tie", "right"):
        judge(worker, choice)
    signed = sign_checkpoint(project)
    assert signed is not None
    return signed


def rewrite_last_answer(project: Project) -> None:
    """Change the last answer and recompute its hash, as someone with the database password could."""
    judgement = Judgement.objects.filter(project=project).order_by("sequence").last()
    assert judgement is not None
    judgement.choice = "hi" if judgement.choice == "lo" else "lo"
    judgement.hash = event_log.event_hash(judgement)
    event_log.drop_triggers(connection)
    with connection.cursor() as cursor:
        values = (judgement.choice, judgement.hash, judgement.pk)
        cursor.execute("UPDATE annotation_judgement SET choice = %s, hash = %s WHERE id = %s", values)
    event_log.create_triggers(connection)
    EventHead.objects.filter(project=project).update(hash=judgement.hash)


def test_a_checkpoint_names_the_last_event_and_matches_the_log(project: Project, checkpoint: Checkpoint) -> None:
    head = EventHead.objects.get(project=project)
    assert (checkpoint.project, checkpoint.sequence, checkpoint.hash) == ("pets", 3, head.hash)
    assert sign_checkpoint(project) == checkpoint
    assert list(find_checkpoint_problems(checkpoint)) == []


@pytest.mark.both_databases
def test_a_recomputed_chain_passes_the_hashes_but_not_an_earlier_checkpoint(
    project: Project, checkpoint: Checkpoint
) -> None:
    rewrite_last_answer(project)
    assert list(find_problems(project)) == []
    (problem,) = find_checkpoint_problems(checkpoint)
    assert "has another hash than the log" in problem


@pytest.mark.parametrize("change", [{"sequence": 2}, {"hash": "0" * 64}, {"time": "2020-01-01"}, {"signature": "x"}])
def test_a_changed_checkpoint_does_not_match_its_signature(checkpoint: Checkpoint, change: dict) -> None:
    changed = replace(checkpoint, **change)
    assert not has_valid_signature(changed)
    assert any("changed or forged" in problem for problem in find_checkpoint_problems(changed))


def test_a_checkpoint_signed_with_another_key_is_named(checkpoint: Checkpoint, settings) -> None:
    settings.CHECKPOINT_KEY = OTHER_KEY
    (problem,) = find_checkpoint_problems(checkpoint)
    assert "signed with another key" in problem


def test_a_log_that_ends_before_the_checkpoint_is_found(checkpoint: Checkpoint) -> None:
    problems = list(find_checkpoint_problems(replace(checkpoint, sequence=9)))
    assert any("later than the log" in problem for problem in problems)


def test_an_empty_log_has_no_checkpoint(project: Project) -> None:
    assert sign_checkpoint(project) is None


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_verify_reads_the_checkpoints_it_printed(
    project: Project, checkpoint: Checkpoint, tmp_path: Path, capsys, arguments: list[str]
) -> None:
    call_command("verify", *arguments)
    saved = tmp_path / "saved.json"
    lines = capsys.readouterr().out.splitlines()
    saved.write_text("\n".join(line for line in lines if line.startswith("{")))
    call_command("verify", "--checkpoint", str(saved))
    assert "1 saved checkpoint(s) match." in capsys.readouterr().out
    rewrite_last_answer(project)
    with pytest.raises(SystemExit) as ended:
        call_command("verify", "--checkpoint", str(saved))
    assert ended.value.code == 1
    assert "another hash" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "hello", "[1]", json.dumps({"project": "pets"})])
def test_a_file_without_checkpoints_is_refused(project: Project, tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(CommandError, match="cannot be used"):
        call_command("verify", "--checkpoint", str(tmp_path / "other.json"))
