"""Prepare a Dask scheduler or worker for Concord.

dask scheduler --preload config.dask
dask worker tcp://scheduler:8786 --nthreads 1 --preload config.dask

These processes have no database access and no secrets: they receive and return arrays only.
"""

import os
from typing import Any

import django
from dask.sizeof import sizeof
from threadpoolctl import threadpool_limits

from modelling.crowdgppl.users import Visit


def dask_setup(node: Any) -> None:
    """Set up Django and limit BLAS to one thread per process, as in the updater."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.compute")
    django.setup()
    threadpool_limits(1)


@sizeof.register(Visit)
def size_of_visit(visit: Visit) -> int:
    """The size of a visit's matrices in bytes: the scheduler sends the next step to the process that has them."""
    return sum(each.G.nbytes + each.R_t.nbytes + each.J.nbytes for each in visit.solutions)
