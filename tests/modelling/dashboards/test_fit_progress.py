"""The progress of a running fit, as pages show it."""

from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string

from modelling.dashboards.common.freshness import FitProgress

STORED = {"what": "fitting", "iteration": 12, "share": 0.5, "change": 0.01}


@pytest.mark.parametrize(("processes", "shown"), [({}, False), ({"processes": 4}, True)])
def test_pages_say_by_how_many_processes_a_fit_is_computed(processes: dict[str, int], shown: bool) -> None:
    progress = FitProgress.parse(STORED | processes)
    page = render_to_string("modelling/_freshness.html", {"freshness": SimpleNamespace(progress=progress)})
    assert "Fitting the model, iteration 12" in page
    assert ("(computed by 4 processes)" in page) == shown
