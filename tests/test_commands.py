"""All commands: help with examples, one JSON object with --json, documented exit codes."""

import io
import logging
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.db import OperationalError

from annotation.management.base import ConcordCommand, ProgressMeter
from annotation.management.commands import create_project
from annotation.models import Judgement, Project, User, Worker
from modelling.management.commands import update_models
from tests.helpers.commands import CommandLine

pytestmark = pytest.mark.django_db

COMMANDS = sorted({name for name, app in get_commands().items() if app in ("annotation", "modelling")} - {"migrate"})
ITEMS = "key,text\nk1,One.\nk2,Two.\n"
JUDGEMENTS = "worker,a,b,choice\nann,k1,k2,a\n"

# A call, and part of its JSON result.
GOOD: dict[str, tuple[str, dict[str, Any]]] = {
    "create_owner": ("create_owner grace --generate", {"name": "grace"}),
    "create_project": (
        "create_project trains Trains --owner olga --set redundancy=7 --set ties_allowed=no",
        {"project": "trains", "title": "Trains", "state": "draft", "owner": "olga"},
    ),
    "change_project": ("change_project pets --state paused --set redundancy=7", {"project": "pets", "state": "paused"}),
    "import_items": ("import_items pets {folder}", {"project": "pets", "written": True, "added": 2, "corrected": 0}),
    "import_judgements": ("import_judgements study {folder}", {"added": 1, "ties": 0, "workers": 1, "unchanged": 0}),
    "update_models": ("update_models --project pets --nice 0", {"project": "pets", "version": 1, "judgements": 3}),
    "verify": ("verify pets", {"projects": ["pets"], "problems": []}),
    "backup": ("backup {folder}/copy --without-secret", {"secret": False, "missing": []}),
    "apply_retention": ("apply_retention", {"erased": True, "projects": {}, "log_ins": 0}),
    "delete_project": ("delete_project pets --yes pets --archived", {"project": "pets", "events": 3}),
    "export": ("export pets judgements --output {folder}/out.csv", {"what": "judgements", "as_of_seq": 3}),
    "simulate_crowd": (
        "simulate_crowd study --workers 1 --judgements 1",
        {"project": "study", "simulated": True, "stored": 1, "refused": 0},
    ),
    "erase_worker": ("erase_worker pets {worker} --remove-judgements", {"retracted": 3, "taken_back": 3, "kept": 0}),
}

# A call, its exit code, and part of its message.
BAD: dict[str, tuple[str, int, str]] = {
    "no argument": ("import_items", 2, "the following arguments are required: PROJECT, FILE_OR_FOLDER"),
    "an unknown option": ("verify --deeply", 2, "unrecognized arguments: --deeply"),
    "not a number": ("verify --rebuild many", 2, "invalid int value: 'many'"),
    "a number out of range": ("verify --rebuild -1", 2, "must be 0 or more"),
    "an unknown project": ("update_models --project pots", 2, "There is no project called pots."),
    "a misspelt project": ("verify pet", 2, "Did you mean pets?"),
    "a missing file": ("import_items pets {folder}/nothing.csv", 2, "There is no file"),
    "a file with an error": ("import_judgements pets {folder}", 1, "The study has no items with these keys: “k1”"),
    "an unknown account": ("create_project trains Trains --owner nobody", 2, "There is no account nobody"),
    "a name in use": ("create_project pets Pets --owner olga", 2, "already uses this short name"),
    "an unknown setting": ("change_project pets --set colour=red", 2, "There is no setting called colour."),
    "a setting out of range": ("change_project pets --set redundancy=0", 2, "a whole number from 1 to 1,000"),
    "neither yes nor no": ("change_project pets --set ties_allowed=maybe", 2, "ties_allowed: write yes or no."),
    "a missing value": ("change_project pets --set redundancy", 2, "--set needs NAME=VALUE"),
    "an unknown state": ("change_project pets --state ajar", 2, "invalid choice: 'ajar'"),
    "a state that is not possible yet": ("change_project bare --state open", 1, "needs at least 2 active items"),
    "a weak password": ("create_owner grace", 2, "No account was created. This password is too short."),
    "an unknown worker": ("erase_worker pets nobody", 2, "There is no worker with that code or ID in pets."),
    "a deletion without confirmation": ("delete_project pets", 2, "Confirm it with --yes pets. Nothing was deleted."),
    "a study that is not archived": ("delete_project pets --yes pets", 1, "Archive it first"),
    "a missing archive": ("reproduce {folder}/nothing.zip", 1, "Nothing was changed."),
    "an export without a version": ("export pets", 1, "Nothing was written."),
    "too little to evaluate": ("evaluate study", 1, "too few judgements to hold some out"),
    "a backup to an existing folder": ("backup {folder}", 1, "already exists. Nothing was written"),
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def values(project: Project, worker: Worker, judge: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Values for the calls: a study with judgements, one with two items, one without items, and a folder to import."""
    for _ in range(3):
        judge(worker)
    folder = tmp_path_factory.mktemp("folder")
    (folder / "items.csv").write_text(ITEMS)
    (folder / "judgements.csv").write_text(JUDGEMENTS)
    for slug in ("study", "bare"):
        call_command("create_project", slug, slug, "--owner", "olga")
    call_command("import_items", "study", str(folder))
    Project.objects.filter(slug="study").update(state="open")
    return {"folder": folder, "worker": worker.code}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_a_command_and_shows_examples(name: str, run: CommandLine) -> None:
    ended = run(name, "--help")
    command = load_command_class(get_commands()[name], name)
    assert (ended.code, ended.err) == (0, "")
    assert f"  manage.py {name}" in ended.out
    assert "Exit codes: 0 success" in ended.out
    assert "--json" in ended.out
    assert "--pythonpath" not in ended.out
    assert isinstance(command, ConcordCommand)
    for example in command.examples:
        command.create_parser("manage.py", name).parse_args(shlex.split(example.split(" > ")[0])[1:])


@pytest.mark.parametrize("name", GOOD)
def test_json_is_one_object_on_standard_output_and_nothing_else(
    name: str, run: CommandLine, values: dict[str, object]
) -> None:
    call, expected = GOOD[name]
    ended = run(*call.format(**values).split(), "--json")
    assert ended.code == 0, ended.err
    assert ended.facts.items() >= expected.items()


@pytest.mark.parametrize("name", GOOD)
def test_without_json_the_result_is_text(name: str, run: CommandLine, values: dict[str, object]) -> None:
    ended = run(*GOOD[name][0].format(**values).split())
    assert ended.code == 0, ended.err
    assert ended.out.strip()
    assert not ended.out.startswith("{")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_gives_a_message_and_an_exit_code(
    name: str, run: CommandLine, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", "short")
    call, code, message = BAD[name]
    ended = run(*call.format(**values).split())
    assert (ended.code, ended.out if code == 2 else "") == (code, "")
    assert message in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert "CommandError" not in ended.err


def test_json_needs_an_updater_that_ends(run: CommandLine) -> None:
    ended = run("update_models", "--json")
    assert (ended.code, "--json needs --project or --once" in ended.facts["error"]) == (2, True)


def test_with_json_an_error_is_an_object_too(run: CommandLine, values: dict[str, object]) -> None:
    ended = run("verify", "pet", "--json")
    assert ended.facts == {
        "error": "There is no project called pet. Nothing was done. Did you mean pets?",
        "exit_code": ended.code,
    }
    assert ended.code == 2


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("verify pets --no-such --json", "Unrecognized arguments: --no-such"),
        ("export --json", "The following arguments are required: PROJECT"),
        ("export pets nothing --json", "Argument what: invalid choice: 'nothing'"),
        ("export pets --json --as-of soon", "Argument --as-of: invalid int value: 'soon'"),
    ],
)
def test_with_json_a_usage_error_is_an_object_too(call: str, reason: str, run: CommandLine) -> None:
    ended = run(*call.split())
    assert (ended.code, ended.facts["exit_code"]) == (2, 2)
    assert ended.facts["error"].startswith(reason)
    assert ended.facts["error"].endswith("Nothing was done.")
    assert "usage:" in ended.err
    assert run(*call.replace("--json", "").split()).out == ""


def test_arguments_may_come_in_any_order(run: CommandLine, values: dict[str, object], tmp_path: Path) -> None:
    results = [
        run("export", *order.split(), "--output", tmp_path / "pairs.csv", "--json").facts
        for order in ("pets crowd-kit --as-of 0", "pets --as-of 0 crowd-kit", "--as-of 0 pets crowd-kit")
    ]
    assert results[0]["what"] == "crowd-kit"
    assert results[0] == results[1] == results[2]


def test_a_negative_result_has_exit_code_1(run: CommandLine, values: dict[str, object], project: Project) -> None:
    project.head.sequence = 99
    project.head.save()
    ended = run("verify", "pets", "--json")
    assert ended.code == 1
    assert ["head is at 99" in problem for problem in ended.facts["problems"]] == [True]


def test_check_reports_the_changes_and_writes_nothing(
    run: CommandLine, values: dict[str, object], project: Project
) -> None:
    ended = run("import_items", "pets", values["folder"], "--check", "--json")
    assert (ended.facts["added"], ended.facts["written"], project.items.count()) == (2, False, 7)
    assert "this was a check" in run("import_judgements", "study", values["folder"], "--check").out
    assert Judgement.objects.count() == 3


def test_a_study_can_be_changed_and_opened_without_a_browser(run: CommandLine, values: dict[str, object]) -> None:
    Project.objects.filter(slug="study").update(state="draft")
    call_command("change_project", "study", "--state", "open", "--set", "question=Which is longer?")
    study = Project.objects.get(slug="study")
    assert (study.state, study.question) == ("open", "Which is longer?")
    assert [entry.action for entry in study.audit.all()[:2]] == ["changed settings", "changed settings"]
    assert run("change_project", "study", "--state", "open").code == 0


def test_settings_and_state_change_together_or_not_at_all(run: CommandLine, values: dict[str, object]) -> None:
    assert run("change_project", "bare", "--set", "redundancy=9", "--state", "open").code == 1
    assert Project.objects.get(slug="bare").redundancy == 3


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OperationalError("no such table: annotation_project"), "run `manage.py migrate`"),
        (OperationalError("database is locked"), "Try again when that has finished"),
        (OperationalError("connection refused\nmore of it"), "Check that it is running"),
        (KeyboardInterrupt(), "Stopped. Data that was already stored is kept."),
    ],
)
def test_database_errors_and_interrupts_are_reported_without_a_traceback(
    error: BaseException, message: str, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(create_project.Command, "handle", fail)
    ended = run("create_project", "trains", "Trains", "--owner", "olga", "--json")
    assert message in ended.facts["error"]
    assert ended.code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert "Traceback" not in ended.err


def test_a_missing_terminal_for_the_password_is_reported(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", no_terminal)
    ended = run("create_owner", "grace")
    assert (ended.code, User.objects.count()) == (2, 0)
    assert "Set CONCORD_OWNER_PASSWORD, or use --generate" in ended.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_otherwise_a_line_every_ten_seconds() -> None:
    now = [0.0]
    on_terminal, in_a_log = Terminal(), io.StringIO()
    meters = [ProgressMeter(stream, clock=lambda: now[0]) for stream in (on_terminal, in_a_log)]
    for share in (0.0, 0.25, 0.5, 1.0):
        for meter in meters:
            meter("copying", share, ", slowly")
        now[0] += 4.0
    for meter in meters:
        meter("sealing", 0.0)
        meter.clear()
    assert on_terminal.getvalue().count("\n") == 0
    assert "\r\033[Kcopying [############............] 50%, slowly" in on_terminal.getvalue()
    assert in_a_log.getvalue().splitlines() == ["copying 100%, slowly"]


def test_every_command_is_in_the_documentation_with_its_examples(settings: Any) -> None:
    text = Path(settings.BASE_DIR, "docs", "commands.md").read_text()
    for name in COMMANDS:
        assert f"## {name}\n" in text, name
        for example in load_command_class(get_commands()[name], name).examples:
            assert f"manage.py {example}" in text, example


def test_only_a_command_that_runs_forever_logs_at_info_level(
    caplog: pytest.LogCaptureFixture, run: CommandLine, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    monkeypatch.setattr(update_models, "run_forever", lambda *_: levels.append(logging.getLogger("concord").level))
    caplog.set_level(logging.INFO)
    assert run("update_models", "--project", "pets", "--nice", 0).code == 0
    assert [record.name for record in caplog.records if record.name.startswith("concord")] == []
    run("update_models", "--nice", 0)
    assert levels == [logging.NOTSET]
