"""The next pair with suggestions present: time of the POST that records an answer and returns the next pairs.

    python -m benchmarks.planning.next_pair [--answers 200]

`manage.py serve` runs in its own process on the loopback interface with the demo study (SQLite), and one client at a
time answers. Milliseconds are those of the client; CPU milliseconds are those of the web process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, publish
from benchmarks.load.installation import Installation
from modelling.simulation.http_client import HttpClient
from modelling.simulation.http_worker import HttpWorker

NAME = "next_pair"
STUDY = "demo"
LIMIT_MS = 30.0
WARM_UP = 5  # answers that are not measured
EACH = 35  # answers per worker
POLICIES = """
from annotation.models import Assignment, Suggestion
from django.db.models import Count
print(Suggestion.objects.count())
for policy, n in Assignment.objects.values_list("policy").annotate(Count("pk")):
    print(policy, n)
"""


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    with tempfile.TemporaryDirectory() as folder, Installation(Path(folder)) as server:
        server.create_tables()
        server.run_command("demo")
        server.start("--no-updater")
        milliseconds, cpu_ms = answer(server, WARM_UP + (10 if options.quick else options.answers))
        suggestions, *policies = server.run_python(POLICIES).strip().splitlines()
    p50, p95 = np.quantile(milliseconds, [0.5, 0.95]).tolist()
    result = {"answers": len(milliseconds), "suggestions": int(suggestions), "policies": policies}
    result |= {"p50_ms": p50, "p95_ms": p95, "cpu_ms_per_answer": cpu_ms, "limit_ms": LIMIT_MS, "met": p95 < LIMIT_MS}
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--answers", type=int, default=200)
    return parser.parse_args(argv)


def answer(server: Installation, count: int) -> tuple[list[float], float]:
    """Answer pairs as one worker after the other; return the milliseconds of each POST and mean CPU milliseconds."""
    milliseconds, cpu_ms = list[float](), list[float]()
    while len(milliseconds) < count:
        worker = HttpWorker(HttpClient(server.url), STUDY, simulated=True)
        worker.join()
        for _ in range(min(EACH, count - len(milliseconds))):
            pair = worker.next_pair()
            if pair is None:
                break
            given = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
            began, cpu = time.perf_counter(), server.cpu_seconds()
            response = worker.answer(given)
            if response.status >= 300:
                raise RuntimeError(f"status {response.status}: {response.text()[:500]}")
            milliseconds.append(1000.0 * (time.perf_counter() - began))
            cpu_ms.append(1000.0 * (server.cpu_seconds() - cpu))
        worker.close()
    return milliseconds[WARM_UP:], float(np.mean(cpu_ms[WARM_UP:]))


if __name__ == "__main__":
    main()
