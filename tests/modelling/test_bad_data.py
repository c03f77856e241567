"""P26 and P29: whatever a study holds, its model is ok, waits, or says in words why the last good version is shown."""

import os
import re
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import ledger
from annotation.models import Item, Project, User
from modelling import troubles, updating
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState
from tests.modelling.histories import TEXTS, Answer, answer, everybody, make_study

pytestmark = pytest.mark.django_db

MANY = 1_000_000 if os.environ.get("DRILLS") == "long" else 3_000
NO_NUMBER = re.compile(rb"\b(nan|inf|infinity)\b", re.IGNORECASE)
PROGRAMMERS_WORDS = re.compile(r"Error|Exception|Traceback|array|None|numpy")


def columns(*values: object) -> list[dict[str, object]]:
    """One column of the researcher's own, for each item."""
    return [{"own": values[n % len(values)]} for n in range(len(TEXTS))]


GOOD = everybody(3)
CYCLE: list[Answer] = [(who, a, b, "first") for who in range(3) for a, b in ((0, 1), (1, 2), (2, 0))]
CASES: dict[str, Callable[[User], Project]] = {
    "no labels": lambda owner: make_study("case", [(0, 0, 1, "skip")], owner=owner),
    "one label": lambda owner: make_study("case", [(0, 0, 1, "first")], owner=owner),
    "one item": lambda owner: only_one_item(make_study("case", GOOD, owner=owner)),
    "one worker": lambda owner: make_study("case", everybody(1), owner=owner),
    "all ties": lambda owner: make_study("case", everybody(3, "tie"), owner=owner),
    "all one side": lambda owner: make_study("case", everybody(12), owner=owner),
    "a perfect cycle": lambda owner: make_study("case", CYCLE, owner=owner),
    "every pair contradicted": lambda owner: make_study("case", GOOD + everybody(3, "second"), owner=owner),
    "a disconnected graph": lambda owner: make_study("case", [(0, 0, 1, "first"), (1, 2, 3, "first")], owner=owner),
    "NaN": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, "nan")),
    "infinite": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, "-inf")),
    "1e308": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1e308, -1e308, 1.0)),
    "constant": lambda owner: make_study("case", GOOD, owner=owner, features=columns(7.0)),
    "duplicate feature rows": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, 2.0)),
    "identical texts": lambda owner: make_study("case", GOOD, texts=["The same."] * 2 + list(TEXTS[2:]), owner=owner),
    "an item without labels": lambda owner: make_study("case", everybody(3, items=5), owner=owner),
    "very many labels on two items": lambda owner: make_study("case", crowded(MANY), owner=owner),
}
WAITING = {"no labels": troubles.NO_LABELS, "one item": troubles.FEW_ITEMS}
DEGRADED = {"NaN", "infinite"}


def only_one_item(project: Project) -> Project:
    Item.objects.exclude(key="item-0").update(active=False)
    return project


def crowded(count: int) -> list[Answer]:
    return [(n % 50, 0, 1, "first" if n % 3 else "second") for n in range(count)]


@pytest.mark.parametrize("case", CASES)
def test_bad_data_end_in_a_condition_with_words_and_never_in_nonsense(case: str, owner: User) -> None:
    CASES[case](owner)
    snapshot = updating.run_one("one")
    state = UpdateState.objects.get()
    expected = "waiting" if case in WAITING else "degraded" if case in DEGRADED else "ok"
    assert (state.condition, bool(state.words), snapshot is None) == (expected, expected != "ok", expected != "ok")
    assert state.words == WAITING.get(case, state.words)
    assert not PROGRAMMERS_WORDS.search(state.words)
    for score in ConsensusScore.objects.values_list("mean", "sd", "top_probability", "polarisation"):
        assert np.isfinite(score).all()
    assert_pages_hold_no_nonsense(owner)


def assert_pages_hold_no_nonsense(owner: User) -> None:
    client = Client()
    client.force_login(owner)
    files = ["ranking.csv"] if ModelSnapshot.objects.exists() else []
    for page in ("ranking/", "workers/", "components/", "model/", *files):
        answered = client.get(f"/projects/case/{page}")
        assert answered.status_code == 200, page
        assert not NO_NUMBER.search(answered.getvalue()), page


@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_the_last_good_version_is_still_served_after_the_data_went_bad(bad: str, owner: User) -> None:
    project = make_study("case", GOOD, owner=owner, features=columns(1.0, 2.0))
    good = updating.run_one("one")
    Item.objects.filter(key="item-1").update(features={"own": bad})
    ledger.raise_inputs_revision(project.pk)
    assert updating.run_one("one") is None
    state = UpdateState.objects.get()
    assert (state.current, state.condition) == (good, "degraded")
    assert "last good version" in state.words
    Item.objects.filter(key="item-1").update(features={"own": 2.5})
    UpdateState.objects.update(not_before=None)
    assert updating.run_one("one").number == 2
    assert (UpdateState.objects.get().condition, UpdateState.objects.get().words) == ("ok", "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100 if os.environ.get("DRILLS") == "long" else 6))
def test_features_that_hardly_differ_still_give_a_ranking(seed: int, owner: User) -> None:
    """P29: columns of condition 1e8 to 1e20, a tenth of the rows twice."""
    rng = np.random.default_rng(seed)
    tiny = 10.0 ** -rng.uniform(8, 20)
    rows = [
        {"own": 1.0 + tiny * float(rng.standard_normal()), "big": float(rng.standard_normal()) / tiny} for _ in TEXTS
    ]
    rows[1] = rows[0]
    make_study("case", GOOD, owner=owner, features=rows, kernel="numeric")
    snapshot = updating.run_one("one")
    state = UpdateState.objects.get()
    assert snapshot is not None or (state.condition == "degraded" and state.words)
    assert all(np.isfinite(mean) for mean in ConsensusScore.objects.values_list("mean", flat=True))


def test_one_bad_project_does_not_delay_another(owner: User) -> None:
    """P27: a project that fails steps aside; the other is brought up to date in the same round."""
    make_study("case", GOOD, owner=owner, features=columns(1.0, "nan"))
    good = make_study("good", GOOD, owner=owner)
    assert updating.run_one("one") is None
    assert updating.run_one("one").project == good
    answer(good, [(0, 0, 1, "first")])
    assert updating.run_one("one").project == good
    assert ModelSnapshot.objects.filter(project__slug="case").count() == 0
