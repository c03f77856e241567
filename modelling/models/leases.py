"""The columns of a lease."""

from datetime import timedelta

from django.db import models


class LeasedRow(models.Model):
    """A row that one process at a time works on. `updater/leases.py` claims, extends and releases it."""

    lease_duration = timedelta(seconds=30)

    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
