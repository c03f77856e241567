"""Run the kill drill with five seeds, print its figures, and exit with 1 if any run failed."""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.load.installation import Installation
from tests.drills.scenarios.kills import drill

SEEDS = range(1, 6)
SIZE = {"posts": 1000, "kills": 5, "clients": 32, "items": 100}


def main() -> None:
    failed = False
    for seed in SEEDS:
        with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder:
            figures = drill(Installation(Path(folder)), seed=seed, **SIZE)
        sys.stdout.write(f"{figures['drill']}, seed {seed}: {'passed' if figures['passed'] else 'FAILED'}\n")
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()
        failed = failed or not figures["passed"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
