"""Check that the database schema fits this release; explain what to do if it is newer or older."""

from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.loader import MigrationLoader

OUR_APPS = ("annotation", "modelling")


def unknown_migrations() -> list[str]:
    """Applied migrations that this release does not contain."""
    loader = MigrationLoader(connection)
    applied = {key for key in loader.applied_migrations or () if key[0] in OUR_APPS}
    return [f"{app}.{name}" for app, name in sorted(applied - set(loader.disk_migrations or ()))]


def refuse_newer_database() -> None:
    """Raise CommandError if a newer release has migrated this database."""
    if unknown := unknown_migrations():
        raise CommandError(
            f"This database was used by a newer release of Concord, which added {', '.join(unknown)}. Nothing was "
            "changed. Install that release again, or restore a backup made before the upgrade."
        )
