"""Django's migrate, except that it refuses to undo migrations, which would delete answers."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from annotation.management.schema import refuse_newer_database


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_newer_database()
        if options.get("migration_name"):
            self.refuse_going_back(options["app_label"], options["migration_name"])
        super().handle(*args, **options)

    def refuse_going_back(self, app: str, name: str) -> None:
        executor = MigrationExecutor(connection)
        target = None if name == "zero" else executor.loader.get_migration_by_prefix(app, name).name
        if any(backwards for _migration, backwards in executor.migration_plan([(app, target)])):
            raise CommandError(
                "Migrations cannot be undone, because that would delete data. Nothing was changed. "
                "To go back to an older release, restore a backup made before the upgrade (docs/deployment.md)."
            )
