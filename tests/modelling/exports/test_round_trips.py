"""Exported and reimported tables give the same ranking. For archives see test_archive.py."""

import os
from pathlib import Path
from random import Random

import pytest
from django.core.management import call_command

from annotation.models import Item, Project
from modelling.models import ModelSnapshot
from tests.modelling.exports.samples import fit, retract
from tests.modelling.samples.histories import Answer, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LONG = os.environ.get("DRILLS") == "long"
ITEMS, JUDGEMENTS, WORKERS = (200, 5000, 50) if LONG else (30, 300, 8)
KINDS = ("Evidence and numbers", "A story of people", "Plain words", "Fear,\nand hope")


def some_answer(rng: Random) -> Answer:
    """Two of three workers prefer earlier texts, the third later ones; all make errors and some skip."""
    who, (a, b) = rng.randrange(WORKERS), rng.sample(range(ITEMS), 2)
    if rng.random() < 0.2:
        return who, a, b, rng.choice(("tie", "skip"))
    prefers_first = (a < b) == (who % 3 > 0)
    return who, a, b, "first" if prefers_first == (rng.random() < 0.8) else "second"


def scores(snapshot: ModelSnapshot) -> dict[str, float]:
    """Best first, by key."""
    return dict(snapshot.scores.order_by("rank").values_list("item__key", "mean"))


@pytest.mark.slow
def test_exported_and_reimported_tables_give_the_same_ranking(tmp_path: Path) -> None:
    rng, texts = Random(1), [f"{KINDS[n % 4]}, reason {n}." for n in range(ITEMS)]
    first = make_study("first", [some_answer(rng) for _ in range(JUDGEMENTS)], texts=texts, seed=7)
    for sequence in (3, 40):
        retract(first, sequence)
    before = fit(first)
    items, judgements = tmp_path / "items.jsonl", tmp_path / "judgements.csv"
    call_command("export", "first", "items", format="jsonl", output=items)
    call_command("export", "first", "judgements", output=judgements)
    second = make_study("second", texts=[], seed=7)
    call_command("import_items", "second", str(items))
    call_command("import_judgements", "second", str(judgements))
    after = fit(Project.objects.get(pk=second.pk))
    assert (after.included, after.kind) == (before.included, "refit")
    ours, theirs = scores(before), scores(after)
    assert list(ours) == list(theirs)
    assert max(abs(ours[key] - theirs[key]) for key in ours) <= 1e-8


def test_reimported_items_have_the_same_features_and_metadata(tmp_path: Path) -> None:
    features = [{"year": 1990.0, "length": 1.5}, {"year": 2000.0, "length": -2.0}]
    first = make_study("first", texts=["First.", "Second."], features=features)
    Item.objects.filter(project=first).update(metadata={"author": "Ann"})
    call_command("export", "first", "items", output=tmp_path / "items.csv")
    second = make_study("second", texts=[])
    call_command("import_items", "second", str(tmp_path / "items.csv"))
    items = Item.objects.filter(project=second).order_by("pk")
    assert [item.features for item in items] == features
    assert [item.metadata["author"] for item in items] == ["Ann", "Ann"]
