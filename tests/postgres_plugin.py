"""`pytest -p tests.postgres_plugin` runs the tests on a temporary PostgreSQL server.

It is loaded before Django's settings because it sets DATABASE_URL. Without PostgreSQL it runs no tests and says so;
with CI=true that is a failure.
"""

import os
import sys

import pytest

from benchmarks.load.servers import find_postgres
from tests.helpers.postgres import start

if not os.environ.get("DATABASE_URL"):  # worker processes of pytest-xdist inherit it
    found = find_postgres()
    if found is None:
        message = "PostgreSQL is not installed: the tests marked both_databases run on SQLite only."
        sys.stderr.write(f"{message}\n")
        pytest.exit(message, returncode=1 if os.environ.get("CI") == "true" else 0)
    else:
        os.environ["DATABASE_URL"] = start(found)
