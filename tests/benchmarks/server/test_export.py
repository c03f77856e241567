"""The export benchmark measures every row in every format."""

import json

import pytest

from benchmarks.server import export


@pytest.mark.django_db
def test_each_format_is_measured_over_every_judgement(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "INSERTED_AT_ONCE", 50)
    export.fill("large", judgements=120, items=6, workers=4)
    for name in export.FORMATS:
        capsys.readouterr()
        export.measure_format("large", name)
        figures = json.loads(capsys.readouterr().out)
        assert figures["rows"] == 120
        assert figures["rows_per_second"] > 0
        assert figures["megabytes"] > 0


@pytest.mark.django_db
def test_the_queued_jobs_export_different_points(capsys: pytest.CaptureFixture[str]) -> None:
    from modelling.models import ExportJob

    export.fill("large", judgements=120, items=6, workers=4)
    export.queue_jobs("large")
    assert ExportJob.objects.values("sequence").distinct().count() == export.JOBS_AT_ONCE
    export.delete_jobs()
    assert capsys.readouterr().out.strip().endswith("0")
    assert not ExportJob.objects.exists()
