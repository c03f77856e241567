"""The slower pass on small data: draws of the exact posterior of t, the tastes and the weights, instead of q.

Sampled are whitened coordinates, in which every prior is a standard normal one, by `sampling.py`. Which taste is which,
and its sign, mean nothing in a draw: only consensus, utilities, and what follows from them are ever read from draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from .arrays import FloatArray
from .inducing import ItemSpace, spectral_space
from .likelihood import hazard
from .posterior import Posterior
from .sampling import Mixing, Told, sample
from .scales import Scales
from .users import KeptMeans

FEWEST_CHAINS, MOST_CHAINS = 16, 32
WIDTH = 6400  # chains times labels: as many chains as the labels leave room for
MOST_LABELS, MOST_CELLS, MOST_UNKNOWNS = 500, 1000, 800  # cells are items times users: a few CPU seconds
MOST_SEEN = 200  # utilities of which it is looked at how they mix
LEFT_OUT = 1e-6  # variance of a pair beyond which the directions that Psi leaves out are sampled too
MOST_DRAWS, KEPT_NUMBERS = 4000, 500_000  # draws that are kept, and the numbers in them
TASTES_VARIANCE = 4.0  # prior mean of that of the personal part, where every taste has a scale of its own


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the posterior, rounded to what is kept, and how well they mixed."""

    space: ItemSpace
    B: FloatArray  # (D, C + 1, M): t and the v_c in the directions of the space
    W: FloatArray  # (D, U, C)
    variance: FloatArray  # (D, C + 1) prior variances of t and the v_c
    mixing: Mixing


def hindrance(post: Posterior) -> str:
    """Why these data cannot be refined, in words; empty if they can."""
    if isinstance(post.users, KeptMeans):
        return "A model fed by a source of labels cannot be refined: it keeps no labels."
    ledger, U = post.ledger, len(post.users.W)
    unknowns = (post.n_components + 1) * post.space.n_items + U * post.n_components
    sizes = (
        (ledger.n_labels, MOST_LABELS, "labels"),
        (post.space.n_items * U, MOST_CELLS, "items times users"),
        (unknowns, MOST_UNKNOWNS, f"unknowns ({post.n_components} components times items and users, plus items)"),
    )
    for size, most, name in sizes:
        if size > most:
            return f"Refining is for small data: there are {size:,} {name}, and it takes at most {most:,}."
    return "" if ledger.n_labels else "There are no labels to refine by."


class Preferences:
    """The likelihood of the labels over whitened positions: t and the v_c, users' weights, the tastes' own scales.

    Scales: those that the fit learned are drawn from their Gamma conditionals; with a `spread` every v_c has a scale of
    its own, a half-normal deviation with this spread (its sign is v_c's); all others are held.
    """

    def __init__(self, post: Posterior, space: ItemSpace, chains: int, spread: float | None) -> None:
        labels, ledger = post.ledger.labels, post.ledger
        self.K, self.U, self.C = chains, len(post.users.W), post.n_components
        self.Psi, self.first = space.dense, post.items.first
        self.N, self.M = self.Psi.shape
        turned = labels.y < 0.5
        a, b = np.where(turned, labels.b, labels.a), np.where(turned, labels.a, labels.b)
        y = np.where(turned, 1.0 - labels.y, labels.y)
        self.up, down = labels.weights * y, labels.weights * (1.0 - y)
        self.split = np.flatnonzero(down > 0)  # ties and shares: the other answer counts too
        self.down = down[self.split]
        self.sharp = np.broadcast_to(np.asarray(post.sharpness(slice(None, -1))), (ledger.n_labels,))
        self.a, self.b = a * self.U + labels.u, b * self.U + labels.u
        start = (np.arange(chains) * self.N * self.U)[:, None]
        self.cells = np.concatenate((start + self.a, start + self.b), axis=1).ravel()
        self.g = post.users.g
        self.own = np.ones((self.U, self.C)) if post.traits is None else post.traits.precision
        self.scale_items, self.scale_users, self.spread = post.scale_items, post.scale_users, spread
        self.s = np.tile(post.scale_items.mean, (chains, 1))
        self.s_w = np.tile(post.scale_users.mean, (chains, 1))
        if spread is not None:
            self.s[:, 1:] = 1.0 / spread**2
        self.looked_at = np.unique(np.linspace(0, self.N * self.U - 1, MOST_SEEN).astype(np.int64))
        self.kept: list[tuple[FloatArray, ...]] = []

    # Positions: (t and) v_c, then the weights, then the tastes' own scales where they are free

    def _parts(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Whitened items (K, C + 1, M), weights (K, U, C) and scales (K, C), as they stand in a position."""
        items, weights = (self.C + 1 - self.first) * self.M, self.U * self.C
        X = x[:, :items].reshape(self.K, -1, self.M)
        if self.first:
            X = np.concatenate((np.zeros((self.K, 1, self.M)), X), axis=1)
        free = np.ones((self.K, self.C)) if self.spread is None else x[:, items + weights :]
        return X, x[:, items : items + weights].reshape(self.K, self.U, self.C), free

    def _joined(self, X: FloatArray, weights: FloatArray, free: FloatArray) -> FloatArray:
        """The position of these parts, or the slope along them."""
        parts = [X[:, self.first :].reshape(self.K, -1), weights.reshape(self.K, -1)]
        return np.concatenate(parts if self.spread is None else [*parts, free], axis=1)

    def _sizes(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By what whitened items (K, C + 1, 1) and weights (K, U, C) are multiplied."""
        scale = np.concatenate((np.ones((self.K, 1)), free), axis=1) / np.sqrt(self.s)
        return scale[:, :, None], 1.0 / np.sqrt(self.s_w[:, None, :] * self.own)

    def unpacked(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """t and the v_c (K, C + 1, M), and the weights (K, U, C)."""
        X, weights, free = self._parts(x)
        of_items, of_users = self._sizes(free)
        return X * of_items, self.g + weights * of_users

    def _utilities(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """t and the v_c at the items (K, C + 1, N), the weights, and F (K, N, U): eq:vw_plus_t."""
        B, W = self.unpacked(x)
        D = B @ self.Psi.T
        return D, W, D[:, 0, :, None] + D[:, 1:].swapaxes(1, 2) @ W.swapaxes(1, 2)

    def _felt(self, F: FloatArray) -> FloatArray:
        """(K, P) each label's z towards its answer, as sharply as its user answers."""
        flat = F.reshape(self.K, -1)
        return np.asarray((flat.take(self.a, axis=1) - flat.take(self.b, axis=1)) * self.sharp)

    def height(self, x: FloatArray) -> FloatArray:
        """sum_p weight (y log Phi(z) + (1 - y) log Phi(-z))."""
        z = self._felt(self._utilities(x)[2])
        total = (self.up * log_ndtr(z)).sum(axis=1)
        return np.asarray(total + (self.down * log_ndtr(-z[:, self.split])).sum(axis=1))

    def slope(self, x: FloatArray) -> FloatArray:
        """Its gradient in the positions."""
        D, W, F = self._utilities(x)
        z = self._felt(F)
        pull = self.up * hazard(z)
        pull[:, self.split] -= self.down * hazard(-z[:, self.split])
        pull = pull * self.sharp
        both = np.concatenate((pull, -pull), axis=1).ravel()
        G = np.bincount(self.cells, both, self.K * self.N * self.U).reshape(self.K, self.N, self.U)
        of_B = np.concatenate((G.sum(axis=2)[:, None], (G @ W).swapaxes(1, 2)), axis=1) @ self.Psi
        of_W = G.swapaxes(1, 2) @ D[:, 1:].swapaxes(1, 2)
        X, _, free = self._parts(x)
        of_items, of_users = self._sizes(free)
        of_free = (of_B[:, 1:] * X[:, 1:]).sum(axis=2) / np.sqrt(self.s[:, 1:])
        return self._joined(of_B * of_items, of_W * of_users, of_free)

    def renewed(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Learned scales drawn given t, the v_c and the weights, which stay: their positions are whitened anew."""
        X, weights, free = self._parts(x)
        of_items, of_users = self._sizes(free)
        B, E = X * of_items, weights * of_users
        draw_scales(self.s, self.scale_items, self.M, np.square(B).sum(axis=2), rng)
        draw_scales(self.s_w, self.scale_users, self.U, (np.square(E) * self.own).sum(axis=1), rng)
        of_items, of_users = self._sizes(free)
        moved = self.scale_items.learned[None, :, None]
        X = np.where(moved, B / np.where(moved, of_items, 1.0), X)
        return self._joined(X, E / of_users, free)

    def seen(self, x: FloatArray) -> FloatArray:
        """Consensus and utilities (some of them), as distances from their mean over items."""
        D, _, F = self._utilities(x)
        t, own = D[:, 0] - D[:, 0].mean(axis=1, keepdims=True), F - F.mean(axis=1, keepdims=True)
        return np.concatenate((t, own.reshape(self.K, -1)[:, self.looked_at]), axis=1)

    def keep(self, x: FloatArray) -> None:
        """These positions are draws."""
        _, _, free = self._parts(x)
        of_items, _ = self._sizes(free)
        kept = (*self.unpacked(x), np.square(of_items[:, :, 0]))
        self.kept.append(tuple(each.astype(np.float32) for each in kept))

    def start(self, post: Posterior, space: ItemSpace, rng: np.random.Generator) -> FloatArray:
        """The fit plus its spread, a draw for every chain."""
        at_items = post.space.times(post.items.mean)
        mean = post.items.mean if space is post.space else np.linalg.lstsq(self.Psi, at_items, rcond=None)[0]
        sd = np.sqrt(np.einsum("cmm->c", post.items.cov) / post.space.M)  # of each component, on average
        B = mean.T + sd[:, None] * rng.standard_normal((self.K, self.C + 1, self.M))
        noise = rng.standard_normal((self.K, self.U, self.C)) * np.sqrt(post.users.variances)
        free = np.ones((self.K, self.C))
        if self.spread is not None:
            typical = np.sqrt(np.square(post.items.mean[:, 1:]).mean(axis=0) + sd[1:] ** 2) / self.spread
            free = np.tile(np.clip(typical, 0.1, 3.0), (self.K, 1))
        of_items, of_users = self._sizes(free)
        return self._joined(B / of_items, (post.users.W + noise - self.g) / of_users, free)


def draw_scales(s: FloatArray, scales: Scales, dimension: int, energy: FloatArray, rng: np.random.Generator) -> None:
    """The learned ones drawn from Gamma(alpha_0 + dimension / 2, beta_0 + energy / 2), in place."""
    for c in np.flatnonzero(scales.learned):
        drawn = rng.gamma(scales.prior_shape[c] + 0.5 * dimension, size=len(s))
        s[:, c] = np.maximum(drawn, 1e-12) / (scales.prior_rate[c] + 0.5 * energy[:, c])


def whole_space(post: Posterior) -> ItemSpace:
    """All directions of the items that are not rounding: the fit's own, unless it left some out."""
    space = post.space
    if space.X is None or space.kernel is None or not (post.rest > LEFT_OUT).any():
        return space
    return spectral_space(space.X, space.kernel, space.n_items)


def refined(post: Posterior, own_scales: bool, seed: int, told: Told) -> Draws:
    """Draws of the exact posterior of a fit; whether they may be used is in their mixing."""
    rng = np.random.default_rng([seed, post.ledger.n_labels])
    space = whole_space(post)
    spread = float(np.sqrt(TASTES_VARIANCE / post.n_components)) if own_scales and post.n_components else None
    chains = int(np.clip(WIDTH // post.ledger.n_labels, FEWEST_CHAINS, MOST_CHAINS))
    target = Preferences(post, space, chains, spread)
    mixing = sample(target, target.start(post, space, rng), rng, told)
    parts = [np.concatenate(each) for each in zip(*target.kept, strict=True)]
    numbers = sum(each[0].size for each in parts)
    most = min(MOST_DRAWS, KEPT_NUMBERS // numbers)
    rows = np.sort(rng.permutation(len(parts[0]))[:most])
    B, W, variance = (each[rows].astype(np.float64) for each in parts)
    return Draws(space, B, W, variance, mixing)
