"""A fitted model as a flat dict of arrays, and back: no objects, so that a rename breaks nothing."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

import numpy as np

from .arrays import FloatArray, State
from .finish import refresh_intervals
from .inducing import ItemSpace
from .items import Items, late_pair_moments
from .kernels import Kernel, kernel_from_state
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Finish, Posterior
from .refining import Draws
from .reliability import Reliability
from .sampling import Mixing
from .scales import Scales
from .traits import Traits
from .users import KeptMeans, Users

FINISH_FIELDS = ("S_t", "root", "lam", "tau")
DRAW_FIELDS = ("B", "W", "variance")
SCALE_FIELDS = ("prior_shape", "prior_rate", "learned", "shape", "rate")


def words(value: Any) -> np.ndarray[Any, Any]:
    """Words, numbers and lists as one array of text."""
    return np.array(json.dumps(value))


def unwords(array: np.ndarray[Any, Any]) -> Any:
    """What `words` wrote."""
    return json.loads(str(array))


def kernel_words(kernel: Kernel | None) -> np.ndarray[Any, Any]:
    """A kernel, or none, as text."""
    return words(None if kernel is None else kernel.to_state())


def kernel_from_words(array: np.ndarray[Any, Any]) -> Kernel | None:
    """The kernel that `kernel_words` wrote."""
    state = unwords(array)
    return None if state is None else kernel_from_state(state)


def put(state: State, **arrays: FloatArray | None) -> None:
    """Arrays under their names; those that are None are left out."""
    state.update({name: array for name, array in arrays.items() if array is not None})


def posterior_to_state(post: Posterior) -> State:
    """The posterior, its labels and its item space."""
    labels, space, items, users = post.ledger.labels, post.space, post.items, post.users
    state: State = {"u": labels.u, "a": labels.a, "b": labels.b, "y": labels.y, "weight": labels.weights}
    state["sizes"] = np.array([space.n_items, post.ledger.n_users, items.first])
    state["space_kernel"] = kernel_words(space.kernel)
    put(state, X_items=space.X, landmarks=space.landmarks, map=space.map, Psi=space.Psi)
    put(state, items_mean=items.mean, items_cov=items.cov, items_precision=items.precision, items_shift=items.shift)
    put(state, users_W=users.W, users_Omega=users.Omega, users_g=users.g)
    put(state, lam=post.lam, tau=post.tau, m=post.m, v=post.v, rest=post.rest)
    put(state, improper=np.array(post.improper), held=post.held)
    if isinstance(users, KeptMeans):
        state["users_total"] = users.total
    keep_traits(state, post.traits)
    refresh_intervals(post)
    keep_finish(state, post.finish)
    if post.reliability is not None:
        put(state, reliability_a=post.reliability.a, reliability_foretold=post.reliability.foretold)
        state["reliability_crowd"] = np.array([post.reliability.coins, post.reliability.typical])
    for name, scales in (("scale_items", post.scale_items), ("scale_users", post.scale_users)):
        state.update({f"{name}_{each}": getattr(scales, each) for each in SCALE_FIELDS})
    return {name: np.array(array, copy=True) for name, array in state.items()}


def keep_traits(state: State, traits: Traits | None) -> None:
    """The traits, where there are some."""
    if traits is None:
        return
    space = traits.space
    put(state, traits_X=space.X, traits_landmarks=space.landmarks, traits_map=space.map, traits_Psi=space.Psi)
    put(state, traits_coefficients=traits.coefficients, traits_cov=traits.cov, traits_precision=traits.precision)
    state["traits_rho"], state["traits_kernel"] = np.array(traits.rho), kernel_words(space.kernel)
    state["traits_centre"], state["traits_size"] = traits.centre, np.array(traits.size)


def traits_from(state: State) -> Traits | None:
    """The traits that `keep_traits` wrote."""
    if "traits_rho" not in state:
        return None
    parts = [state[f"traits_{name}"] for name in ("X", "landmarks", "map", "Psi")]
    space = ItemSpace(len(parts[0]), kernel_from_words(state["traits_kernel"]), *parts)
    coefficients, cov, precision = (state[f"traits_{name}"].copy() for name in ("coefficients", "cov", "precision"))
    rho, size = float(state["traits_rho"]), float(state["traits_size"])
    return Traits(space, rho, coefficients, cov, precision, state["traits_centre"], size)


def reliability_from(state: State) -> Reliability | None:
    """How reliable the workers are, where they were judged."""
    if "reliability_a" not in state:
        return None
    coins, typical = state["reliability_crowd"]
    return Reliability(state["reliability_a"].copy(), state["reliability_foretold"].copy(), float(coins), int(typical))


def keep_finish(state: State, finish: Finish | None) -> None:
    """The finish, where there is one."""
    if finish is None:
        return
    for name in FINISH_FIELDS:
        state[f"finish_{name}"] = getattr(finish, name)
    state["finish_personal"], state["finish_settled"] = np.array(finish.personal), np.array(finish.settled)
    state["finish_share"] = np.array(finish.share)


def finish_from(state: State) -> Finish | None:
    """The finish that `keep_finish` wrote."""
    if "finish_personal" not in state:
        return None
    S_t, root, lam, tau = (state[f"finish_{name}"].copy() for name in FINISH_FIELDS)
    settled = bool(state.get("finish_settled", np.array(False)))
    share = float(state.get("finish_share", np.array(1.0)))
    return Finish(S_t, root, lam, tau, bool(state["finish_personal"]), settled, share)


def keep_draws(state: State, draws: Draws | None) -> None:
    """The draws of a refined model, in the short numbers to which they were rounded."""
    if draws is None:
        return
    for name in DRAW_FIELDS:
        state[f"draws_{name}"] = getattr(draws, name).astype(np.float32)
    state["draws_mixing"] = words(astuple(draws.mixing))
    put(state, draws_map=draws.space.map, draws_Psi=draws.space.Psi)


def draws_from(state: State, space: ItemSpace) -> Draws | None:
    """The draws that `keep_draws` wrote, their items those of this space."""
    if "draws_mixing" not in state:
        return None
    if "draws_Psi" in state and not np.array_equal(state["draws_Psi"], space.dense):
        space = ItemSpace(space.n_items, space.kernel, space.X, space.X, state["draws_map"], state["draws_Psi"])
    B, W, variance = (state[f"draws_{name}"].astype(np.float64) for name in DRAW_FIELDS)
    return Draws(space, B, W, variance, Mixing(*unwords(state["draws_mixing"])))


def users_from(state: State) -> Users:
    """The users, or only their means where a source had fed the model."""
    W, Omega, g = (state[f"users_{name}"].copy() for name in ("W", "Omega", "g"))
    return KeptMeans(W, Omega, g, state["users_total"].copy()) if "users_total" in state else Users(W, Omega, g)


def scales_from(state: State, name: str) -> Scales:
    """The scales stored under this name."""
    return Scales(**{each: state[f"{name}_{each}"].copy() for each in SCALE_FIELDS})


def posterior_from_state(state: State) -> Posterior:
    """The posterior that `posterior_to_state` wrote, to the last bit."""
    n_items, n_users, first = (int(each) for each in state["sizes"])
    labels = PairwiseLabels(*(state[name] for name in ("u", "a", "b", "y", "weight")))
    ledger = Ledger.of(labels, n_items, n_users)
    parts = (state.get(name) for name in ("X_items", "landmarks", "map", "Psi"))
    space = ItemSpace(n_items, kernel_from_words(state["space_kernel"]), *parts)
    precision, shift = state.get("items_precision"), state.get("items_shift")
    items = Items(state["items_mean"].copy(), state["items_cov"].copy(), first, precision, shift)
    users = users_from(state)
    scale_items, scale_users = scales_from(state, "scale_items"), scales_from(state, "scale_users")
    lam, tau, m, v, rest = (state[name].copy() for name in ("lam", "tau", "m", "v", "rest"))
    pairs = late_pair_moments(ledger, space, items, scale_items.mean, rest)
    return Posterior(
        space, ledger, items, users, scale_items, scale_users, lam, tau, m, v, rest, pairs,
        traits=traits_from(state), reliability=reliability_from(state), finish=finish_from(state),
        improper=float(state["improper"]), held=state.get("held"),
    )  # fmt: skip
