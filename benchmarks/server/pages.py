"""Response time and number of queries for each page of a large study.

    python -m benchmarks.server.pages [--data DIR] [--items 10000 --workers 5000 --labels 50000]

Without DIR (UKPConvArgCrowdSample) a simulated crowd is used. Times are wall-clock milliseconds inside this process
over repeated requests; the first request, which loads the version's arrays, is reported separately. The
preparations that a server makes at start (modelling/updater/startup.py) are made first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, peak_megabytes, print_progress, publish
from benchmarks.server.rows import Source, Study, database, from_folder, make_study, simulated

NAME = "pages"
TEXT = "People should be free to choose, because nobody knows better than they do what their own life is worth."
TARGETS = {"p95_ms_ukpconvarg": 300, "p95_ms_simulated_10000_items_5000_workers": 600}


def addresses(study: Study) -> dict[str, str]:
    """Return the URL of every page about the model, by name."""
    from django.urls import reverse

    from modelling.models import ModelSnapshot

    slug, number = study.project.slug, ModelSnapshot.objects.filter(project=study.project).latest().number
    worker, item = study.workers[0].code, study.items[0].pk
    where: dict[str, list[Any]] = {
        "annotation:project": [slug],
        "modelling:progress": [slug],
        "modelling:ranking": [slug],
        "modelling:item": [slug, item],
        "modelling:workers": [slug],
        "modelling:worker": [slug, worker],
        "modelling:components": [slug],
        "modelling:pairs": [slug],
        "modelling:new_text": [slug],
        "modelling:model": [slug],
        "modelling:version": [slug, number],
    }
    found = {name: reverse(name, args=place) for name, place in where.items()}
    found["modelling:new_text"] += f"?text={TEXT}"
    return found


def measure(study: Study, rounds: int) -> dict[str, dict[str, float]]:
    """Measure first, median and 95th percentile time in milliseconds, queries and kilobytes of every page."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from annotation.models import Membership
    from modelling.updater.startup import warm_up

    warm_up()
    user = get_user_model().objects.create_user("researcher")
    Membership.objects.create(project=study.project, user=user, role="owner")
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user)
    result = {}
    for name, address in addresses(study).items():
        result[name.split(":")[1]] = page = measured(client, address, rounds)
        print_progress(f"{name}: {page}")
    return result


def measured(client: Any, address: str, rounds: int) -> dict[str, float]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        answer = client.get(address)
        times.append(1000 * (time.perf_counter() - began))
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}.")
    with CaptureQueriesContext(connection) as captured:
        client.get(address)
    again = np.array(times[1:])
    return {
        "first_ms": times[0],
        "p50_ms": float(np.median(again)),
        "p95_ms": float(np.quantile(again, 0.95)),
        "queries": len(captured),
        "kilobytes": len(answer.content) / 1024,
    }


def make_fitted_study(source: Source) -> Study:
    """Create a study with these judgements and one version."""
    from modelling.updater.update import update_one

    study = make_study(source, "pages")
    study.add_judgements(source.labels)
    print_progress(
        f"{source.name}: {len(source.texts)} items, {len(study.workers)} workers, {len(source.labels)} judgements"
    )
    if update_one("benchmark") is None:
        raise RuntimeError("The study was not updated; see the log.")
    return study


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure all pages."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=5_000)
    parser.add_argument("--labels", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(argv)
    if options.quick:
        options.items, options.workers, options.labels, options.rounds = 20, 8, 120, 2
    source = from_folder(options.data) if options.data else simulated(options.items, options.workers, options.labels)
    with database():
        pages = measure(make_fitted_study(source), options.rounds)
    slowest = max(pages, key=lambda name: pages[name]["p95_ms"])
    size = {"items": len(source.texts), "workers": int(source.labels.u.max()) + 1, "judgements": len(source.labels)}
    result = {
        "source": source.name,
        **size,
        "targets": TARGETS,
        "pages": pages,
        "slowest": slowest,
        "slowest_p95_ms": pages[slowest]["p95_ms"],
        "megabytes": peak_megabytes(),
    }
    return publish(NAME if options.data else f"{NAME}-simulated", result, options)


if __name__ == "__main__":
    main()
