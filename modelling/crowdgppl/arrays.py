"""Array types for the type hints of the package."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
State = dict[str, npt.NDArray[Any]]


def matrix(X: npt.ArrayLike, name: str) -> FloatArray:
    """Convert features to a finite float matrix; raise ValueError if that is not possible."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a table with one row each and one column per feature, not {array.ndim}-d.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are missing or infinite.")
    return array
