"""P16: what was exported as plain tables and imported again gives the same ranking. Archives: test_archives.py."""

import os
from pathlib import Path
from random import Random

import pytest
from django.core.management import call_command

from annotation.models import Project
from modelling.models import ModelSnapshot
from tests.modelling.exported import learned, retract
from tests.modelling.histories import Answer, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LONG = os.environ.get("DRILLS") == "long"
ITEMS, JUDGEMENTS, WORKERS = (200, 5000, 50) if LONG else (30, 300, 8)
KINDS = ("Evidence and numbers", "A story of people", "Plain words", "Fear,\nand hope")


def some_answer(rng: Random) -> Answer:
    """Two workers of three like the texts in their order, the third the other way round; all err, and some skip."""
    who, (a, b) = rng.randrange(WORKERS), rng.sample(range(ITEMS), 2)
    if rng.random() < 0.2:
        return who, a, b, rng.choice(("tie", "skip"))
    likes_first = (a < b) == (who % 3 > 0)
    return who, a, b, "first" if likes_first == (rng.random() < 0.8) else "second"


def scores(snapshot: ModelSnapshot) -> dict[str, float]:
    """Best first, by key."""
    return dict(snapshot.scores.order_by("rank").values_list("item__key", "mean"))


@pytest.mark.slow
def test_tables_that_were_exported_and_imported_again_give_the_same_ranking(tmp_path: Path) -> None:
    rng, texts = Random(1), [f"{KINDS[n % 4]}, reason {n}." for n in range(ITEMS)]
    first = make_study("first", [some_answer(rng) for _ in range(JUDGEMENTS)], texts=texts, seed=7)
    for sequence in (3, 40):
        retract(first, sequence)
    before = learned(first)
    items, judgements = tmp_path / "items.jsonl", tmp_path / "judgements.csv"
    call_command("export", "first", "items", format="jsonl", output=items)
    call_command("export", "first", "judgements", output=judgements)
    second = make_study("second", texts=[], seed=7)
    call_command("import_items", "second", str(items))
    call_command("import_judgements", "second", str(judgements))
    after = learned(Project.objects.get(pk=second.pk))
    assert (after.included, after.kind) == (before.included, "refit")
    ours, theirs = scores(before), scores(after)
    assert list(ours) == list(theirs)
    assert max(abs(ours[key] - theirs[key]) for key in ours) <= 1e-8
