"""What a process does once: a web process beside its first requests, an updater before its first study."""

import gc
import logging
from functools import cache

import numpy as np
from scipy.linalg import blas

from modelling.word_vectors import word_vectors

log = logging.getLogger("concord.warming")

LARGE = 300  # rows of a product that is not made by the short way, which needs no buffer


@cache
def hold_buffers() -> None:
    """numpy's and scipy's own copies of OpenBLAS have their buffers, 32 MB each, which they never give back.

    A copy that asks for its first one when memory has run out asks again for ever, and no MemoryError comes.
    """
    square = np.ones((LARGE, LARGE), order="F")
    np.matmul(square, square)
    blas.dgemm(1.0, square, square)


def warm_up() -> None:
    """The word vectors are in memory, and what a process keeps for ever is no longer looked through for garbage.

    Pages make thousands of short-lived objects; each time they have filled a quarter of what is there already, Python
    looks through all of it, which took up to a tenth of a second of somebody's request.
    """
    try:
        word_vectors(["a"])
    except (OSError, RuntimeError) as error:  # the page that needs them says so itself
        log.warning("the word vectors could not be read: %s", error)
    gc.collect()
    gc.freeze()
