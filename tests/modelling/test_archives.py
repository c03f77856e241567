"""An archive gives the same ranking again in an empty database; a zip that is not one of ours is refused in words."""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection

from annotation import append_only, services
from annotation.models import Assignment, Item, Judgement, Project, Retraction, Worker
from annotation.services import Receipt
from annotation.verification import problems_of
from modelling import exporting
from modelling.exporting import archive, unpacking
from modelling.exporting.reproducing import Verdict, reproduce
from modelling.exporting.unpacking import NoArchive, unpack
from modelling.models import ModelSnapshot, UpdateState
from tests.commands import CommandLine
from tests.drills.install import Install
from tests.modelling.exported import bytes_of, learned, odd_study
from tests.modelling.histories import answer

pytestmark = pytest.mark.django_db


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def packed(odd: Project, tmp_path: Path) -> Path:
    """The archive of a study that also has an erased worker, a corrected text and an item switched off."""
    services.erase_worker(worker=Worker.objects.filter(project=odd).last(), user=None, remove_judgements=True)
    Item.objects.filter(project=odd, key="item-3").update(active=False)
    learned(odd)
    path = tmp_path / "odd.zip"
    path.write_bytes(bytes_of(odd, "archive"))
    return path


def files_in(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def repacked(path: Path, files: dict[str, bytes], *, seal: bool = True) -> Path:
    """The same archive with other files, and with checksums that fit them."""
    folder = path.with_suffix(".folder")
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if seal:
        (folder / archive.SUMS).write_text(archive.sums_in(folder), encoding="utf-8")
    other = path.with_name("other.zip")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as target:
        for name in files:
            target.write(folder / name, name)
    return other


def checked(path: Path, folder: Path) -> Verdict:
    """As `reproduce` does it: in a database in which nothing is left of the study it came from."""
    append_only.release(connection)
    for kind in (UpdateState, ModelSnapshot, Retraction, Judgement, Assignment, Worker, Item, Project):
        kind._default_manager.all().delete()
    append_only.guard(connection)
    folder.mkdir()
    return reproduce(folder, unpack(path, folder))


def test_the_ranking_comes_out_again(packed: Path, tmp_path: Path) -> None:
    """P16."""
    verdict = checked(packed, tmp_path / "folder")
    assert verdict.agrees
    assert (verdict.same_order, verdict.max_difference, verdict.chain) == (True, 0.0, True)
    told, again = json.loads(files_in(packed)["manifest.json"])["version"], ModelSnapshot.objects.get()
    assert (again.included, again.settings, again.seed) == (told["included"], told["settings"], told["seed"])


@pytest.mark.parametrize("learned_from", [True, False])
def test_what_workers_told_is_in_it_only_where_the_model_learns_from_it(
    odd: Project, tmp_path: Path, learned_from: bool
) -> None:
    Project.objects.filter(pk=odd.pk).update(model_settings={**odd.model_settings, "traits": learned_from})
    odd.refresh_from_db()
    learned(odd)
    path = tmp_path / "odd.zip"
    path.write_bytes(bytes_of(odd, "archive"))
    assert (b"young" in files_in(path)["workers.jsonl"]) is learned_from
    assert ("from which the model learned" in files_in(path)["README.md"].decode()) is learned_from
    assert checked(path, tmp_path / "folder").agrees


def test_judgements_of_browsers_come_along(project: Project, judge: Callable[..., Receipt], tmp_path: Path) -> None:
    for choice in ("left", "right", "tie"):
        worker = services.enrol(project=project)
        for _ in range(3):
            judge(worker, choice)
    learned(project)
    path = tmp_path / "pets.zip"
    path.write_bytes(bytes_of(project, "archive"))
    assert checked(path, tmp_path / "folder").agrees
    assert not list(problems_of(Project.objects.get())), "its log is a log like any other"


def test_a_version_gives_the_same_archive_whenever_it_is_made(odd: Project) -> None:
    learned(odd)
    first = bytes_of(odd, "archive", version=1)
    answer(odd, [(0, 0, 1, "first")])
    assert bytes_of(odd, "archive", version=1) == first


def test_it_says_what_it_is_and_holds_nobody(packed: Path, odd: Project) -> None:
    files = files_in(packed)
    assert sorted(files) == sorted(archive.NAMES)
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
    learned(odd)
    answer(odd, [(0, 0, 1, "first")])
    assert learned(odd).kind == "step"
    with pytest.raises(exporting.NoExport, match="was not fitted from scratch"):
        bytes_of(odd, "archive", version=2)


def test_the_command_fits_first_where_it_must(odd: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, output = CommandLine(capsys), tmp_path / "odd.zip"
    learned(odd)
    answer(odd, [(0, 0, 1, "first")])
    assert learned(odd).kind == "step"
    ended = command("export", "odd", "archive", "--licence", "CC BY 4.0", "--output", output, "--json")
    assert (ended.code, ended.facts["version"]) == (0, 3)
    assert ModelSnapshot.objects.get(number=3).kind == "refit"
    assert json.loads(files_in(output)["manifest.json"])["licence"] == "CC BY 4.0"


@pytest.mark.parametrize("what", ["choice", "score", "text", "seed"])
def test_an_archive_that_was_changed_does_not_agree(packed: Path, tmp_path: Path, what: str) -> None:
    """Also where the checksums were made to fit."""
    files = files_in(packed)
    if what == "choice":
        files["events.jsonl"] = files["events.jsonl"].replace(b'"choice":"lo"', b'"choice":"hi"', 1)
    elif what == "text":
        files["items.jsonl"] = files["items.jsonl"].replace(b"Dogs", b"Many big dogs, they say,")
    elif what == "score":
        lines = [json.loads(line) for line in files["ranking.jsonl"].splitlines()]
        lines[0]["mean"] += 1e-6
        files["ranking.jsonl"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    else:
        manifest = json.loads(files["manifest.json"])
        manifest["version"]["seed"] = manifest["version"]["settings"]["seed"] = 77
        files["manifest.json"] = json.dumps(manifest).encode()
    verdict = checked(repacked(packed, files), tmp_path / "folder")
    assert verdict.agrees is (what == "seed" and verdict.max_difference is not None and verdict.max_difference <= 1e-8)
    assert verdict.chain is (what != "choice")


@pytest.mark.parametrize("nothing", ["NaN", "Infinity", "1e999", "null"])
def test_a_ranking_with_a_score_that_is_no_number_agrees_with_nothing(
    packed: Path, tmp_path: Path, nothing: str
) -> None:
    files = files_in(packed)
    lines = files["ranking.jsonl"].splitlines()
    lines[-1] = re.sub(rb'"mean":[^,]+', f'"mean":{nothing}'.encode(), lines[-1])
    files["ranking.jsonl"] = b"\n".join(lines) + b"\n"
    with pytest.raises(NoArchive, match="ranking of this archive cannot be read"):
        checked(repacked(packed, files), tmp_path / "folder")


def hostile(name: str, packed: Path) -> Path:
    """A zip that somebody might bring."""
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
        said = {
            "no object": b"[1, 2]",
            "foreign manifest": b'{"format": "something"}',
            "later format": b'{"format": "concord-archive", "format_version": 99}',
            "half a manifest": b'{"format": "concord-archive", "format_version": 1}',
        }
        return repacked(packed, {**files, "manifest.json": said[name]})
    if name in ("no such item", "deep"):
        line = b'{"type":"judgement","worker":"nobody"}' if name == "no such item" else b"[" * 100_000
        return repacked(packed, {**files, "events.jsonl": line})
    if name == "an item twice":
        return repacked(packed, {**files, "items.jsonl": 2 * files["items.jsonl"]})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for own, content in files.items():
            target.writestr(own, b" " * 20_000_000 if (name, own) == ("bomb", "items.jsonl") else content)
        if name == "path":
            target.writestr("../../evil.txt", "x")
    return path


HOSTILE = {
    "no zip": "not a zip file",
    "cut off": "not a zip file, or it is damaged",
    "bit flipped": "damaged",
    "changed": "its files are not those its checksums speak of",
    "path": "does not hold the files that one has",
    "bomb": "packed tighter than any honest file",
    "no object": "not a JSON object",
    "foreign manifest": "its manifest says something else",
    "later format": "this Concord reads format 1",
    "half a manifest": r"nothing to be made of manifest\.json: something is missing",
    "no such item": r"nothing to be made of line 1 of events\.jsonl: something is missing",
    "an item twice": r"rows up to line \d+ of items\.jsonl contradict each other",
    "deep": "not a JSON object",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_corrupt_foreign_or_hostile_zip_is_refused_in_words(packed: Path, tmp_path: Path, name: str) -> None:
    path = hostile(name, packed)
    with pytest.raises(NoArchive, match=HOSTILE[name]):
        checked(path, tmp_path / "folder")
    assert not Project.objects.exists(), "nothing of it stays"
    assert not (tmp_path.parent / "evil.txt").exists()


def test_a_file_that_is_larger_than_it_says_is_refused(packed: Path, tmp_path: Path) -> None:
    """The announced size is a lie: the bytes are counted."""
    with zipfile.ZipFile(packed) as opened:
        entry = opened.getinfo("items.jsonl")
        entry.file_size -= 1
        with pytest.raises((NoArchive, zipfile.BadZipFile, zlib.error)):
            unpacking._extract(opened, entry, tmp_path / "out")
    assert (tmp_path / "out").stat().st_size <= entry.file_size


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match="There is no file"):
        unpack(tmp_path / "none.zip", tmp_path)


@pytest.mark.slow
def test_reproduce_says_yes_or_no_by_its_exit_code(packed: Path, tmp_path: Path) -> None:
    """In a process and a database of its own, as a reader of the paper would run it."""
    data = tmp_path / "data"
    data.mkdir()
    done = Install(data).manage("reproduce", str(packed), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["agrees"] is True
    assert not list(data.glob("*.sqlite3")), "this installation was not touched"
    refused = Install(data).manage("reproduce", str(hostile("path", packed)), "--json")
    assert refused.returncode == 1
    assert "Nothing was changed." in json.loads(refused.stdout)["error"]


def test_streaming_a_zip_gives_a_zip(packed: Path) -> None:
    assert zipfile.ZipFile(io.BytesIO(packed.read_bytes())).testzip() is None
