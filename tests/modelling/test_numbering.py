"""Component 2 stays component 2: whatever order and sign the estimator gives it."""

from itertools import combinations

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import AuditEntry, Project, User, Worker
from modelling.dashboards.own_view import own_view
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.numbering import (
    Numbering,
    Profile,
    followed,
    fresh,
    name_component,
    names_of,
    numbers_of,
    profile_of,
)
from modelling.snapshots import load_fitted
from modelling.updating import run_one
from tests.modelling.histories import answer, make_study
from tests.modelling.two_camps import fitted_study

ENERGIES = np.array([4.0, 2.0, 1.0, 0.01])


@pytest.fixture
def profile() -> Profile:
    """Four components at forty items."""
    values = np.random.default_rng(0).standard_normal((4, 40))
    return Profile(np.arange(40), values, ENERGIES)


def test_the_first_version_counts_by_energy(profile: Profile) -> None:
    shuffled = Profile(profile.landmarks, profile.values, ENERGIES[[2, 0, 3, 1]])
    assert fresh(shuffled).numbers.tolist() == [3, 1, 4, 2]
    assert fresh(shuffled).signs.tolist() == [1.0] * 4


def test_turned_and_flipped_components_keep_number_and_direction(profile: Profile) -> None:
    order, flips = np.array([2, 0, 3, 1]), np.array([-1.0, 1.0, 1.0, -1.0])
    noisy = profile.values[order] + 0.2 * np.random.default_rng(1).standard_normal((4, 40))
    again = Profile(profile.landmarks, flips[:, None] * noisy, ENERGIES[order])
    found = followed(again, profile, fresh(profile), named=set())
    assert found.numbers.tolist() == [3, 1, 4, 2]
    assert found.signs.tolist() == flips.tolist()
    third = followed(profile, again, found, named=set())
    assert third.numbers.tolist() == [1, 2, 3, 4]
    assert third.signs.tolist() == [1.0] * 4


def test_a_strong_newcomer_takes_no_number_that_somebody_has_named(profile: Profile) -> None:
    values = profile.values.copy()
    values[1] = np.random.default_rng(5).standard_normal(40)  # component 2 is another one now
    now = Profile(profile.landmarks, values, ENERGIES)
    assert followed(now, profile, fresh(profile), named=set()).numbers.tolist() == [1, 2, 3, 4]
    assert followed(now, profile, fresh(profile), named={2}).numbers.tolist() == [1, 5, 3, 4]


def test_more_components_get_new_numbers_and_fewer_keep_theirs(profile: Profile) -> None:
    two = Profile(profile.landmarks, profile.values[[1, 2]], ENERGIES[[1, 2]])
    assert followed(two, profile, fresh(profile), named=set()).numbers.tolist() == [2, 3]
    back = followed(profile, two, Numbering(np.array([2, 3]), np.ones(2)), named=set())
    assert back.numbers.tolist() == [1, 2, 3, 4]


def test_only_items_that_both_versions_know_are_compared(profile: Profile) -> None:
    later = Profile(profile.landmarks[::-1][:30], -profile.values[:, ::-1][:, :30], ENERGIES)
    found = followed(later, profile, fresh(profile), named=set())
    assert (found.numbers.tolist(), found.signs.tolist()) == ([1, 2, 3, 4], [-1.0] * 4)
    strangers = Profile(profile.landmarks + 1000, profile.values, ENERGIES)
    assert followed(strangers, profile, fresh(profile), named=set()).numbers.tolist() == [1, 2, 3, 4]


@pytest.mark.django_db
def test_a_later_version_follows_the_numbers_of_the_one_before(project: Project) -> None:
    first = fitted_study(project)
    given = numbers_of(first)
    row = ComponentNumbers.objects.get(snapshot=first)
    turned = row.numbers[::-1]
    ComponentNumbers.objects.filter(pk=row.pk).update(numbers=turned, signs=[-1.0] * len(turned))
    first.refresh_from_db()
    first.pk, first.number = None, 2
    first.save(force_insert=True)
    again = numbers_of(ModelSnapshot.objects.get(number=2))
    used = row.energies.index(max(row.energies))
    assert given.numbers.tolist() == row.numbers
    assert (again.numbers[used], again.signs[used]) == (turned[used], -1.0)
    assert ComponentNumbers.objects.count() == 2
    assert numbers_of(ModelSnapshot.objects.get(number=2)).numbers.tolist() == again.numbers.tolist()


@pytest.mark.django_db
def test_a_version_after_one_that_knew_a_single_worker_counts_by_energy(
    owner: User, capsys: pytest.CaptureFixture[str]
) -> None:
    """One worker has nobody to differ from: the first version has no components, and its row no numbers."""
    pairs = list(combinations(range(5), 2))
    study = make_study("alone", [(0, a, b, "first") for a, b in pairs], owner=owner)
    assert numbers_of(run_one("test")).numbers.tolist() == []
    answer(study, [(1, a, b, "second") for a, b in pairs])
    later = run_one("test")
    assert numbers_of(later).numbers.tolist() == fresh(profile_of(load_fitted(later))).numbers.tolist() != []
    call_command("export", "alone", "components")
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(numbers_of(later).numbers)
    view = own_view(later, Worker.objects.filter(project=study).latest("pk"))
    assert view is not None
    assert view.answers == len(pairs)


@pytest.mark.django_db
def test_a_name_is_given_changed_and_taken_away_and_the_audit_knows(project: Project, owner: User) -> None:
    for name in ("evidence", "evidence", "evidence or story", ""):
        name_component(project=project, user=owner, number=2, name=name)
    assert names_of(project) == {}
    assert not ComponentName.objects.exists()
    told = AuditEntry.objects.filter(action="named a component").order_by("pk").values_list("details", flat=True)
    assert [(each["old"], each["new"]) for each in told] == [
        ("", "evidence"), ("evidence", "evidence or story"), ("evidence or story", ""),
    ]  # fmt: skip
