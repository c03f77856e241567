"""Studies with very many items: the model that fits them, and the message if none does."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from annotation.models import Item, Project, User
from annotation.storage import event_log
from modelling.models import ModelSnapshot, UpdateState
from modelling.training import size
from modelling.training.verification import find_problems, rebuild
from modelling.updater import update
from modelling.updater.failure_messages import translate_message
from tests.modelling.samples.histories import TEXTS, all_pairs, answer, make_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sample's items be one more than Concord's own inference can fit."""
    monkeypatch.setattr(size, "MANY_ITEMS", len(TEXTS) - 1)


def engines(project: Project) -> list[tuple[str, str]]:
    versions = ModelSnapshot.objects.filter(project=project).order_by("number")
    return [(version.kind, version.settings["engine"]) for version in versions]


@pytest.mark.usefixtures("many_items")
def test_a_study_with_many_items_is_fitted_with_the_published_algorithm(owner: User) -> None:
    """Its own settings stay, and apply again when it has fewer items."""
    project = make_study("large", all_pairs(4), owner=owner, reliability=True, n_components=2)
    update.update_one("one")
    answer(project, [(0, 0, 1, "first")])
    update.update_one("one")
    assert engines(project) == [("refit", "paper_svi"), ("step", "paper_svi")]
    assert [problem for _, problem in rebuild(project, 5)] == ["", ""]
    Item.objects.filter(project=project, key="item-5").update(active=False)
    event_log.raise_inputs_revision(project.pk)
    update.update_one("one")
    assert engines(project)[2] == ("refit", "crowdgppl")
    assert list(find_problems(project)) == []
    project.refresh_from_db()
    assert project.model_settings == {"reliability": True, "n_components": 2}


def test_the_pages_say_so(owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_study("large", all_pairs(2), owner=owner)
    pages = [reverse(f"modelling:{name}", args=[project.slug]) for name in ("model", "model_settings")]
    note, client = b"This study has more than 3,000 active items", log_in(owner)
    assert [note in client.get(page).content for page in pages] == [False, False]
    monkeypatch.setattr(size, "MANY_ITEMS", len(TEXTS) - 1)
    assert [note in client.get(page).content for page in pages] == [True, True]


def test_a_study_that_exceeds_the_memory_is_not_fitted(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed, so that repeated attempts cost nothing; the message is translated."""
    project = make_study("huge", all_pairs(2), owner=owner)
    monkeypatch.setattr(size, "memory_limit", lambda: size.BYTES_PER_PAIR * len(TEXTS) ** 2 - 1)
    monkeypatch.setattr("modelling.training.fit.build_item_features", lambda *_: pytest.fail("a fit was started"))
    assert update.update_one("one") is None
    state = UpdateState.objects.get(project=project)
    assert (state.condition, state.message) == ("degraded", size.TOO_LARGE)
    with translation.override("de"):
        assert "zu viele Texte für den Arbeitsspeicher" in translate_message(state.message)


def test_messages_name_the_limits() -> None:
    assert f"at most {size.MAX_INDEPENDENT_ITEMS} items" in size.TOO_MANY_INDEPENDENT
    assert f"at most {size.MANY_ITEMS:,} items" in size.TOO_MANY_INDEPENDENT
