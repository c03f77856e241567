"""The array types of the package, so that a signature says what it holds."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
State = dict[str, npt.NDArray[Any]]


def matrix(X: npt.ArrayLike, name: str) -> FloatArray:
    """The features as a finite float matrix; anything else is refused in plain words."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a table with one row each and one column per feature, not {array.ndim}-d.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are missing or infinite.")
    return array
