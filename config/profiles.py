"""Which settings apply: `server` where a database address is given, `embedded` where nothing is."""

import os
from collections.abc import Mapping
from pathlib import Path

OURS = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "FAULTS")


def settings_module() -> str:
    return "config.settings.server" if os.environ.get("DATABASE_URL") else "config.settings.embedded"


def fresh_environment(given: Mapping[str, str], data: Path) -> dict[str, str]:
    """The variables of a process with an empty embedded installation in this folder, whatever this one has."""
    return {name: value for name, value in given.items() if name not in OURS} | {"CONCORD_DATA": str(data)}
