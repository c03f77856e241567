"""Everything a fit knows: the items, the users, the scales and one site per label. Plain data, no rules."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from .arrays import FloatArray, IntArray
from .inducing import ItemSpace, ItemView
from .items import Items, KeptStatistics, pair_moments
from .ledger import Ledger
from .reliability import Reliability
from .scales import Scales
from .traits import Traits
from .users import PairMoments, Users, user_step


@dataclass
class Finish:
    """The consensus covariance; whether t was settled with it; where `personal` is true each user's private rest."""

    S_t: FloatArray  # (M, M)
    root: FloatArray  # (M, r): A + S_t = root root^T
    lam: FloatArray  # (P + 1,) sites of the users' own GPs
    tau: FloatArray
    personal: bool = False
    settled: bool = False
    share: float = 1.0  # of the uncertainty of the v_c that personal intervals take for a private rest
    stale: bool = False  # whether labels have come or gone since S_t was formed

    def copy(self) -> Finish:
        """The same finish, independent of this one."""
        return replace(self, S_t=self.S_t.copy(), root=self.root.copy(), lam=self.lam.copy(), tau=self.tau.copy())


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
    traits: Traits | None = None
    reliability: Reliability | None = None
    finish: Finish | None = None
    improper: float = 0.0
    held: FloatArray | None = None  # (M, C + 1) the slope at which the last full iterations came to rest
    kept: KeptStatistics | None = field(default=None, repr=False)  # between updates only, never in the state

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
        """The prior precision of the users' weights around what their traits say: that of the mean variance."""
        total = self.scale_users.mean
        return total if self.traits is None else total / (1.0 / self.traits.precision).mean(axis=0)

    @property
    def own_s_w(self) -> FloatArray:
        """(U, C) the same for each user, or (C,) where traits make no difference between them."""
        total = self.scale_users.mean
        return total if self.traits is None else total * self.traits.precision

    def sharpness(self, rows: IntArray | slice) -> FloatArray | float:
        """How sharply the worker of each of these labels answers; 1 where nobody is judged."""
        if self.reliability is None:
            return 1.0
        return np.append(self.reliability.a[self.ledger.u], 1.0)[rows]

    def refresh_pairs(self) -> None:
        """What the items say of each pair, after the items or their scales moved."""
        self.pairs = pair_moments(self.ledger, self.space, self.items, self.scale_items.mean, self.rest)

    def refresh_users(self) -> None:
        """Every user's weights, exact for the present items and sites."""
        user_step(self.ledger, self.pairs, self.sites, self.own_s_w, self.users, self.moments)

    def copy(self) -> Posterior:
        """An independent copy of all that moves; labels and item space are shared."""
        moving = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "kept"}
        return Posterior(**{name: value if name in SHARED else copied(value) for name, value in moving.items()})


SHARED = ("space", "ledger", "rest", "improper")  # never changed in place


def copied(value: Any) -> Any:
    """An independent copy of one part of a posterior."""
    return None if value is None else value.copy()


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
    space: ItemSpace,
    ledger: Ledger,
    scale_items: Scales,
    scale_users: Scales,
    consensus: bool,
    traits: Traits | None = None,
    rest: FloatArray | None = None,
) -> Posterior:
    """The prior: no site says anything yet."""
    K = len(scale_items.mean)
    cov = np.eye(space.M) / scale_items.mean[:, None, None]
    if not consensus:
        cov[0] = 0.0
    items = Items(np.zeros((space.M, K)), cov, first=0 if consensus else 1)
    users = Users.prior(ledger.n_users, scale_users.mean)
    if rest is None:
        rest = ItemView(space).rest(ledger.pair_a, ledger.pair_b)
    pairs = pair_moments(ledger, space, items, scale_items.mean, rest)
    lam, tau, m, v = (np.zeros(ledger.n_labels + 1) for _ in range(4))
    return Posterior(space, ledger, items, users, scale_items, scale_users, lam, tau, m, v, rest, pairs, traits)
