"""The study whose pages the live tests watch; also run in processes that a test starts."""

from django.db import transaction
from playwright.sync_api import Page

from annotation import services
from annotation.models import Project, User
from tests.conftest import PASSWORD, make_items, make_user
from tests.modelling.samples.studies import make_version


def make_watched_study() -> None:
    """Create the study “pets” with its owner and a first version."""
    owner = User.objects.filter(username="olga").first() or make_user("olga")
    project = services.create_project(owner=owner, slug="pets", title="Pets", state="open")
    make_items(project, ["Cats purr.", "Cats sleep all day.", "Cats are clean."])
    publish(1)


def publish(number: int) -> None:
    """Publish a version of the study."""
    with transaction.atomic():
        make_version(Project.objects.get(slug="pets"), number)


def log_in(page: Page, address: str) -> None:
    page.goto(f"{address}/accounts/login/?next=/projects/pets/ranking/")
    submit_login(page)


def submit_login(page: Page) -> None:
    page.fill("[name=username]", "olga")
    page.fill("[name=password]", PASSWORD)
    page.locator("main button[type=submit]").click()
