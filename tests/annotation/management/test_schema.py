"""Downgrades are refused with a message and change nothing."""

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from annotation.management.schema import unknown_migrations

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def newer_database() -> None:
    MigrationRecorder.Migration.objects.create(app="modelling", name="9999_from_the_future")


@pytest.mark.parametrize("command", ["migrate", "serve", "update_models"])
@pytest.mark.usefixtures("newer_database")
def test_an_older_release_refuses_a_newer_database(command: str) -> None:
    with pytest.raises(CommandError, match=r"newer release of Concord, which added modelling\.9999_from_the_future"):
        call_command(command)


@pytest.mark.usefixtures("newer_database")
def test_a_newer_database_is_not_ready(client: Client) -> None:
    assert "migrations" in client.get("/readyz").json()["down"]


@pytest.mark.parametrize("target", ["zero", "0001"])
def test_migrations_are_not_undone(target: str) -> None:
    with pytest.raises(CommandError, match="that would delete data"):
        call_command("migrate", "annotation", target)
    assert unknown_migrations() == []
