"""The benchmark of the updater in its quick form, on the test's own database."""

import json

import pytest

from benchmarks.server import updating


@pytest.mark.slow
@pytest.mark.django_db
def test_an_update_is_measured_part_by_part_and_compared_with_a_refit(capsys: pytest.CaptureFixture[str]) -> None:
    updating.main(["--quick", "--quality"])
    printed = json.loads(capsys.readouterr().out)
    cost, quality = printed["cost"]["simulated"], printed["quality"]["simulated"]
    assert cost["kinds"] == ["step"] * updating.ROUNDS
    assert set(cost["parts_cpu"]) == set(updating.PARTS) - {"estimator from scratch"}
    assert 0 < sum(cost["parts_cpu"].values()) <= 1.2 * cost["whole_update"]["cpu"]
    assert cost["write_lock_ms"]["median"] > 0
    assert set(quality["updates"]) == {"step"}
    assert quality["online"]["personal"]["accuracy"] > 0.6
