"""The settings profile: `server` if DATABASE_URL is set, otherwise `embedded`."""

import os
from collections.abc import Mapping
from pathlib import Path

PROFILE_VARIABLES = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "FAULTS")


def settings_module() -> str:
    return "config.settings.server" if os.environ.get("DATABASE_URL") else "config.settings.embedded"


def fresh_environment(environment: Mapping[str, str], data: Path) -> dict[str, str]:
    """The environment for a process that runs a new embedded installation in this folder."""
    kept = {name: value for name, value in environment.items() if name not in PROFILE_VARIABLES}
    return kept | {"CONCORD_DATA": str(data)}
