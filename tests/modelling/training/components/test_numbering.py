"""Component numbers and signs stay the same from version to version."""

from itertools import combinations

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import AuditEntry, Project, User, Worker
from modelling.dashboards.workers.own_view import own_view
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.training.components.numbering import (
    Numbering,
    Profile,
    build_profile,
    get_component_names,
    get_numbering,
    match_numbering,
    name_component,
    number_by_variance,
)
from modelling.training.snapshots import load_fitted_model
from modelling.updater.update import update_one
from tests.modelling.samples.histories import answer, make_study
from tests.modelling.samples.two_camps import make_fitted_study

VARIANCES = np.array([4.0, 2.0, 1.0, 0.01])


@pytest.fixture
def profile() -> Profile:
    """Four components at forty items."""
    values = np.random.default_rng(0).standard_normal((4, 40))
    return Profile(np.arange(40), values, VARIANCES)


def test_the_first_version_is_numbered_by_variance(profile: Profile) -> None:
    shuffled = Profile(profile.landmarks, profile.values, VARIANCES[[2, 0, 3, 1]])
    assert number_by_variance(shuffled).numbers.tolist() == [3, 1, 4, 2]
    assert number_by_variance(shuffled).signs.tolist() == [1.0] * 4


def test_reordered_and_flipped_components_keep_number_and_sign(profile: Profile) -> None:
    order, flips = np.array([2, 0, 3, 1]), np.array([-1.0, 1.0, 1.0, -1.0])
    noisy = profile.values[order] + 0.2 * np.random.default_rng(1).standard_normal((4, 40))
    again = Profile(profile.landmarks, flips[:, None] * noisy, VARIANCES[order])
    found = match_numbering(again, profile, number_by_variance(profile), named=set())
    assert found.numbers.tolist() == [3, 1, 4, 2]
    assert found.signs.tolist() == flips.tolist()
    third = match_numbering(profile, again, found, named=set())
    assert third.numbers.tolist() == [1, 2, 3, 4]
    assert third.signs.tolist() == [1.0] * 4


def test_a_new_component_gets_no_number_that_has_a_name(profile: Profile) -> None:
    values = profile.values.copy()
    values[1] = np.random.default_rng(5).standard_normal(40)  # a new component 2
    now = Profile(profile.landmarks, values, VARIANCES)
    assert match_numbering(now, profile, number_by_variance(profile), named=set()).numbers.tolist() == [1, 2, 3, 4]
    assert match_numbering(now, profile, number_by_variance(profile), named={2}).numbers.tolist() == [1, 5, 3, 4]


def test_more_components_get_new_numbers_and_fewer_keep_theirs(profile: Profile) -> None:
    two = Profile(profile.landmarks, profile.values[[1, 2]], VARIANCES[[1, 2]])
    assert match_numbering(two, profile, number_by_variance(profile), named=set()).numbers.tolist() == [2, 3]
    back = match_numbering(profile, two, Numbering(np.array([2, 3]), np.ones(2)), named=set())
    assert back.numbers.tolist() == [1, 2, 3, 4]


def test_only_shared_items_are_compared(profile: Profile) -> None:
    later = Profile(profile.landmarks[::-1][:30], -profile.values[:, ::-1][:, :30], VARIANCES)
    found = match_numbering(later, profile, number_by_variance(profile), named=set())
    assert (found.numbers.tolist(), found.signs.tolist()) == ([1, 2, 3, 4], [-1.0] * 4)
    strangers = Profile(profile.landmarks + 1000, profile.values, VARIANCES)
    assert match_numbering(strangers, profile, number_by_variance(profile), named=set()).numbers.tolist() == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.django_db
def test_a_version_takes_over_the_numbers_of_the_version_before(project: Project) -> None:
    first = make_fitted_study(project)
    given = get_numbering(first)
    row = ComponentNumbers.objects.get(snapshot=first)
    turned = row.numbers[::-1]
    ComponentNumbers.objects.filter(pk=row.pk).update(numbers=turned, signs=[-1.0] * len(turned))
    first.refresh_from_db()
    first.pk, first.number = None, 2
    first.save(force_insert=True)
    again = get_numbering(ModelSnapshot.objects.get(number=2))
    used = row.energies.index(max(row.energies))
    assert given.numbers.tolist() == row.numbers
    assert (again.numbers[used], again.signs[used]) == (turned[used], -1.0)
    assert ComponentNumbers.objects.count() == 2
    assert get_numbering(ModelSnapshot.objects.get(number=2)).numbers.tolist() == again.numbers.tolist()


@pytest.mark.django_db
def test_versions_without_components_are_skipped_when_numbers_are_matched(project: Project) -> None:
    first = make_fitted_study(project)
    given = ComponentNumbers.objects.create(
        snapshot=first, numbers=[7], signs=[-1.0], energies=[1.0], landmarks=[], profile=[[]]
    )
    profile = build_profile(load_fitted_model(first))
    given.landmarks, given.profile = profile.landmarks.tolist(), [profile.values[0].tolist()]
    given.save()
    for number in (2, 3):
        first.pk, first.number = None, number
        first.save(force_insert=True)
    without = {"numbers": [], "signs": [], "energies": [], "landmarks": [], "profile": []}
    ComponentNumbers.objects.create(snapshot=ModelSnapshot.objects.get(number=2), **without)
    found = get_numbering(ModelSnapshot.objects.get(number=3))
    assert (found.numbers[0], found.signs[0]) == (7, -1.0)


@pytest.mark.django_db
def test_a_study_without_components_exports_none_and_shows_the_own_view(
    owner: User, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one worker nor two have components."""
    pairs = list(combinations(range(5), 2))
    study = make_study("alone", [(0, a, b, "first") for a, b in pairs], owner=owner)
    assert get_numbering(update_one("test")).numbers.tolist() == []
    answer(study, [(1, a, b, "second") for a, b in pairs])
    later = update_one("test")
    assert get_numbering(later).numbers.tolist() == []
    call_command("export", "alone", "components")
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setattr("modelling.dashboards.workers.own_view.MIN_OTHERS", 1)
    view = own_view(later, Worker.objects.filter(project=study).latest("pk"))
    assert view is not None
    assert (view.judgements, view.leanings) == (len(pairs), [])


@pytest.mark.django_db
def test_naming_a_component_is_audited(project: Project, owner: User) -> None:
    for name in ("evidence", "evidence", "evidence or story", ""):
        name_component(project=project, user=owner, number=2, name=name)
    assert get_component_names(project) == {}
    assert not ComponentName.objects.exists()
    changes = AuditEntry.objects.filter(action="named a component").order_by("pk").values_list("details", flat=True)
    assert [(each["old"], each["new"]) for each in changes] == [
        ("", "evidence"), ("evidence", "evidence or story"), ("evidence or story", ""),
    ]  # fmt: skip
