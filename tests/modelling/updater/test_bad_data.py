"""With any data, the model is ok, waiting, or degraded with a message."""

import os
import re
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation.models import Item, Project, User
from annotation.storage import event_log
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState
from modelling.updater import failure_messages, update
from tests.modelling.samples.histories import TEXTS, Answer, all_pairs, answer, make_study

pytestmark = pytest.mark.django_db

MANY = 1_000_000 if os.environ.get("DRILLS") == "long" else 3_000
NOT_A_NUMBER = re.compile(rb"\b(nan|inf|infinity)\b", re.IGNORECASE)
TECHNICAL_TERMS = re.compile(r"Error|Exception|Traceback|array|None|numpy")


def columns(*values: object) -> list[dict[str, object]]:
    """One numeric column for each item."""
    return [{"own": values[n % len(values)]} for n in range(len(TEXTS))]


GOOD = all_pairs(3)
CYCLE: list[Answer] = [(who, a, b, "first") for who in range(3) for a, b in ((0, 1), (1, 2), (2, 0))]
CASES: dict[str, Callable[[User], Project]] = {
    "no labels": lambda owner: make_study("case", [(0, 0, 1, "skip")], owner=owner),
    "one label": lambda owner: make_study("case", [(0, 0, 1, "first")], owner=owner),
    "one item": lambda owner: only_one_item(make_study("case", GOOD, owner=owner)),
    "one worker": lambda owner: make_study("case", all_pairs(1), owner=owner),
    "all ties": lambda owner: make_study("case", all_pairs(3, "tie"), owner=owner),
    "all one side": lambda owner: make_study("case", all_pairs(12), owner=owner),
    "a perfect cycle": lambda owner: make_study("case", CYCLE, owner=owner),
    "every pair contradicted": lambda owner: make_study("case", GOOD + all_pairs(3, "second"), owner=owner),
    "a disconnected graph": lambda owner: make_study("case", [(0, 0, 1, "first"), (1, 2, 3, "first")], owner=owner),
    "NaN": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, "nan")),
    "infinite": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, "-inf")),
    "1e308": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1e308, -1e308, 1.0)),
    "constant": lambda owner: make_study("case", GOOD, owner=owner, features=columns(7.0)),
    "duplicate feature rows": lambda owner: make_study("case", GOOD, owner=owner, features=columns(1.0, 2.0)),
    "identical texts": lambda owner: make_study("case", GOOD, texts=["The same."] * 2 + list(TEXTS[2:]), owner=owner),
    "an item without labels": lambda owner: make_study("case", all_pairs(3, items=5), owner=owner),
    "very many labels on two items": lambda owner: make_study("case", crowded(MANY), owner=owner),
}
WAITING = {"no labels": failure_messages.NO_LABELS, "one item": failure_messages.FEW_ITEMS}
DEGRADED = {"NaN", "infinite"}


def only_one_item(project: Project) -> Project:
    Item.objects.exclude(key="item-0").update(active=False)
    return project


def crowded(count: int) -> list[Answer]:
    return [(n % 50, 0, 1, "first" if n % 3 else "second") for n in range(count)]


@pytest.mark.parametrize("case", CASES)
def test_bad_data_give_a_condition_with_a_message_and_no_invalid_scores(case: str, owner: User) -> None:
    CASES[case](owner)
    snapshot = update.update_one("one")
    state = UpdateState.objects.get()
    expected = "waiting" if case in WAITING else "degraded" if case in DEGRADED else "ok"
    assert (state.condition, bool(state.message), snapshot is None) == (expected, expected != "ok", expected != "ok")
    assert state.message == WAITING.get(case, state.message)
    assert not TECHNICAL_TERMS.search(state.message)
    for score in ConsensusScore.objects.values_list("mean", "sd", "top_probability", "polarisation"):
        assert np.isfinite(score).all()
    check_pages(owner)


def check_pages(owner: User) -> None:
    client = Client()
    client.force_login(owner)
    files = ["ranking.csv"] if ModelSnapshot.objects.exists() else []
    for page in ("ranking/", "workers/", "components/", "model/", *files):
        response = client.get(f"/projects/case/{page}")
        assert response.status_code == 200, page
        assert not NOT_A_NUMBER.search(response.getvalue()), page


@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_the_last_good_version_is_shown_after_the_data_went_bad(bad: str, owner: User) -> None:
    project = make_study("case", GOOD, owner=owner, features=columns(1.0, 2.0))
    good = update.update_one("one")
    Item.objects.filter(key="item-1").update(features={"own": bad})
    event_log.raise_inputs_revision(project.pk)
    assert update.update_one("one") is None
    state = UpdateState.objects.get()
    assert (state.current, state.condition) == (good, "degraded")
    assert "last good version" in state.message
    Item.objects.filter(key="item-1").update(features={"own": 2.5})
    UpdateState.objects.update(not_before=None)
    assert update.update_one("one").number == 2
    assert (UpdateState.objects.get().condition, UpdateState.objects.get().message) == ("ok", "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100 if os.environ.get("DRILLS") == "long" else 6))
def test_nearly_constant_features_still_give_a_ranking(seed: int, owner: User) -> None:
    """Columns with a condition number of 1e8 to 1e20, and a tenth of the rows duplicated."""
    rng = np.random.default_rng(seed)
    tiny = 10.0 ** -rng.uniform(8, 20)
    rows = [
        {"own": 1.0 + tiny * float(rng.standard_normal()), "big": float(rng.standard_normal()) / tiny} for _ in TEXTS
    ]
    rows[1] = rows[0]
    make_study("case", GOOD, owner=owner, features=rows, kernel="numeric")
    snapshot = update.update_one("one")
    state = UpdateState.objects.get()
    assert snapshot is not None or (state.condition == "degraded" and state.message)
    assert all(np.isfinite(mean) for mean in ConsensusScore.objects.values_list("mean", flat=True))


def test_one_bad_project_does_not_delay_another(owner: User) -> None:
    """The other project is updated in the same pass."""
    make_study("case", GOOD, owner=owner, features=columns(1.0, "nan"))
    good = make_study("good", GOOD, owner=owner)
    assert update.update_one("one") is None
    assert update.update_one("one").project == good
    answer(good, [(0, 0, 1, "first")])
    assert update.update_one("one").project == good
    assert ModelSnapshot.objects.filter(project__slug="case").count() == 0
