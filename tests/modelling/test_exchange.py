"""Files for other programs, read by those programs: they load, and count the winners that we count."""

import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import choix
import evalica
import pandas as pd
import pytest
from crowdkit.aggregation import BradleyTerry

from annotation.importing.judgements import import_judgements, read_judgements
from annotation.models import Item, Judgement, PlatformIdentity, Project
from modelling import exporting
from modelling.snapshots import load_fitted
from tests.modelling.exported import bytes_of, fixed_study, learned, odd_study
from tests.modelling.histories import answer, make_study

pytestmark = pytest.mark.django_db

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def fixed(db: None) -> Project:
    return fixed_study()


def wins(project: Project, ties: float = 0) -> Counter[str]:
    """How often each item won, straight from the rows; a tie counts so much for each side."""
    counts: Counter[str] = Counter()
    for judgement in Judgement.objects.answers().filter(project=project).select_related("item_lo", "item_hi"):
        if judgement.choice == "tie":
            counts.update({judgement.item_lo.key: ties, judgement.item_hi.key: ties})
        else:
            counts[judgement.item_lo.key if judgement.choice == "lo" else judgement.item_hi.key] += 1
    return counts


def test_crowd_kit_reads_it_and_counts_the_same_winners(odd: Project) -> None:
    table = pd.read_csv(io.BytesIO(bytes_of(odd, "crowd-kit")))
    assert list(table.columns[:4]) == ["worker", "left", "right", "label"]
    assert Counter(table["label"].str.removeprefix("'")) == wins(odd)
    assert table["worker"].nunique() == 4
    scores = BradleyTerry(n_iter=20).fit_predict(table)
    assert set(scores.index) == {"'=item-0", *(f"item-{n}" for n in range(1, 5))}


def test_choix_reads_it_and_counts_the_same_winners(odd: Project) -> None:
    file = json.loads(bytes_of(odd, "choix"))
    assert Counter(file["items"][winner] for winner, _ in file["data"]) == wins(odd, ties=1)
    strengths = choix.ilsr_pairwise(file["n_items"], file["data"], alpha=0.01)
    assert len(strengths) == file["n_items"] == 5
    assert (file["as_of_seq"], file["version"]) == (42, None)


def test_evalica_reads_it_and_counts_the_same_winners(odd: Project) -> None:
    table = pd.read_csv(io.BytesIO(bytes_of(odd, "evalica")))
    winner = {"left": evalica.Winner.X, "right": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    counted = evalica.counting(table["left"], table["right"], table["winner"].map(winner), win_weight=1, tie_weight=0.5)
    told = {name.removeprefix("'"): score for name, score in counted.scores.items()}
    assert told == {name: pytest.approx(count) for name, count in wins(odd, ties=0.5).items()}


@pytest.mark.parametrize(("what", "name"), [("label-studio", "label_studio.json"), ("arena", "arena.json")])
def test_a_file_is_what_it_was(fixed: Project, what: str, name: str) -> None:
    assert bytes_of(fixed, what).decode() == (GOLDEN / name).read_text(encoding="utf-8")


def test_ukpconvarg_files_are_what_they_were(fixed: Project) -> None:
    archive = zipfile.ZipFile(io.BytesIO(bytes_of(fixed, "ukpconvarg")))
    assert archive.namelist() == ["README.txt", "001-one.tsv"]
    assert archive.read("001-one.tsv").decode() == (GOLDEN / "ukpconvarg.tsv").read_text(encoding="utf-8")
    assert "equal for a tie" in archive.read("README.txt").decode()


def test_preferences_for_trl_are_what_they_were_and_the_model_stands_beside_them(fixed: Project) -> None:
    version = learned(fixed)
    lines = [json.loads(line) for line in bytes_of(fixed, "trl").splitlines()]
    said = [(line.pop("margin"), line.pop("confidence")) for line in lines]
    golden = (GOLDEN / "trl.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [json.loads(line) for line in golden]
    fitted, mean = load_fitted(version), dict(version.scores.values_list("item__key", "mean"))
    at = {key: list(fitted.item_ids).index(pk) for key, pk in Item.objects.values_list("key", "pk")}
    for line, (margin, confidence) in zip(lines, said, strict=True):
        chosen, rejected = line["chosen_key"], line["rejected_key"]
        assert margin == pytest.approx(mean[chosen] - mean[rejected], abs=1e-9)
        chance = fitted.model.predict_consensus_proba([at[chosen]], [at[rejected]])
        assert confidence == pytest.approx(float(chance[0]), abs=1e-9)


def test_preferences_need_a_version(fixed: Project) -> None:
    with pytest.raises(exporting.NoExport, match="no ranking yet"):
        bytes_of(fixed, "trl")


def test_an_older_text_of_a_corrected_item_keeps_a_name_of_its_own(fixed: Project) -> None:
    old = Item.objects.get(project=fixed, key="item-1")
    Item.objects.filter(pk=old.pk).update(active=False)
    new = Item.objects.create(project=fixed, key="item-1", revision=2, text="Dogs howl.", group="one")
    Item.objects.filter(pk=new.pk).update(active=True)
    assert b"item-1@1" not in bytes_of(fixed, "choix"), "nobody has judged the new one"
    from annotation.models import Worker

    items = list(Item.objects.filter(project=fixed).order_by("pk").values_list("pk", flat=True))
    answer(fixed, [(0, items.index(new.pk), 0, "first")])
    assert Worker.objects.filter(project=fixed).count() == 3
    names = json.loads(bytes_of(fixed, "choix"))["items"]
    assert {"item-1", "item-1@1"} <= set(names)


@pytest.mark.database
def test_no_older_text_has_the_name_of_another_item() -> None:
    project = make_study("names", texts=["First.", "Second.", "Third.", "Fourth."])
    for number, (key, revision) in enumerate([("a", 1), ("a@1", 1), ("a@1", 2), ("a", 2)]):
        item = Item.objects.get(project=project, key=f"item-{number}")
        Item.objects.filter(pk=item.pk).update(key=key, revision=revision, active=revision == 2)
    answer(project, [(0, 0, 1, "first"), (0, 2, 3, "first"), (0, 0, 3, "second")])
    file = json.loads(bytes_of(project, "choix"))
    assert file["items"] == ["a@@1", "a@1@1", "a@1", "a"]
    assert file["data"] == [[0, 1], [2, 3], [3, 0]]


def unpacked(content: bytes, folder: Path) -> list[Path]:
    """The tables of an export as files."""
    if not content.startswith(b"PK"):
        (folder / "file").write_bytes(content)
        return [folder / "file"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)
        return [folder / name for name in archive.namelist() if name != "README.txt"]


def said_in(project: Project) -> Counter[tuple[str, str, str, str]]:
    """Who said what about which two, by the names the first study had."""
    names = dict(PlatformIdentity.objects.filter(project=project).values_list("worker", "external_id"))
    rows = Judgement.objects.answers().filter(project=project)
    fields = rows.values_list("worker", "worker__code", "item_lo__key", "item_hi__key", "choice")
    return Counter((names.get(pk, code), lo, hi, choice) for pk, code, lo, hi, choice in fields)


@pytest.mark.parametrize("what", ["ukpconvarg", "judgements", "crowd-kit", "arena", "evalica"])
def test_what_was_exported_can_be_imported_to_the_same_rows(odd: Project, what: str, tmp_path: Path) -> None:
    copy = make_study("copy", texts=[item.text for item in Item.objects.filter(project=odd).order_by("pk")])
    Item.objects.filter(project=copy, key="item-0").update(key="=item-0")
    for path in unpacked(bytes_of(odd, what), tmp_path):
        rows = read_judgements(path)
        assert import_judgements(project=copy, user=None, rows=rows).counts["added"] == len(rows)
        assert import_judgements(project=copy, user=None, rows=rows).counts["added"] == 0, "twice adds nothing"
    expected = said_in(odd)
    if what == "crowd-kit":
        expected = Counter({row: n for row, n in expected.items() if row[3] != "tie"})
    if what == "evalica":
        expected = Counter({("evalica", *row[1:]): 0 for row in expected}) + Counter(
            ("evalica", *row[1:]) for row in expected.elements()
        )
    assert said_in(copy) == expected
