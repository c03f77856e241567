"""Files for other programs, read by those programs: they load them and count the same winners."""

import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import choix
import evalica
import pandas as pd
import pytest

from annotation.importing.judgement_files import read_judgements
from annotation.importing.judgements import import_judgements
from annotation.models import Item, Judgement, PlatformIdentity, Project
from modelling.exports.points import ExportError
from modelling.training.snapshots import load_fitted_model
from tests.modelling.exports.samples import export_bytes, fit, fixed_study, odd_study
from tests.modelling.samples.histories import answer, make_study

pytestmark = pytest.mark.django_db

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


@pytest.fixture
def fixed(db: None) -> Project:
    return fixed_study()


def wins(project: Project, ties: float = 0) -> Counter[str]:
    """How often each item won according to the rows; `ties` is what a tie counts for each side."""
    counts: Counter[str] = Counter()
    for judgement in Judgement.objects.answers().filter(project=project).select_related("item_lo", "item_hi"):
        if judgement.choice == "tie":
            counts.update({judgement.item_lo.key: ties, judgement.item_hi.key: ties})
        else:
            counts[judgement.item_lo.key if judgement.choice == "lo" else judgement.item_hi.key] += 1
    return counts


def test_crowd_kit_counts_the_same_winners(odd: Project) -> None:
    table = pd.read_csv(io.BytesIO(export_bytes(odd, "crowd-kit")))
    assert list(table.columns[:4]) == ["worker", "left", "right", "label"]
    assert Counter(table["label"].str.removeprefix("'")) == wins(odd)
    assert table["worker"].nunique() == 4
    from crowdkit.aggregation import BradleyTerry  # slow to import

    scores = BradleyTerry(n_iter=20).fit_predict(table)
    assert set(scores.index) == {"'=item-0", *(f"item-{n}" for n in range(1, 5))}


def test_choix_counts_the_same_winners(odd: Project) -> None:
    file = json.loads(export_bytes(odd, "choix"))
    assert Counter(file["items"][winner] for winner, _ in file["data"]) == wins(odd, ties=1)
    strengths = choix.ilsr_pairwise(file["n_items"], file["data"], alpha=0.01)
    assert len(strengths) == file["n_items"] == 5
    assert (file["as_of_seq"], file["version"]) == (42, None)


def test_evalica_counts_the_same_winners(odd: Project) -> None:
    table = pd.read_csv(io.BytesIO(export_bytes(odd, "evalica")))
    winner = {"left": evalica.Winner.X, "right": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    counted = evalica.counting(table["left"], table["right"], table["winner"].map(winner), win_weight=1, tie_weight=0.5)
    scores = {name.removeprefix("'"): score for name, score in counted.scores.items()}
    assert scores == {name: pytest.approx(count) for name, count in wins(odd, ties=0.5).items()}


def test_evalica_leaves_out_pairs_whose_texts_are_both_poor(fixed: Project) -> None:
    assert Judgement.objects.filter(project=fixed, skip_reason="both_poor").exists()
    table = pd.read_csv(io.BytesIO(export_bytes(fixed, "evalica")))
    assert set(table["winner"]) == {"left", "right", "tie"}


@pytest.mark.parametrize(("what", "name"), [("label-studio", "label_studio.json"), ("arena", "arena.json")])
def test_files_equal_the_golden_files(fixed: Project, what: str, name: str) -> None:
    assert export_bytes(fixed, what).decode() == (GOLDEN / name).read_text(encoding="utf-8")


def test_ukpconvarg_equals_the_golden_file(fixed: Project) -> None:
    archive = zipfile.ZipFile(io.BytesIO(export_bytes(fixed, "ukpconvarg")))
    assert archive.namelist() == ["README.txt", "001-one.tsv"]
    assert archive.read("001-one.tsv").decode() == (GOLDEN / "ukpconvarg.tsv").read_text(encoding="utf-8")
    assert "equal for a tie" in archive.read("README.txt").decode()


def test_trl_preferences_equal_the_golden_file_and_the_model(fixed: Project) -> None:
    version = fit(fixed)
    lines = [json.loads(line) for line in export_bytes(fixed, "trl").splitlines()]
    predicted = [(line.pop("margin"), line.pop("confidence")) for line in lines]
    golden = (GOLDEN / "trl.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [json.loads(line) for line in golden]
    fitted, mean = load_fitted_model(version), dict(version.scores.values_list("item__key", "mean"))
    at = {key: list(fitted.item_ids).index(pk) for key, pk in Item.objects.values_list("key", "pk")}
    for line, (margin, confidence) in zip(lines, predicted, strict=True):
        chosen, rejected = line["chosen_key"], line["rejected_key"]
        assert margin == pytest.approx(mean[chosen] - mean[rejected], abs=1e-9)
        chance = fitted.model.predict_consensus_proba([at[chosen]], [at[rejected]], kind="typical")
        assert confidence == pytest.approx(float(chance[0]), abs=1e-9)


def test_trl_needs_a_version(fixed: Project) -> None:
    with pytest.raises(ExportError, match="no ranking yet"):
        export_bytes(fixed, "trl")


def test_an_older_text_of_a_corrected_item_has_its_own_name(fixed: Project) -> None:
    old = Item.objects.get(project=fixed, key="item-1")
    Item.objects.filter(pk=old.pk).update(active=False)
    new = Item.objects.create(project=fixed, key="item-1", revision=2, text="Dogs howl.", group="one")
    Item.objects.filter(pk=new.pk).update(active=True)
    assert b"item-1@1" not in export_bytes(fixed, "choix"), "the new text is not judged yet"
    from annotation.models import Worker

    items = list(Item.objects.filter(project=fixed).order_by("pk").values_list("pk", flat=True))
    answer(fixed, [(0, items.index(new.pk), 0, "first")])
    assert Worker.objects.filter(project=fixed).count() == 3
    names = json.loads(export_bytes(fixed, "choix"))["items"]
    assert {"item-1", "item-1@1"} <= set(names)


def test_names_of_older_texts_are_unique() -> None:
    project = make_study("names", texts=["First.", "Second.", "Third.", "Fourth."])
    for number, (key, revision) in enumerate([("a", 1), ("a@1", 1), ("a@1", 2), ("a", 2)]):
        item = Item.objects.get(project=project, key=f"item-{number}")
        Item.objects.filter(pk=item.pk).update(key=key, revision=revision, active=revision == 2)
    answer(project, [(0, 0, 1, "first"), (0, 2, 3, "first"), (0, 0, 3, "second")])
    file = json.loads(export_bytes(project, "choix"))
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


def judgement_counts(project: Project) -> Counter[tuple[str, str, str, str]]:
    """Count judgements by worker, items and choice, with the worker names of the first study."""
    names = dict(PlatformIdentity.objects.filter(project=project).values_list("worker", "external_id"))
    rows = Judgement.objects.answers().filter(project=project)
    fields = rows.values_list("worker", "worker__code", "item_lo__key", "item_hi__key", "choice")
    return Counter((names.get(pk, code), lo, hi, choice) for pk, code, lo, hi, choice in fields)


@pytest.mark.parametrize("what", ["ukpconvarg", "judgements", "crowd-kit", "arena", "evalica"])
def test_an_exported_file_imports_to_the_same_rows(odd: Project, what: str, tmp_path: Path) -> None:
    copy = make_study("copy", texts=[item.text for item in Item.objects.filter(project=odd).order_by("pk")])
    Item.objects.filter(project=copy, key="item-0").update(key="=item-0")
    for path in unpacked(export_bytes(odd, what), tmp_path):
        rows = read_judgements(path)
        assert import_judgements(project=copy, user=None, rows=rows).counts["added"] == len(rows)
        assert import_judgements(project=copy, user=None, rows=rows).counts["added"] == 0, "twice adds nothing"
    expected = judgement_counts(odd)
    if what == "crowd-kit":
        expected = Counter({row: n for row, n in expected.items() if row[3] != "tie"})
    if what == "evalica":
        expected = Counter({("evalica", *row[1:]): 0 for row in expected}) + Counter(
            ("evalica", *row[1:]) for row in expected.elements()
        )
    assert judgement_counts(copy) == expected
