"""What the estimator accepts, said in plain words where it does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray, matrix
from .labels import indices


def optional_matrix(X: npt.ArrayLike | None, name: str) -> FloatArray | None:
    """Features as a matrix, or None."""
    return None if X is None else matrix(X, name)


def count_rows(seen: int, stated: int | None, X: FloatArray | None, name: str, known: int = 0) -> int:
    """How many items (or users) there are: as stated, as rows of X, or as the labels need."""
    count = max(seen, known) if stated is None else stated
    if X is not None:
        if stated is not None and stated != len(X):
            raise ValueError(f"n_{name} is {stated} but X_{name} has {len(X)} rows.")
        count = len(X)
    if count < known:
        raise ValueError(f"The model knows {known} {name}; X_{name} and n_{name} must count them too, new ones last.")
    if count < seen:
        raise ValueError(f"The labels speak of {seen} {name}, but there are only {count}.")
    return count


def chosen(wanted: npt.ArrayLike | None, known: int, X: FloatArray | None, name: str) -> IntArray:
    """The indices asked for; by default the new rows where there are some, otherwise all known ones."""
    new = 0 if X is None else len(X)
    if wanted is None:
        return np.arange(known, known + new) if new else np.arange(known)
    asked = indices(wanted, name)
    if len(asked) and asked.max() >= known + new:
        raise ValueError(f"{name} holds the index {asked.max()}, but there are only {known + new}.")
    return asked


def same_length(*arrays: IntArray) -> None:
    """All of one length."""
    if len({len(each) for each in arrays}) > 1:
        raise ValueError("The arrays of a prediction must have the same length.")


def one_of(value: str, allowed: tuple[str, ...], name: str) -> None:
    """A setting that is one of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; not {value!r}.")


def positive(value: float, name: str) -> None:
    """A setting that is a positive number."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}.")
