"""An archive reproduces its ranking in an empty database; damaged and foreign zip files are refused."""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from django.db import connection

from annotation import services
from annotation.models import Assignment, Item, Judgement, Project, Retraction, User, Worker
from annotation.services import Receipt
from annotation.services.participation.passport import freeze
from annotation.services.participation.recruitment import change_rules
from annotation.services.verification import find_problems
from annotation.services.verification.checkpoints import find_checkpoint_problems, read_checkpoints
from annotation.storage import event_log
from benchmarks.load.installation import Installation
from modelling.exports import archive, archive_reader
from modelling.exports.archive_reader import ArchiveError, unpack
from modelling.exports.points import ExportError
from modelling.exports.reproduce import Reproduction, reproduce
from modelling.management.commands.reproduce import describe
from modelling.models import ModelSnapshot, UpdateState
from tests.helpers.commands import CommandLine
from tests.modelling.exports.samples import export_bytes, fit, odd_study
from tests.modelling.samples.histories import answer

pytestmark = pytest.mark.django_db


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def packed(odd: Project, tmp_path: Path) -> Path:
    """The archive of a study with an erased worker and an inactive item."""
    path = tmp_path / "odd.zip"
    path.write_bytes(archive_of(odd))
    return path


_archive: list[bytes] = []


@pytest.fixture
def any_archive(db: None, tmp_path: Path) -> Path:
    """An archive made once for the tests that only read it."""
    if not _archive:
        _archive.append(archive_of(odd_study()))
    path = tmp_path / "odd.zip"
    path.write_bytes(_archive[0])
    return path


def archive_of(project: Project) -> bytes:
    services.erase_worker(worker=Worker.objects.filter(project=project).last(), user=None, remove_judgements=True)
    Item.objects.filter(project=project, key="item-3").update(active=False)
    fit(project)
    return export_bytes(project, "archive")


def files_in(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def repacked(path: Path, files: dict[str, bytes], *, seal: bool = True) -> Path:
    """The same archive with other files and, if sealed, matching checksums."""
    folder = path.with_suffix(".folder")
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if seal:
        (folder / archive.CHECKSUMS).write_text(archive.format_checksums(folder), encoding="utf-8")
    other = path.with_name("other.zip")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as target:
        for name in files:
            target.write(folder / name, name)
    return other


def reproduced(path: Path, folder: Path) -> Reproduction:
    """Reproduce the archive after deleting the study it came from, like the command."""
    event_log.drop_triggers(connection)
    for kind in (UpdateState, ModelSnapshot, Retraction, Judgement, Assignment, Worker, Item, Project):
        kind._default_manager.all().delete()
    event_log.create_triggers(connection)
    folder.mkdir()
    return reproduce(folder, unpack(path, folder))


def test_the_ranking_is_reproduced(packed: Path, tmp_path: Path) -> None:
    result = reproduced(packed, tmp_path / "folder")
    assert result.agrees
    assert (result.same_order, result.max_difference, result.chain) == (True, 0.0, True)
    archived, refitted = json.loads(files_in(packed)["manifest.json"])["version"], ModelSnapshot.objects.get()
    assert (refitted.included, refitted.settings, refitted.seed) == (
        archived["included"],
        archived["settings"],
        archived["seed"],
    )


@pytest.mark.parametrize("used", [True, False])
def test_traits_are_archived_only_if_the_model_uses_them(odd: Project, tmp_path: Path, used: bool) -> None:
    Project.objects.filter(pk=odd.pk).update(model_settings={**odd.model_settings, "traits": used})
    odd.refresh_from_db()
    fit(odd)
    path = tmp_path / "odd.zip"
    path.write_bytes(export_bytes(odd, "archive"))
    assert (b"young" in files_in(path)["workers.jsonl"]) is used
    assert ("questionnaire answers that the model used" in files_in(path)["README.md"].decode()) is used
    assert reproduced(path, tmp_path / "folder").agrees


def test_browser_judgements_are_archived(project: Project, judge: Callable[..., Receipt], tmp_path: Path) -> None:
    for choice in ("left", "right", "tie"):
        worker = services.enrol(project=project)
        for _ in range(3):
            judge(worker, choice, response_ms=0)
    fit(project)
    path = tmp_path / "pets.zip"
    path.write_bytes(export_bytes(project, "archive"))
    assert reproduced(path, tmp_path / "folder").agrees
    assert not list(find_problems(Project.objects.get())), "its log is a log like any other"


def test_a_version_gives_the_same_archive_later(odd: Project) -> None:
    fit(odd)
    first = export_bytes(odd, "archive", version=1)
    answer(odd, [(0, 0, 1, "first")])
    assert export_bytes(odd, "archive", version=1) == first


def test_a_rule_changed_after_the_last_version_is_in_the_archive_and_in_reproduce(
    project: Project, owner: User, judge: Callable[..., Receipt], tmp_path: Path
) -> None:
    freeze(project)
    for _ in range(3):
        judge(services.enrol(project=project))
    fit(project)
    before, after = tmp_path / "before.zip", tmp_path / "after.zip"
    before.write_bytes(export_bytes(project, "archive"))
    change_rules(project=project, user=owner, changes={"exclusion_rules": "Leave out everyone who disagrees."})
    after.write_bytes(export_bytes(project, "archive"))
    [change] = json.loads(files_in(after)["manifest.json"])["passport"]["changes"]
    assert (change["name"], change["new"]) == ("exclusion_rules", "Leave out everyone who disagrees.")
    untouched, changed = (reproduced(path, tmp_path / path.stem) for path in (before, after))
    found = [(each.agrees, each.passport, each.passport_changes) for each in (untouched, changed)]
    assert found == [(True, "verified", 0), (True, "verified", 1)]
    assert "changes to the plan since it was frozen: 1 (exclusion_rules)." in describe(
        asdict(changed) | {"agrees": changed.agrees}
    )


def test_an_archive_carries_the_checkpoint_of_its_last_event(packed: Path, odd: Project) -> None:
    (checkpoint,) = read_checkpoints(files_in(packed)["manifest.json"].decode())
    assert checkpoint.sequence == ModelSnapshot.objects.get(project=odd).last_sequence
    assert list(find_checkpoint_problems(checkpoint)) == []


def test_an_archive_describes_itself_and_contains_no_erased_person(packed: Path, odd: Project) -> None:
    files = files_in(packed)
    assert sorted(files) == sorted(archive.FILES)
    manifest = json.loads(files["manifest.json"])
    assert manifest["version"]["kind"] == "refit"
    assert {"settings", "seed", "data_hash", "code_version", "as_of_seq"} <= manifest["version"].keys()
    assert {"concord", "python", "numpy", "scipy"} <= manifest["software"].keys()
    readme = files["README.md"].decode()
    assert archive.SIGN in readme
    assert archive.TIES in readme
    assert "Licence: not stated" in readme
    gone = Worker.objects.get(project=odd, outcome=Worker.ERASED)
    assert not any(gone.code.encode() in content for content in files.values())
    kinds = [json.loads(line)["type"] for line in files["events.jsonl"].splitlines()]
    assert kinds.count("erased") == 20, "ten judgements and their undoings, as links of the chain"


def test_only_a_fit_from_scratch_can_be_archived(odd: Project) -> None:
    fit(odd)
    answer(odd, [(0, 0, 1, "first")])
    assert fit(odd).kind == "step"
    with pytest.raises(ExportError, match="was not fitted from scratch"):
        export_bytes(odd, "archive", version=2)


def test_the_command_fits_from_scratch_if_necessary(
    odd: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, output = CommandLine(capsys), tmp_path / "odd.zip"
    fit(odd)
    answer(odd, [(0, 0, 1, "first")])
    assert fit(odd).kind == "step"
    ended = command("export", "odd", "archive", "--licence", "CC BY 4.0", "--output", output, "--json")
    assert (ended.code, ended.facts["version"]) == (0, 3)
    assert ModelSnapshot.objects.get(number=3).kind == "refit"
    assert json.loads(files_in(output)["manifest.json"])["licence"] == "CC BY 4.0"


@pytest.mark.parametrize("what", ["choice", "score", "order", "text", "seed"])
def test_a_changed_archive_does_not_agree(any_archive: Path, tmp_path: Path, what: str) -> None:
    """The checksums are recomputed to match the changed file."""
    files = files_in(any_archive)
    if what == "choice":
        files["events.jsonl"] = files["events.jsonl"].replace(b'"choice":"lo"', b'"choice":"hi"', 1)
    elif what == "text":
        files["items.jsonl"] = files["items.jsonl"].replace(b"Dogs", b"Many big dogs, they say,")
    elif what == "score":
        lines = [json.loads(line) for line in files["ranking.jsonl"].splitlines()]
        lines[0]["mean"] += 1e-6
        files["ranking.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    elif what == "order":
        files["ranking.jsonl"] = b"".join(reversed(files["ranking.jsonl"].splitlines(keepends=True)))
    else:
        manifest = json.loads(files["manifest.json"])
        manifest["version"]["seed"] = manifest["version"]["settings"]["seed"] = 77
        files["manifest.json"] = json.dumps(manifest).encode()
    result = reproduced(repacked(any_archive, files), tmp_path / "folder")
    assert result.agrees is (what == "seed" and result.max_difference is not None and result.max_difference <= 1e-8)
    assert result.chain is (what != "choice")


@pytest.mark.parametrize("nothing", ["NaN", "Infinity", "1e999", "null"])
def test_an_archived_score_that_is_not_a_number_is_refused(any_archive: Path, tmp_path: Path, nothing: str) -> None:
    files = files_in(any_archive)
    lines = files["ranking.jsonl"].splitlines()
    lines[-1] = re.sub(rb'"mean":[^,]+', f'"mean":{nothing}'.encode(), lines[-1])
    files["ranking.jsonl"] = b"\n".join(lines) + b"\n"
    with pytest.raises(ArchiveError, match="ranking of this archive cannot be read"):
        reproduced(repacked(any_archive, files), tmp_path / "folder")


def hostile(name: str, packed: Path) -> Path:
    """A damaged, foreign or malicious zip file."""
    files, path = files_in(packed), packed.with_name("hostile.zip")
    if name == "no zip":
        path.write_bytes(b"hello")
        return path
    if name == "cut off":
        path.write_bytes(packed.read_bytes()[:-200])
        return path
    if name == "changed":
        return repacked(packed, {**files, "items.jsonl": files["items.jsonl"] + b"\n"}, seal=False)
    if name == "bit flipped":
        content = bytearray(packed.read_bytes())
        content[len(content) // 3] ^= 0xFF
        path.write_bytes(content)
        return path
    if name in ("no object", "foreign manifest", "later format", "half a manifest"):
        manifests = {
            "no object": b"[1, 2]",
            "foreign manifest": b'{"format": "something"}',
            "later format": b'{"format": "concord-archive", "format_version": 99}',
            "half a manifest": b'{"format": "concord-archive", "format_version": 1}',
        }
        return repacked(packed, {**files, "manifest.json": manifests[name]})
    if name in ("no such item", "deep"):
        line = b'{"type":"judgement","worker":"unknown"}' if name == "no such item" else b"[" * 100_000
        return repacked(packed, {**files, "events.jsonl": line})
    if name == "an item twice":
        return repacked(packed, {**files, "items.jsonl": 2 * files["items.jsonl"]})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for own, content in files.items():
            if (name, own) == ("a file missing", "workers.jsonl"):
                continue
            target.writestr(own, b" " * 20_000_000 if (name, own) == ("bomb", "items.jsonl") else content)
        if name == "path":
            target.writestr("../../evil.txt", "x")
        if name == "a file twice":
            with pytest.warns(UserWarning, match="Duplicate name"):
                target.writestr("items.jsonl", files["items.jsonl"])
    return path


HOSTILE = {
    "no zip": "not a zip file",
    "cut off": "not a zip file, or it is damaged",
    "bit flipped": "damaged",
    "changed": "its files do not match its checksums",
    "path": "its list of files differs",
    "a file missing": "its list of files differs",
    "a file twice": "its list of files differs",
    "bomb": "suspicious compression ratio",
    "no object": "not a JSON object",
    "foreign manifest": "its manifest names another format",
    "later format": "this Concord reads 1",
    "half a manifest": r"Cannot use manifest\.json: a value is missing",
    "no such item": r"Cannot use line 1 of events\.jsonl: a value is missing",
    "an item twice": r"rows up to line \d+ of items\.jsonl contradict each other",
    "deep": "not a JSON object",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_foreign_or_malicious_zip_is_refused(any_archive: Path, tmp_path: Path, name: str) -> None:
    path = hostile(name, any_archive)
    with pytest.raises(ArchiveError, match=HOSTILE[name]):
        reproduced(path, tmp_path / "folder")
    assert not Project.objects.exists(), "nothing is left of it"
    assert not (tmp_path.parent / "evil.txt").exists()


def test_a_file_larger_than_announced_is_refused(any_archive: Path, tmp_path: Path) -> None:
    """The announced size is wrong: the bytes are counted."""
    with zipfile.ZipFile(any_archive) as opened:
        entry = opened.getinfo("items.jsonl")
        entry.file_size -= 1
        with pytest.raises((ArchiveError, zipfile.BadZipFile, zlib.error)):
            archive_reader._extract(opened, entry, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size <= entry.file_size


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="There is no file"):
        unpack(tmp_path / "none.zip", tmp_path)


@pytest.mark.slow
def test_reproduce_reports_by_its_exit_code(packed: Path, tmp_path: Path) -> None:
    """In a separate process and database, like a reader of the paper."""
    data = tmp_path / "data"
    data.mkdir()
    done = Installation(data).manage("reproduce", str(packed), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["agrees"] is True
    assert not list(data.glob("*.sqlite3")), "this installation was not touched"
    refused = Installation(data).manage("reproduce", str(hostile("path", packed)), "--json")
    assert refused.returncode == 1
    assert "Nothing was changed." in json.loads(refused.stdout)["error"]


def test_the_streamed_zip_is_valid(packed: Path) -> None:
    assert zipfile.ZipFile(io.BytesIO(packed.read_bytes())).testzip() is None
