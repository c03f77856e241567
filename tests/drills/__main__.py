"""Every drill that exists, with five seeds each, by name and with its figures; ends with 1 where one failed."""

import json
import sys
import tempfile
from pathlib import Path

from tests.drills.install import Install
from tests.drills.kills import drill

SEEDS = range(1, 6)
DRILLS = {"D1, D2: kill -9 of the web process at random moments, 1,000 posts, 5 kills": drill}
SIZE = {"posts": 1000, "kills": 5, "clients": 32, "items": 100}


def main() -> None:
    """Runs them one after the other and says which passed."""
    failed = []
    for name, run in DRILLS.items():
        for seed in SEEDS:
            with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder:
                figures = run(Install(Path(folder)), seed=seed, **SIZE)
            sys.stdout.write(f"{name}, seed {seed}: {'passed' if figures['passed'] else 'FAILED'}\n")
            sys.stdout.write(json.dumps(figures) + "\n")
            sys.stdout.flush()
            failed += [] if figures["passed"] else [(name, seed)]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
