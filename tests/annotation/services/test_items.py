"""Items that are changed by two people at the same time."""

import threading

import pytest
from django.db import transaction

from annotation.models import Item, Project
from annotation.services.items import correct_item, set_item_active
from benchmarks.load.waiting import wait_until
from tests.helpers.concurrency import is_waiting, run_concurrently

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


def test_an_item_that_is_deactivated_while_it_is_corrected_becomes_inactive(project: Project) -> None:
    item, corrected = project.items.get(key="cats-1"), threading.Event()

    def correct() -> None:
        with transaction.atomic():
            correct_item(item=item, user=None, text="Cats purr softly.", group="cats")
            corrected.set()
            wait_until(is_waiting, 60, "the other transaction does not wait")

    def deactivate() -> None:
        corrected.wait(60)
        set_item_active(item=item, user=None, active=False)

    run_concurrently([correct, deactivate])
    assert list(Item.objects.filter(key="cats-1").order_by("revision").values_list("revision", "active")) == [
        (1, False),
        (2, False),
    ]
