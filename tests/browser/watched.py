"""A study that somebody watches, and new versions of it: made in this process or in one that this test starts."""

import time

from django.core.management import call_command
from django.db import transaction
from playwright.sync_api import Page

from annotation import services
from annotation.models import Project, User
from tests.conftest import PASSWORD, make_items, make_user
from tests.modelling.studies import make_version


def furnish() -> None:
    """An empty install has its tables, its static files and the watched study."""
    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    make_watched_study()


def make_watched_study() -> None:
    """The pets of the tests' own cast, their owner, and a first version."""
    owner = User.objects.filter(username="olga").first() or make_user("olga")
    project = services.create_project(owner=owner, slug="pets", title="Pets", state="open")
    make_items(project, ["Cats purr.", "Cats sleep all day.", "Cats are clean."])
    publish(1)


def publish(number: int) -> float:
    """The moment at which version `number` was there for everybody, in seconds since 1970."""
    with transaction.atomic():
        make_version(Project.objects.get(slug="pets"), number)
    return time.time()


def log_in(page: Page, address: str) -> None:
    """By the real log-in page."""
    page.goto(f"{address}/accounts/login/?next=/projects/pets/ranking/")
    fill_in_the_log_in(page)


def fill_in_the_log_in(page: Page) -> None:
    page.fill("[name=username]", "olga")
    page.fill("[name=password]", PASSWORD)
    page.locator("main button[type=submit]").click()
