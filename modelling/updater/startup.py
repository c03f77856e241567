"""Preparations that a web process or an updater makes once, when it starts."""

import gc
import logging
from functools import cache

import numpy as np
from scipy.linalg import blas

from modelling.features.word_vectors import word_vectors

log = logging.getLogger("concord.startup")

LARGE = 300  # rows; OpenBLAS multiplies smaller matrices without a buffer


@cache
def allocate_blas_buffers() -> None:
    """Make numpy's and scipy's copies of OpenBLAS allocate their buffers (32 MB each, never freed) now.

    A copy that allocates its first buffer when memory has run out retries forever instead of raising MemoryError.
    """
    square = np.ones((LARGE, LARGE), order="F")
    np.matmul(square, square)
    blas.dgemm(1.0, square, square)


def warm_up() -> None:
    """Load the word vectors, and exclude long-lived objects from garbage collection.

    Pages create thousands of short-lived objects; the collections they trigger would scan everything that was loaded
    at start, which took up to 0.1 s of a request.
    """
    try:
        word_vectors(["a"])
    except (OSError, RuntimeError) as error:  # the page that needs them reports it
        log.warning("the word vectors could not be loaded: %s", error)
    gc.collect()
    gc.freeze()
