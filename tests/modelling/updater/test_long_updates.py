"""Which updates take long, and that other projects do not wait for them. `tests/drills` has real processes."""

import threading
from collections.abc import Callable

import pytest
from django.core.management import call_command

from annotation.models import Project, User, Worker
from annotation.services import Receipt
from annotation.storage import event_log
from modelling.models import LeasedRow, ModelSnapshot, SettingsSearch, UpdateState
from modelling.updater import leases, long_updates, loop, settings_search, update, update_state
from modelling.updater.long_updates import LongUpdates, takes_long
from tests.modelling.samples.histories import all_pairs, make_study

pytestmark = pytest.mark.django_db


def update_state_of(project: Project) -> UpdateState:
    update_state.create_missing_states()
    return UpdateState.objects.select_related("project", "current").get(project=project)


def set_cpu_seconds(seconds: float) -> None:
    ModelSnapshot.objects.update(diagnostics={"cpu_seconds": seconds})


def test_the_first_fit_takes_long_with_many_items_or_many_events(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = update_state_of(project)
    assert not takes_long(state)
    monkeypatch.setattr(long_updates, "FIT_ITEMS", 6)
    assert takes_long(state)
    monkeypatch.setattr(long_updates, "FIT_ITEMS", 7)
    monkeypatch.setattr(long_updates, "FIT_EVENTS", 14)
    assert takes_long(state)


def test_an_update_takes_long_if_the_last_one_of_its_kind_did(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    update.update_one("one")
    judge(crowd[0])
    set_cpu_seconds(60.0)
    assert not takes_long(update_state_of(project)), "the refit took long, but this update is a step"
    update.update_one("one")
    judge(crowd[0])
    set_cpu_seconds(60.0)
    assert takes_long(update_state_of(project))
    ModelSnapshot.objects.filter(kind="step").update(diagnostics={"cpu_seconds": 1.0})
    event_log.raise_inputs_revision(project.pk)
    assert takes_long(update_state_of(project)), "this update is a refit"


@pytest.mark.django_db(transaction=True)
def test_other_projects_are_updated_while_a_long_update_runs(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second project that takes long waits for the first; short ones do not."""
    small, waiting = make_study("small", all_pairs(2)), make_study("waiting", all_pairs(2))
    begun, finish = threading.Event(), threading.Event()
    started: list[tuple[LeasedRow, tuple[str, ...]]] = []

    def child(row: LeasedRow, arguments: tuple[str, ...]) -> None:
        started.append((row, arguments))
        begun.set()
        finish.wait(120)

    monkeypatch.setattr(long_updates, "run_child", child)
    for module in (long_updates, loop):
        monkeypatch.setattr(module, "takes_long", lambda state: state.project != small)
    slot = LongUpdates()
    while loop.run_once("one", long_updates=slot).worked:
        pass
    assert begun.wait(120)
    assert [(row.project, arguments) for row, arguments in started] == [
        (project, ("--project", "pets", "--lease", "one"))
    ]
    assert list(ModelSnapshot.objects.values_list("project", flat=True)) == [small.pk]
    assert leases.is_leased(UpdateState.objects.get(project=project))
    finish.set()
    slot._thread.join(120)
    assert loop.run_once("one", long_updates=slot).worked
    slot._thread.join(120)
    assert [row.project for row, _ in started] == [project, waiting]


def test_a_child_continues_under_the_lease_of_its_parent(project: Project, crowd: list[Worker]) -> None:
    update_state.claim_project("one")
    call_command("update_models", "--project", "pets", "--lease", "one")
    state = UpdateState.objects.get()
    assert (state.current.number, state.owner, state.lease_until) == (1, "", None)


def test_a_child_without_a_lease_does_nothing(project: Project, crowd: list[Worker]) -> None:
    update_state.claim_project("another")
    with pytest.raises(UpdateState.DoesNotExist):
        call_command("update_models", "--project", "pets", "--lease", "one")
    assert not ModelSnapshot.objects.exists()


def test_a_search_whose_fits_take_long_is_handed_over(
    project: Project, owner: User, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(LongUpdates, "start", lambda self, row, project, *flags: started.append(flags))
    monkeypatch.setattr(settings_search, "fit_takes_long", lambda project: True)
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one", LongUpdates()) is True
    assert started == [("--search",)]
    monkeypatch.setattr(settings_search, "COMPONENTS", {})
    monkeypatch.setattr(settings_search, "KERNEL_NAMES", {})
    call_command("update_models", "--project", "pets", "--lease", "one", "--search")
    assert SettingsSearch.objects.get().state == "done"


def test_a_search_waits_while_a_long_update_runs(
    project: Project, owner: User, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LongUpdates, "busy", True)
    monkeypatch.setattr(settings_search, "fit_takes_long", lambda project: True)
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one", LongUpdates()) is False
    assert SettingsSearch.objects.get().state == "waiting"


def test_seconds_of_a_busy_machine_do_not_count(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    update.update_one("one")
    assert ModelSnapshot.objects.get().diagnostics["cpu_seconds"] > 0
    ModelSnapshot.objects.update(seconds=600.0)
    event_log.raise_inputs_revision(project.pk)
    assert not takes_long(update_state_of(project))
