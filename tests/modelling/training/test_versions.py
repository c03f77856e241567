"""Shown and pinned versions, comparisons, and pruning."""

from collections.abc import Callable

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, EventHead, Project, User, Worker
from annotation.services import Receipt
from modelling.dashboards.common.freshness import get_freshness
from modelling.dashboards.model.versions import (
    STAGE_LABELS,
    bound_figure,
    compare_versions,
    update_stages,
    version_page,
    versions_page,
)
from modelling.models import ModelSnapshot, UpdateState
from modelling.training import versions
from modelling.training.storage import array_store
from modelling.training.verification import find_problems
from modelling.updater import update
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db

CATS = ["cats-1", "cats-2", "cats-3", "cats-4", "dogs-1", "dogs-2", "dogs-3"]


@pytest.fixture
def three(project: Project) -> list[ModelSnapshot]:
    """Three versions; in the second, the first cat has rank 3."""
    orders = [CATS, ["cats-2", "cats-3", "cats-1", *CATS[3:]], CATS]
    return [make_version(project, number, order=order) for number, order in enumerate(orders, start=1)]


def test_without_a_pin_pages_show_the_current_version(project: Project, three: list[ModelSnapshot]) -> None:
    assert versions.shown_snapshot(project) == three[2]
    assert get_freshness(project).pinned_lines == []


def test_a_pinned_version_is_shown_while_updates_continue(
    project: Project, owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    client.post("/projects/pets/model/pin/", {"number": "2"})
    make_version(project, 9)
    assert versions.shown_snapshot(project) == three[1]
    assert UpdateState.objects.get().current.number == 9
    for page in ("ranking/", "workers/", "model/", "model/settings/", "model/versions/1/", "model/compare/"):
        answer = client.get(f"/projects/pets/{page}")
        assert "Version 2 is pinned; the newest version is 9." in answer.text, page
    assert '-v2.csv"' in client.get("/projects/pets/ranking.csv")["Content-Disposition"]


def test_the_command_exports_what_pages_show(
    project: Project, owner: User, three: list[ModelSnapshot], tmp_path, capsys
) -> None:
    versions.pin(project=project, user=owner, number=1)
    call_command("export", "pets", output=tmp_path / "ranking.csv")
    assert "version 1," in capsys.readouterr().out


def test_pinning_and_unpinning_are_audited_once_each(project: Project, owner: User, three: list[ModelSnapshot]) -> None:
    for _ in range(2):
        versions.pin(project=project, user=owner, number=2)
    for _ in range(2):
        versions.unpin(project=project, user=owner)
    actions = list(
        AuditEntry.objects.filter(action__contains="version").order_by("pk").values_list("action", "details")
    )
    assert actions == [("pinned a version", {"version": 2}), ("released the pinned version", {"version": 2})]
    assert versions.shown_snapshot(project) == three[2]


@pytest.mark.parametrize("number", ["", "4", "-1", "two", "99999999999", "0"])
def test_a_version_that_does_not_exist_cannot_be_pinned(
    owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client], number: str
) -> None:
    assert log_in(owner).post("/projects/pets/model/pin/", {"number": number}).status_code == 404
    assert UpdateState.objects.get().pinned is None


def test_a_version_of_another_project_cannot_be_pinned(
    project: Project, owner: User, stranger: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    make_version(Project.objects.get(slug="elsewhere"), 7, order=[])
    assert log_in(owner).post("/projects/pets/model/pin/", {"number": "7"}).status_code == 404


def test_without_judgements_a_pinned_version_is_not_shown(
    project: Project, owner: User, three: list[ModelSnapshot]
) -> None:
    versions.pin(project=project, user=owner, number=1)
    UpdateState.objects.update(current=None)
    assert versions.shown_snapshot(project) is None
    assert not get_freshness(project).pinned


def test_the_banner_counts_retractions_since_the_version(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    first = judge(worker).judgement
    make_version(project, 1, last_sequence=1)
    EventHead.objects.filter(project=project).update(sequence=1)
    versions.pin(project=project, user=None, number=1)
    services.retract(worker=worker, judgement=first.uuid, uuid=first.uuid)
    assert "1 of its judgements has been retracted since." in get_freshness(project).pinned_lines


def test_a_retracted_skip_is_not_counted_as_learned(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    skipped = judge(worker, "skip").judgement
    make_version(project, 1, last_sequence=1)
    EventHead.objects.filter(project=project).update(sequence=1)
    versions.pin(project=project, user=None, number=1)
    services.retract(worker=worker, judgement=skipped.uuid, uuid=skipped.uuid)
    assert len(get_freshness(project).pinned_lines) == 1


def test_a_pinned_version_shows_its_time_and_what_it_lacks(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judge(worker)
    make_version(project, 1, last_sequence=1)
    EventHead.objects.filter(project=project).update(sequence=1)
    for choice in ("left", "skip", "right"):
        judge(worker, choice)
    make_version(project, 2, last_sequence=4)
    ModelSnapshot.objects.filter(number=1).update(created_at="2026-01-02T03:04Z")
    versions.pin(project=project, user=None, number=1)
    lines = get_freshness(project).status_lines
    assert lines[1] == "Created 2026-01-02 03:04 UTC; 2 newer judgements are not included."
    versions.pin(project=project, user=None, number=2)
    assert get_freshness(project).status_lines[1].startswith("Created ")
    assert len(get_freshness(project).status_lines) == 2


def test_an_owner_can_request_a_refit(
    project: Project, owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    before = EventHead.objects.get(project=project).inputs_revision
    log_in(owner).post("/projects/pets/model/refit/")
    assert EventHead.objects.get(project=project).inputs_revision == before + 1
    assert AuditEntry.objects.filter(action="asked for a fit from scratch", user=owner).count() == 1


def test_the_list_shows_how_each_version_was_made(
    project: Project, owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.filter(number=1).update(kind="refit", excluded={"retracted": 3, "skipped": 0})
    answer = log_in(owner).get("/projects/pets/model/")
    for words in ("fitted from scratch", "updated with new judgements", "3 retracted", "newest"):
        assert words in answer.text
    assert [row.snapshot.number for row in versions_page(project).rows] == [3, 2, 1]


def test_the_version_page_shows_everything_that_explains_a_version(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    diagnostics = {
        "bounds": [-120.0, -100.25],
        "warnings": ["It is late."],
        "seconds": {"learning": 1.5, "reading": 0.5},
    }
    chosen = {"n_components": 3, "kernel": "surface"}
    snapshot = make_version(project, 1, kind="refit", diagnostics=diagnostics, seed=17, settings=chosen)
    text = log_in(owner).get("/projects/pets/model/versions/1/").text
    for words in (
        snapshot.data_hash,
        snapshot.checksum,
        "It is late.",
        "-100.25",
        "only the form of the texts",
        "17",
    ):
        assert words in text
    page = version_page(snapshot)
    assert [(stage.name, stage.percent) for stage in page.stages] == [
        ("reading new judgements", 33.3),
        ("fitting the model", 100.0),
    ]
    assert [figure.name for figure in page.figures] == ["bound"]


@pytest.mark.parametrize("address", ["versions/4/", "versions/0/", "compare/?from=1&to=99", "compare/?from=x"])
def test_missing_versions_are_not_found(
    owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client], address: str
) -> None:
    assert log_in(owner).get(f"/projects/pets/model/{address}").status_code == 404


def test_a_comparison_shows_which_items_moved_and_why(project: Project, three: list[ModelSnapshot]) -> None:
    compared = compare_versions(three[0], three[1])
    moves = [(move.item.key, move.ranks, move.new_judgements) for move in compared.page]
    assert moves == [("cats-1", -2, 5), ("cats-2", 1, 0), ("cats-3", 1, 1)]
    assert (compared.inputs.new_judgements, compared.inputs.refits, compared.unchanged) == (10, 0, 4)


def test_the_order_of_compared_versions_does_not_matter(
    owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    pages = [client.get(f"/projects/pets/model/compare/?{asked}").text for asked in ("from=1&to=2", "from=2&to=1")]
    for page in pages:
        assert "Changes from version 1 to 2" in page
        assert "down 2" in page


def test_without_numbers_the_two_newest_are_compared(
    project: Project, owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    assert "Changes from version 2 to 3" in client.get("/projects/pets/model/compare/").text
    ModelSnapshot.objects.filter(number__lt=3).delete()
    for asked in ("", "?from=3", "?to=3"):
        assert "There is only one version." in client.get(f"/projects/pets/model/compare/{asked}").text


@pytest.mark.parametrize("page", ["-1", "abc", "0", "99999999"])
def test_an_invalid_page_number_shows_an_existing_page(
    owner: User, three: list[ModelSnapshot], log_in: Callable[[User], Client], page: str
) -> None:
    client = log_in(owner)
    assert client.get(f"/projects/pets/model/?page={page}").context["versions"].page.number == 1
    assert client.get(f"/projects/pets/model/compare/?page={page}").context["comparison"].page.number == 1


def test_a_comparison_shows_changed_settings_and_new_items(project: Project, three: list[ModelSnapshot]) -> None:
    newer = make_version(project, 4, order=CATS[1:], settings={"n_components": 3}, kind="refit")
    compared = compare_versions(three[0], newer)
    assert [(row.previous, row.value) for row in compared.inputs.settings] == [("20", "3")]
    assert [item.key for item in compared.removed] == ["cats-1"]
    assert compared.inputs.refits == 1


LEARNED = {"consensus_variance": 0.5625, "taste_variance": 0.0, "lapse": 0.0213, "feature_share": 0.5}


def test_the_version_page_shows_the_hyperparameters_that_the_version_has(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    snapshot = make_version(project, 1, diagnostics={"hyperparameters": LEARNED | {"unknown": 1.0}})
    shown = [(row.label, row.value) for row in version_page(snapshot).hyperparameters]
    assert shown == [
        ("spread of the consensus", "0.75"),
        ("spread of personal tastes", "0.00"),
        ("answers given at random", "2.1 %"),
        ("consensus that follows the texts", "50 %"),
    ]
    text = log_in(owner).get("/projects/pets/model/versions/1/").text
    assert "Answers given at random" in text
    assert "Differences that count as ties" not in text


@pytest.mark.parametrize("learned", [{}, None])
def test_a_version_without_hyperparameters_has_no_table_of_them(
    project: Project, owner: User, log_in: Callable[[User], Client], learned: dict[str, float] | None
) -> None:
    make_version(project, 1, diagnostics={"hyperparameters": learned})
    make_version(project, 2)
    client = log_in(owner)
    for page in ("versions/1/", "versions/2/", "compare/?from=1&to=2"):
        assert "What the model learned" not in client.get(f"/projects/pets/model/{page}").text


def test_a_comparison_shows_the_hyperparameters_of_both_versions(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    older = make_version(project, 1, diagnostics={"hyperparameters": {"consensus_variance": 1.0, "tie_margin": 0.3}})
    newer = make_version(project, 2, diagnostics={"hyperparameters": LEARNED})
    rows = [(row.label, row.previous, row.value) for row in compare_versions(older, newer).hyperparameters]
    assert rows == [
        ("spread of the consensus", "1.00", "0.75"),
        ("spread of personal tastes", "", "0.00"),
        ("answers given at random", "", "2.1 %"),
        ("differences that count as ties", "0.30", ""),
        ("consensus that follows the texts", "", "50 %"),
    ]
    assert "Spread of the consensus" in log_in(owner).get("/projects/pets/model/compare/?from=1&to=2").text


def test_a_figure_of_the_bound_needs_two_finite_values() -> None:
    assert bound_figure([]) is None
    assert bound_figure([1.0]) is None
    assert bound_figure([1.0, float("nan")]) is None
    flat = bound_figure([2.0, 2.0])
    assert flat is not None
    assert flat.table is not None
    assert flat.table.rows == [[1, 2.0], [2, 2.0]]
    long = bound_figure(list(range(500)))
    assert long is not None
    assert long.table is not None
    assert (long.table.rows[0], long.table.rows[-1], len(long.table.rows)) == ([1, 0.0], [500, 499.0], 30)


def test_the_file_of_the_bound_names_its_version(
    three: list[ModelSnapshot], owner: User, log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.filter(pk=three[0].pk).update(kind="refit", diagnostics={"bounds": [-3.0, -2.0]})
    answer = log_in(owner).get("/projects/pets/model/versions/1/?csv=bound")
    assert answer["Content-Disposition"] == 'attachment; filename="pets-bound-v1.csv"'


# Pruning


def stored(project: Project, number: int, **facts: object) -> ModelSnapshot:
    """A version with stored arrays."""
    snapshot = make_version(project, number, order=[], included=0, last_sequence=0, **facts)
    checksum = array_store.save(project, {"number": np.array(number)}).checksum
    ModelSnapshot.objects.filter(pk=snapshot.pk).update(checksum=checksum)
    snapshot.refresh_from_db()
    return snapshot


def with_arrays(project: Project) -> list[int]:
    return sorted(ModelSnapshot.objects.filter(project=project, pruned_at=None).values_list("number", flat=True))


@pytest.mark.both_databases
@pytest.mark.parametrize("place", ["files", "table"])
def test_arrays_of_old_versions_are_deleted_and_scores_kept(project: Project, settings, place: str) -> None:
    settings.FILE_STORAGE = place
    snapshots = [stored(project, n, kind="refit" if n in (1, 5, 30) else "step") for n in range(1, 41)]
    versions.pin(project=project, user=None, number=3)
    assert versions.prune_arrays(project) == 18
    # the newest twenty, the pinned one, and the refit that version 21 continues from
    assert with_arrays(project) == [3, 5, *range(21, 41)]
    for snapshot in snapshots:
        if snapshot.number in with_arrays(project):
            array_store.load(project, snapshot.checksum)
        else:
            with pytest.raises(array_store.DamagedArrays):
                array_store.load(project, snapshot.checksum)
    assert versions.prune_arrays(project) == 0


def test_arrays_of_few_versions_are_all_kept(project: Project) -> None:
    for number in range(1, versions.KEPT_VERSIONS + 1):
        stored(project, number)
    assert versions.prune_arrays(project) == 0


def test_arrays_that_a_newer_version_shares_are_kept(project: Project) -> None:
    for number in range(1, 23):
        stored(project, number, kind="refit")
    newest = ModelSnapshot.objects.get(number=22)
    ModelSnapshot.objects.filter(number=1).update(checksum=newest.checksum)
    assert versions.prune_arrays(project) == 2
    array_store.load(project, newest.checksum)


@pytest.mark.both_databases
def test_the_updater_prunes_after_publishing(
    project: Project, worker: Worker, judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "KEPT_VERSIONS", 1)
    for _ in range(2):
        judge(worker)
        assert update.update_one("one")
    assert ModelSnapshot.objects.get(number=1).pruned_at is not None
    newest = ModelSnapshot.objects.get(number=2)
    assert newest.pruned_at is None
    assert set(newest.diagnostics["seconds"]) == set(STAGE_LABELS)
    names = [stage.name for stage in update_stages(newest.diagnostics["seconds"])]
    assert names == [str(label) for label in STAGE_LABELS.values()]
    assert newest.seconds == pytest.approx(sum(newest.diagnostics["seconds"].values()), abs=0.01)
    assert list(find_problems(project)) == []


def test_pages_of_a_pruned_pinned_version_show_a_message(
    project: Project, owner: User, worker: Worker, three: list[ModelSnapshot], log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.filter(number=1).update(pruned_at="2026-01-01T00:00Z")
    versions.pin(project=project, user=owner, number=1)
    client = log_in(owner)
    assert "cats-1" in client.get("/projects/pets/ranking/").text
    answer = client.get("/projects/pets/components/")
    assert answer.status_code == 200
    assert "Only the ranking of this old version is kept." in answer.text


# Erased people


@pytest.fixture
def leaver(project: Project, judge: Callable[..., Receipt]) -> Worker:
    """A worker who judged between the first version and the second, which is pinned."""
    stayer, leaver = (services.enrol(project=project) for _ in range(2))
    for worker in (stayer, leaver):
        judge(worker)
        assert update.update_one("one")
    versions.pin(project=project, user=None, number=2)
    return leaver


@pytest.mark.both_databases
def test_versions_with_erased_data_are_neither_shown_nor_kept(project: Project, owner: User, leaver: Worker) -> None:
    services.erase_worker(worker=leaver, user=owner, remove_judgements=True)
    assert not get_freshness(project).pinned
    assert update.update_one("one")
    assert versions.shown_snapshot(project).number == 3
    assert UpdateState.objects.get().pinned is None
    assert AuditEntry.objects.filter(action="released the pinned version", details={"version": 2}).count() == 1
    assert with_arrays(project) == [1, 3]
    second = ModelSnapshot.objects.get(number=2)
    assert second.scores.exists()
    with pytest.raises(array_store.DamagedArrays):
        array_store.load(project, second.checksum)


def test_a_version_with_erased_data_cannot_be_pinned(
    project: Project, owner: User, leaver: Worker, log_in: Callable[[User], Client]
) -> None:
    services.erase_worker(worker=leaver, user=owner, remove_judgements=True)
    update.update_one("one")
    client, refused = log_in(owner), "so it cannot be shown"
    assert refused in client.post("/projects/pets/model/pin/", {"number": "2"}, follow=True).text
    assert UpdateState.objects.get().pinned is None
    assert refused in client.get("/projects/pets/model/versions/2/").text
    assert "contains erased workers" in client.get("/projects/pets/model/").text
    assert versions.pin(project=project, user=owner, number=1).number == 1


def test_erasing_a_worker_but_not_their_judgements_unpins_nothing(project: Project, leaver: Worker) -> None:
    services.erase_worker(worker=leaver, user=None)
    update.update_one("one")
    assert versions.shown_snapshot(project).number == 2
    assert with_arrays(project) == [1, 2, 3]


def test_arrays_are_deleted_even_if_no_judgements_are_left(project: Project, leaver: Worker, settings) -> None:
    for worker in Worker.objects.filter(project=project):
        services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert update.update_one("one") is None
    assert with_arrays(project) == []
    assert list((settings.DATA_DIR / "snapshots").rglob("*.npz")) == []
