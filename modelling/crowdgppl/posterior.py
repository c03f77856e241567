"""Everything a fit knows: the items, the users, the scales and one site per label. Plain data, no rules."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .arrays import FloatArray
from .inducing import ItemSpace, ItemView
from .items import Items, pair_moments
from .ledger import Ledger
from .scales import Scales
from .users import PairMoments, Users, user_step


@dataclass
class Posterior:
    """q(t, V, W, s) and the sites that tie it to the labels."""

    space: ItemSpace
    ledger: Ledger
    items: Items
    users: Users
    scale_items: Scales  # (C + 1,): t first
    scale_users: Scales  # (C,)
    lam: FloatArray  # (P + 1,)
    tau: FloatArray
    m: FloatArray  # (P + 1,) moments of z
    v: FloatArray
    rest: FloatArray = field(repr=False)  # (Qn,) variance of each pair that Psi leaves out, for s = 1
    pairs: PairMoments = field(repr=False)
    improper: float = 0.0

    @property
    def n_components(self) -> int:
        return int(self.items.mean.shape[1]) - 1

    @property
    def sites(self) -> tuple[FloatArray, FloatArray]:
        return self.lam, self.tau

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        return self.m, self.v

    @property
    def s_w(self) -> FloatArray:
        """The prior precision of the users' weights."""
        return self.scale_users.mean

    def refresh_pairs(self) -> None:
        """What the items say of each pair, after the items or their scales moved."""
        self.pairs = pair_moments(self.ledger, self.space, self.items, self.scale_items.mean, self.rest)

    def refresh_users(self) -> None:
        """Every user's weights, exact for the present items and sites."""
        user_step(self.ledger, self.pairs, self.sites, self.s_w, self.users, self.moments)

    def copy(self) -> Posterior:
        """An independent copy of all that moves; labels and item space are shared."""
        return Posterior(
            self.space, self.ledger, self.items.copy(), self.users.copy(), self.scale_items.copy(),
            self.scale_users.copy(), self.lam.copy(), self.tau.copy(), self.m.copy(), self.v.copy(), self.rest,
            PairMoments(self.pairs.d.copy(), self.pairs.V.copy()), self.improper,
        )  # fmt: skip


def prior_scales(
    C: int, t_prior: tuple[float, float], v_prior: tuple[float, float], w_prior: tuple[float, float], ard: bool
) -> tuple[Scales, Scales]:
    """The scales of t and the v_c, and of the w_c, before any label."""
    shape = np.concatenate(([t_prior[0]], np.full(C, v_prior[0])))
    rate = np.concatenate(([t_prior[1]], np.full(C, v_prior[1])))
    learned = np.concatenate(([True], np.full(C, ard)))
    w_shape, w_rate = np.full(C, w_prior[0]), np.full(C, w_prior[1])
    return Scales.prior(shape, rate, learned), Scales.prior(w_shape, w_rate, np.full(C, ard))


def blank_posterior(
    space: ItemSpace, ledger: Ledger, scale_items: Scales, scale_users: Scales, consensus: bool
) -> Posterior:
    """The prior: no site says anything yet."""
    K = len(scale_items.mean)
    cov = np.eye(space.M) / scale_items.mean[:, None, None]
    if not consensus:
        cov[0] = 0.0
    items = Items(np.zeros((space.M, K)), cov, first=0 if consensus else 1)
    users = Users.prior(ledger.n_users, scale_users.mean)
    rest = ItemView(space, space.Psi, space.X).rest(ledger.pair_a, ledger.pair_b)
    pairs = pair_moments(ledger, space, items, scale_items.mean, rest)
    lam, tau, m, v = (np.zeros(ledger.n_labels + 1) for _ in range(4))
    return Posterior(space, ledger, items, users, scale_items, scale_users, lam, tau, m, v, rest, pairs)
