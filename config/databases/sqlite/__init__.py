"""SQLite options: readers never wait, writers queue, and a committed row survives a power cut."""

from pathlib import Path
from typing import Any

# WAL: readers run concurrently with one writer. FULL: every commit is synced before it is acknowledged.
# secure_delete: deleted content is overwritten, not only unlinked.
# recursive_triggers: INSERT OR REPLACE also fires the triggers that keep events append-only.
PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
    "PRAGMA recursive_triggers=ON; PRAGMA secure_delete=ON; PRAGMA journal_size_limit=67108864;"
)


def sqlite_database(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "config.databases.sqlite",
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {"init_command": PRAGMAS, "transaction_mode": "IMMEDIATE", "timeout": 20},
    }
