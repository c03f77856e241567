"""Which settings apply: `server` where a database address is given, `embedded` where nothing is."""

import os


def settings_module() -> str:
    return "config.settings.server" if os.environ.get("DATABASE_URL") else "config.settings.embedded"
