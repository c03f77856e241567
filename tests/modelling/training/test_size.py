"""Studies with too many items are refused with a message before anything is computed."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from annotation.models import Project, User
from modelling.engines import CROWDGPPL, PAPER_SVI
from modelling.models import SettingsSearch, UpdateState
from modelling.training import size
from modelling.training.settings import InvalidSettings, ModelSettings
from modelling.updater import settings_search, update
from modelling.updater.failure_messages import translate_message
from tests.modelling.samples.histories import TEXTS, all_pairs, make_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def large(owner: User, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A study with one item more than the model can fit."""
    monkeypatch.setattr(size, "MOST_MODEL_ITEMS", len(TEXTS) - 1)
    return make_study("large", all_pairs(2), owner=owner)


@pytest.mark.parametrize(("limit", "message"), [("MOST_MODEL_ITEMS", size.TOO_MANY), ("memory_limit", size.TOO_LARGE)])
def test_a_study_that_is_too_large_is_not_fitted(
    owner: User, monkeypatch: pytest.MonkeyPatch, limit: str, message: str
) -> None:
    """Repeated attempts cost nothing but reading the judgements."""
    project = make_study("large", all_pairs(2), owner=owner)
    needed = size.BYTES_PER_PAIR[CROWDGPPL] * len(TEXTS) ** 2
    monkeypatch.setattr(size, limit, {"MOST_MODEL_ITEMS": len(TEXTS) - 1, "memory_limit": lambda: needed - 1}[limit])
    for step in ("copy_labels", "fit"):
        monkeypatch.setattr(f"modelling.training.training_state.{step}", lambda *_: pytest.fail("a fit was started"))
    assert update.update_one("one") is None
    state = UpdateState.objects.get(project=project)
    assert (state.condition, state.message) == ("degraded", message)
    with translation.override("de"):
        assert "Verteilen Sie die Texte auf mehrere Studien" in translate_message(state.message)


def test_the_limit_is_that_of_the_engine(large: Project) -> None:
    Project.objects.filter(pk=large.pk).update(model_settings={"engine": PAPER_SVI, "n_components": 2})
    assert update.update_one("one") is not None


def test_the_pages_of_the_model_say_so(large: Project, owner: User, log_in: Callable[[User], Client]) -> None:
    pages = [reverse(f"modelling:{name}", args=[large.slug]) for name in ("model", "model_settings")]
    note, client = b"active items, which the model cannot fit", log_in(owner)
    assert [note in client.get(page).content for page in pages] == [True, True]
    Project.objects.filter(pk=large.pk).update(model_settings={"engine": PAPER_SVI})
    assert [note in client.get(page).content for page in pages] == [False, False]


def test_a_search_for_settings_is_refused_too(large: Project, owner: User) -> None:
    settings_search.request_search(project=large, user=owner)
    assert settings_search.search_one("one")
    search = SettingsSearch.objects.get()
    assert (search.state, search.message) == ("failed", size.TOO_MANY)


def test_the_messages_name_the_limits() -> None:
    with pytest.raises(InvalidSettings, match=f"at most {size.MOST_MODEL_ITEMS:,} items"):
        size.check_size(size.MOST_MODEL_ITEMS + 1, ModelSettings())
    with pytest.raises(InvalidSettings, match=f"at most {size.MAX_INDEPENDENT_ITEMS} items"):
        size.check_size(size.MAX_INDEPENDENT_ITEMS + 1, ModelSettings(engine=PAPER_SVI, kernel="none"))
