"""`pytest -p tests.on_postgres` runs the tests on a PostgreSQL server of their own, made and removed here.

Loaded before Django's settings are: it sets DATABASE_URL. Without PostgreSQL it says so and runs nothing, except under
CI=true, where that is a failure.
"""

import os
import sys

import pytest

from tests.postgres import find_bin, start

if not os.environ.get("DATABASE_URL"):  # worker processes of pytest-xdist inherit it from the first
    found = find_bin()
    if found is None:
        message = "PostgreSQL is not installed, so the tests were not run a second time on it."
        sys.stderr.write(f"{message}\n")
        pytest.exit(message, returncode=1 if os.environ.get("CI") == "true" else 0)
    else:
        os.environ["DATABASE_URL"] = start(found)
