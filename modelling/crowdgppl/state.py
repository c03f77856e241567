"""Convert a fitted model to a flat dict of arrays and back. No array grows with the number of labels."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from .arrays import State
from .item_prior import ItemPrior
from .kernels import Kernel, kernel_from_state
from .likelihood import Response
from .posterior import Posterior

VERSION = 5  # 1: mean-field engine; 2: counted likely components; 3: one share of the features; 4: no lapses
ARRAYS = ("Psi", "A_M", "h")
OPTIONAL = ("sharpness", "trait_weights")
NUMBERS = (
    "n_users", "v_t", "tau", "spread", "consensus", "personal", "n_supported", "caution",
    "random_share", "crowd_sharpness", "scale_sd",
)  # fmt: skip


def to_text(value: Any) -> np.ndarray[Any, Any]:
    """Text, numbers and lists as one array of text."""
    return np.array(json.dumps(value))


def from_text(array: np.ndarray[Any, Any]) -> Any:
    """Inverse of `to_text`."""
    return json.loads(str(array))


def posterior_to_state(post: Posterior) -> State:
    """The posterior and the items' features."""
    state: State = {name: np.array(getattr(post, name)) for name in ARRAYS}
    state |= {name: np.array(getattr(post, name)) for name in OPTIONAL if getattr(post, name) is not None}
    state["H_lower"] = post.H[np.tril_indices(post.n_items)]  # H is symmetric; t and S_t are computed from it
    state["numbers"] = to_text({name: getattr(post, name) for name in NUMBERS})
    state["response"] = to_text(asdict(post.response))
    prior = post.prior
    size = None if prior.kernel is None else prior.size
    state["item_prior"] = to_text(
        {"n_items": prior.n_items, "share": prior.share, "size": size, "taste_share": post.taste_prior.share}
    )
    state["item_kernel"] = kernel_to_text(prior.kernel)
    if prior.X is not None:
        state["X_items"] = np.array(prior.X)
    return state


def posterior_from_state(state: State) -> Posterior:
    """Inverse of `posterior_to_state`."""
    kernel, about = kernel_from_text(state["item_kernel"]), from_text(state["item_prior"])
    X = np.array(state["X_items"]) if "X_items" in state else None
    prior = ItemPrior(about["n_items"], kernel, X, about["share"], about["size"])
    post = Posterior(prior, prior.with_share(about["taste_share"]), **from_text(state["numbers"]))
    post.response = Response(**from_text(state["response"]))
    for name in (*ARRAYS, *OPTIONAL):
        if name in state:
            setattr(post, name, np.array(state[name]))
    lower = np.zeros((post.n_items, post.n_items))
    lower[np.tril_indices(post.n_items)] = state["H_lower"]
    post.H = lower + np.tril(lower, -1).T
    post.solve_t()
    return post


def kernel_to_text(kernel: Kernel | None) -> np.ndarray[Any, Any]:
    """A kernel, or none, as text."""
    return to_text(None if kernel is None else kernel.to_state())


def kernel_from_text(array: np.ndarray[Any, Any]) -> Kernel | None:
    """Inverse of `kernel_to_text`."""
    state = from_text(array)
    return None if state is None else kernel_from_state(state)
