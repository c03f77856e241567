"""Every command as a script meets it: it teaches by --help, answers with one JSON object, ends with a true code."""

import io
import logging
import shlex
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.db import OperationalError

from annotation.management.commands import create_project
from annotation.models import Judgement, Project, User, Worker
from annotation.terminal import Meter, TerminalCommand
from modelling.management.commands import update_models
from tests.commands import CommandLine

pytestmark = pytest.mark.django_db

OURS = sorted({name for name, app in get_commands().items() if app in ("annotation", "modelling")})
ITEMS = "key,text\nk1,One.\nk2,Two.\n"
JUDGEMENTS = "worker,a,b,choice\nann,k1,k2,a\n"

# What is asked, and facts that its answer holds.
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
    "erase_worker": ("erase_worker pets {worker} --remove-judgements", {"taken_back": 3, "kept": 0}),
}

# What is asked, the exit code, and words of the answer.
BAD: dict[str, tuple[str, int, str]] = {
    "no argument": ("import_items", 2, "the following arguments are required: PROJECT, FILE_OR_FOLDER"),
    "an option that is not there": ("verify --deeply", 2, "unrecognized arguments: --deeply"),
    "not a number": ("verify --rebuild many", 2, "invalid int value: 'many'"),
    "a number that cannot be meant": ("verify --rebuild -1", 2, "must be 0 or more"),
    "no project of that name": ("update_models --project pots", 2, "There is no project called pots."),
    "a name that is nearly right": ("verify pet", 2, "Is pets meant?"),
    "no file": ("import_items pets {folder}/nothing.csv", 2, "There is no file"),
    "a file with a mistake": ("import_judgements pets {folder}", 1, "The project has no item “k1”"),
    "no account": ("create_project trains Trains --owner nobody", 2, "There is no account nobody"),
    "a name that is taken": ("create_project pets Pets --owner olga", 2, "with this short name already"),
    "no such setting": ("change_project pets --set colour=red", 2, "There is no setting called colour. There are:"),
    "a setting out of range": ("change_project pets --set redundancy=0", 2, "a whole number from 1 to 1,000"),
    "neither yes nor no": ("change_project pets --set ties_allowed=maybe", 2, "ties_allowed: write yes or no."),
    "no value": ("change_project pets --set redundancy", 2, "--set wants NAME=VALUE"),
    "no such state": ("change_project pets --state ajar", 2, "invalid choice: 'ajar'"),
    "a state that cannot be now": ("change_project bare --state open", 1, "At least 2 active items are needed"),
    "a weak password": ("create_owner grace", 2, "No account was created. This password is too short."),
    "no worker of that code": ("erase_worker pets nobody", 2, "There is no worker of that code or id in pets."),
    "a deletion that is not meant": ("delete_project pets", 2, "say --yes pets as well. Nothing was deleted."),
    "a study that is not archived": ("delete_project pets --yes pets", 1, "Archive it first"),
    "no archive": ("reproduce {folder}/nothing.zip", 1, "Nothing was changed."),
    "an export of nothing": ("export pets", 1, "Nothing was written."),
    "too little to evaluate": ("evaluate study", 1, "too few judgements to hold some back"),
    "a backup onto something": ("backup {folder}", 1, "exists already. Nothing was written"),
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def words(project: Project, worker: Worker, judge: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Three studies (pets, judged by one worker; study, with two items; bare, without) and a folder to import from."""
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


@pytest.mark.parametrize("name", OURS)
def test_help_says_what_a_command_does_and_shows_how_it_is_called(name: str, run: CommandLine) -> None:
    ended = run(name, "--help")
    command = load_command_class(get_commands()[name], name)
    assert (ended.code, ended.err) == (0, "")
    assert f"  manage.py {name}" in ended.out
    assert "Exit codes: 0 done" in ended.out
    assert "--json" in ended.out
    assert "--pythonpath" not in ended.out
    assert isinstance(command, TerminalCommand)
    for example in command.examples:
        command.create_parser("manage.py", name).parse_args(shlex.split(example.split(" > ")[0])[1:])


@pytest.mark.parametrize("name", GOOD)
def test_json_is_one_object_on_standard_output_and_nothing_else(
    name: str, run: CommandLine, words: dict[str, object]
) -> None:
    asked, expected = GOOD[name]
    ended = run(*asked.format(**words).split(), "--json")
    assert ended.code == 0, ended.err
    assert ended.facts.items() >= expected.items()


@pytest.mark.parametrize("name", GOOD)
def test_without_json_the_answer_is_words(name: str, run: CommandLine, words: dict[str, object]) -> None:
    ended = run(*GOOD[name][0].format(**words).split())
    assert ended.code == 0, ended.err
    assert ended.out.strip()
    assert not ended.out.startswith("{")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_answered_in_words_and_by_its_exit_code(
    name: str, run: CommandLine, words: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_OWNER_PASSWORD", "short")
    asked, code, said = BAD[name]
    ended = run(*asked.format(**words).split())
    assert (ended.code, ended.out if code == 2 else "") == (code, "")
    assert said in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert "CommandError" not in ended.err


def test_an_updater_that_never_ends_has_no_answer_to_give(run: CommandLine) -> None:
    ended = run("update_models", "--json")
    assert (ended.code, "--json needs --project or --once" in ended.facts["error"]) == (2, True)


def test_a_refusal_is_an_object_too_where_json_was_asked_for(run: CommandLine, words: dict[str, object]) -> None:
    ended = run("verify", "pet", "--json")
    assert ended.facts == {
        "error": "There is no project called pet. Nothing was done. Is pets meant?",
        "exit_code": ended.code,
    }
    assert ended.code == 2


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("verify pets --no-such --json", "Unrecognized arguments: --no-such"),
        ("export --json", "The following arguments are required: PROJECT"),
        ("export pets nothing --json", "Argument what: invalid choice: 'nothing'"),
        ("export pets --json --as-of soon", "Argument --as-of: invalid int value: 'soon'"),
    ],
)
def test_a_call_that_is_not_understood_is_an_object_too(asked: str, why: str, run: CommandLine) -> None:
    ended = run(*asked.split())
    assert (ended.code, ended.facts["exit_code"]) == (2, 2)
    assert ended.facts["error"].startswith(why)
    assert ended.facts["error"].endswith("Nothing was done.")
    assert "usage:" in ended.err
    assert run(*asked.replace("--json", "").split()).out == ""


def test_words_and_options_come_in_any_order(run: CommandLine, words: dict[str, object], tmp_path: Path) -> None:
    said = [
        run("export", *order.split(), "--output", tmp_path / "pairs.csv", "--json").facts
        for order in ("pets crowd-kit --as-of 0", "pets --as-of 0 crowd-kit", "--as-of 0 pets crowd-kit")
    ]
    assert said[0]["what"] == "crowd-kit"
    assert said[0] == said[1] == said[2]


def test_a_no_is_an_answer_with_code_1(run: CommandLine, words: dict[str, object], project: Project) -> None:
    project.head.sequence = 99
    project.head.save()
    ended = run("verify", "pets", "--json")
    assert ended.code == 1
    assert ["head says 99" in problem for problem in ended.facts["problems"]] == [True]


def test_a_check_of_a_file_says_what_would_change_and_writes_nothing(
    run: CommandLine, words: dict[str, object], project: Project
) -> None:
    ended = run("import_items", "pets", words["folder"], "--check", "--json")
    assert (ended.facts["added"], ended.facts["written"], project.items.count()) == (2, False, 7)
    assert "this was a check" in run("import_judgements", "study", words["folder"], "--check").out
    assert Judgement.objects.count() == 3


def test_a_study_can_be_made_filled_and_opened_without_a_browser(run: CommandLine, words: dict[str, object]) -> None:
    Project.objects.filter(slug="study").update(state="draft")
    call_command("change_project", "study", "--state", "open", "--set", "question=Which is longer?")
    study = Project.objects.get(slug="study")
    assert (study.state, study.question) == ("open", "Which is longer?")
    assert [entry.action for entry in study.audit.all()[:2]] == ["changed settings", "changed settings"]
    assert run("change_project", "study", "--state", "open").code == 0


def test_settings_and_state_change_together_or_not_at_all(run: CommandLine, words: dict[str, object]) -> None:
    assert run("change_project", "bare", "--set", "redundancy=9", "--state", "open").code == 1
    assert Project.objects.get(slug="bare").redundancy == 3


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("no such table: annotation_project"), "run `manage.py migrate`"),
        (OperationalError("database is locked"), "try again when that is done"),
        (OperationalError("connection refused\nmore of it"), "Is it running"),
        (KeyboardInterrupt(), "Stopped. What was stored before is kept."),
    ],
)
def test_a_database_in_trouble_and_an_interrupted_command_are_said_in_words(
    error: BaseException, said: str, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(create_project.Command, "handle", fail)
    ended = run("create_project", "trains", "Trains", "--owner", "olga", "--json")
    assert said in ended.facts["error"]
    assert ended.code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert "Traceback" not in ended.err


def test_nobody_to_type_a_password_is_said(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", nobody)
    ended = run("create_owner", "grace")
    assert (ended.code, User.objects.count()) == (2, 0)
    assert "set CONCORD_OWNER_PASSWORD, or use --generate" in ended.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_elsewhere_a_line_every_ten_seconds() -> None:
    now = [0.0]
    on_terminal, elsewhere = Terminal(), io.StringIO()
    meters = [Meter(stream, clock=lambda: now[0]) for stream in (on_terminal, elsewhere)]
    for share in (0.0, 0.25, 0.5, 1.0):
        for meter in meters:
            meter("copying", share, ", slowly")
        now[0] += 4.0
    for meter in meters:
        meter("sealing", 0.0)
        meter.clear()
    assert on_terminal.getvalue().count("\n") == 0
    assert "\r\033[Kcopying [############............] 50%, slowly" in on_terminal.getvalue()
    assert elsewhere.getvalue().splitlines() == ["copying 100%, slowly"]


def test_every_command_is_in_the_documentation_with_its_examples(settings: Any) -> None:
    text = Path(settings.BASE_DIR, "docs", "commands.md").read_text()
    for name in OURS:
        assert f"## {name}\n" in text, name
        for example in load_command_class(get_commands()[name], name).examples:
            assert f"manage.py {example}" in text, example


def test_a_command_that_answers_does_not_log_what_it_says_and_one_that_goes_on_does(
    caplog: pytest.LogCaptureFixture, run: CommandLine, words: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[int] = []
    monkeypatch.setattr(update_models, "watch", lambda *_: levels.append(logging.getLogger("concord").level))
    caplog.set_level(logging.INFO)
    assert run("update_models", "--project", "pets", "--nice", 0).code == 0
    assert [record.name for record in caplog.records if record.name.startswith("concord")] == []
    run("update_models", "--nice", 0)
    assert levels == [logging.NOTSET]
