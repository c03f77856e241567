"""The benchmark of updates at several sizes in its quick form, in processes of its own."""

import json

import pytest

from benchmarks.server import scaling


@pytest.mark.slow
def test_updates_of_two_sizes_are_measured_and_compared_with_a_refit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "QUICK_SIZES", (600,))
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    scaling.main(["--quick"])
    found = json.loads(capsys.readouterr().out)["updates"]["600"]
    assert found["update"]["kinds"][0] == "step"
    assert found["update"]["warm_cpu_seconds"] > 0
    assert abs(found["quality"]["log_loss_lost"]["consensus"]) < 0.05
