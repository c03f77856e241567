"""Stochastic variational inference with users as local variables (al:crowdgppl with W integrated out).

The loop visits batches of users. The local step is exact (`users.py`); the global step moves t, A and the scales along
natural gradients with rho_i = (i + delay)^-forgetting_rate. One batch of all users has rho = 1: coordinate ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray
from .components import (
    Axes,
    add_spread,
    choose_directions,
    principal_axes,
    recount_components,
    refresh_directions,
    shared_excess,
    step_A,
)
from .hyperparameters import (
    MAX_STEP,
    MIN_TAU,
    Secant,
    scale_information,
    set_scale_sd,
    start_response,
    step_consensus,
    step_response,
    step_scales,
)
from .labels import LabelStore, UserBatch, batches_of_users, chunks_of_users
from .likelihood import cavity, matched_site
from .posterior import Posterior
from .reliability import learn_sharpness, update_sharpness
from .shards import Executor, LocalExecutor, Shard, ShardedVisit, without_users
from .users import FIRST_PRECISION, SAMPLED_USERS, Statistics, Visit

MIN_USERS = 3  # with fewer users no components are fitted
REFRESHES, REFRESHES_OF_MANY_ITEMS = 6, 3  # number of rotations of the directions
MANY_ITEMS = 1000
SAMPLE_LABELS = 40_000  # mini-batches start from a fit to about this many labels, of at most half of the users
SAMPLE_DOUBT = 0.1  # times the variance of tastes: raises tau before mini-batches, because axes cannot turn towards
# directions without variance, and those of the sample are not those of all users
EPOCHS = 5  # passes over all users in mini-batches
EPOCH_CHANGE = 0.05  # converged: t moves less than this many posterior sds (rms) in an epoch,
EPOCH_GROWTH = 0.05  # and the log of the variance of tastes changes less than this
REPLAY_USERS, REPLAY_LABELS = 20, 4_000  # most random users that an update visits, and most labels of them
REFIT_ITEMS, REFIT_LABELS = 200, 20_000  # an update that visits all users of a study this small continues its fit
REFIT_ITERATIONS, MOVE_PER_GROWTH = 6, 2.5  # of such an update: iterations, largest change of a log scale per growth
UPDATE_STEPS = 4
RELIABILITY_ROUNDS = 1  # refits with the learned reliability; more do not improve the consensus
SETTLING_STEPS = 3  # updates of the sites at the end of a fit
UPDATE_WORK = 1.5e8  # largest sum of cubed block sizes in an update; above it blocks are cut
BLOCK_SIZES = (10**9, 400, 300, 200, 150)  # to the first of these sizes that is small enough
LARGEST_BLOCK = 100  # users with larger blocks are split while A and the scales are learned
FIRST_ITERATIONS, FIRST_OF_MANY, MANY_LABELS = 5, 3, 10_000  # with A = tau K; fewer are enough for many labels
SHARE_ITERATIONS = 25  # with features: at most this many, until their shares are steady
EVIDENCE_EVERY = 4  # iterations between two computations of the evidence
FULL_STEP_ITERATIONS = 2  # the first iterations are not damped


@dataclass
class Options:
    """Settings of the loop."""

    n_components: int = 20
    batch_size: int | None = None  # users in a mini-batch
    batch_labels: int | None = None  # labels in a mini-batch
    forgetting_rate: float = 0.7
    delay: float = 1.0
    max_iterations: int = 60
    tolerance: float = 2e-3  # converged: rms change of standardised z in an iteration, relative to its rms
    local_steps: int = 3  # updates of the sites before a global step, in mini-batches
    damping: float = 0.8
    learn_share: bool = True
    progress: Callable[[dict[str, float]], None] | None = None
    executor: Executor = field(default_factory=LocalExecutor)


@dataclass
class Trace:
    """Diagnostics of a fit."""

    evidence: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    refitted: bool = False  # whether an update continued the fit of a small study


class Inference:
    """The loop over batches of users, and its state between steps."""

    def __init__(self, store: LabelStore, post: Posterior, options: Options, rng: np.random.Generator) -> None:
        self.store, self.post, self.options, self.rng = store, post, options, rng
        self.trace = Trace()
        self.max_iterations = options.max_iterations  # for progress reports
        self.axes: Axes | None = None  # at the last step
        self.max_step = MAX_STEP  # largest change of a log scale in an iteration
        self.stats = Statistics(0.0, 0.0, post.H, post.h)  # sums over users at the last step
        self.restart()

    def restart(self) -> None:
        """Reset the step lengths after the objective has changed."""
        self.secant, self.memory = Secant(), dict[str, FloatArray]()

    def fit(self) -> Trace:
        """Fit all users: in one batch, or in mini-batches after a fit to a sample of users."""
        users = self.store.active_users()
        n_batches = len(self.batches(users))
        if n_batches == 1:
            self.fit_in_one_batch(users, self.options.max_iterations)
        else:
            size, per_user = len(users) / n_batches, max(1.0, float(self.store.count_labels(users).mean()))
            n_sample = int(min(-(-len(users) // 2), max(size, SAMPLE_LABELS / per_user)))
            self.fit_in_one_batch(np.sort(self.rng.choice(users, n_sample, replace=False)), self.options.max_iterations)
            self.fit_in_batches(users, n_sample)
            self.settle_axes()
            self.sum_over_users(users)
        return self.trace

    def batches(self, users: IntArray) -> Sequence[IntArray]:
        """Split these users into the mini-batches of one epoch."""
        options, counts = self.options, self.store.count_labels(users)
        return batches_of_users(users, counts, options.batch_size, options.batch_labels, self.rng)

    def fit_in_one_batch(self, users: IntArray, iterations: int) -> None:
        """Coordinate ascent over one batch: rho = 1. First A = tau K, then A free in the leading directions."""
        post, options, trace = self.post, self.options, self.trace
        batch = self.store.load(users)
        if not trace.n_iter:
            start_response(post, batch)
        visit = Visit(batch, post, LARGEST_BLOCK)
        scale = len(self.store.active_users()) / max(len(users), 1)
        free = post.personal and options.n_components > 0 and len(users) >= MIN_USERS
        z, since, refreshes, first = np.zeros(len(visit.batch)), 0, 0, trace.n_iter
        n_first = FIRST_ITERATIONS if len(batch) <= MANY_LABELS else FIRST_OF_MANY
        allowed = REFRESHES if post.n_items <= MANY_ITEMS else REFRESHES_OF_MANY_ITEMS
        while trace.n_iter - first < iterations:
            damping = 1.0 if since < FULL_STEP_ITERATIONS else None
            before, step = z, self.step(visit, damping=damping)
            z, since = visit.m / np.sqrt(1.0 + visit.v), since + 1
            change = rms(z - before) / max(rms(z), 0.01)
            self.report(change)
            settled = change < options.tolerance and step < 0.1
            steady = change < 0.01 and step < 0.1
            least = n_first if post.prior.K_features is None or steady else SHARE_ITERATIONS
            if free and not post.Psi.shape[1] and since >= least:
                choose_directions(visit, post, options.n_components, self.rng)
                self.restart()
                since = FULL_STEP_ITERATIONS
            elif 0 < post.Psi.shape[1] < post.n_items and refreshes < allowed and since >= FULL_STEP_ITERATIONS + 2:
                self.turn_directions(self.stats, refreshes)
                since, refreshes = FULL_STEP_ITERATIONS, refreshes + 1
            elif settled and since >= 5 and (post.Psi.shape[1] or not free):
                trace.converged = True
                break
        self.finish(visit, scale)

    def fit_in_batches(self, users: IntArray, n_seen: int) -> None:
        """Epochs of natural-gradient steps over mini-batches of users, after a fit to `n_seen` of them.

        From the second epoch on a batch replaces its own part of H and h. A and the scales take one step per epoch, by
        the sums over its batches: steps by single batches would turn the axes of A at random, which shortens them.
        """
        post, options = self.post, self.options
        self.trace.converged = False
        post.raise_floor(SAMPLE_DOUBT * post.taste_variance)
        batches = self.batches(users)
        self.max_iterations = self.trace.n_iter + EPOCHS * len(batches)
        i = int(n_seen * len(batches) / len(users))
        self.restart()
        for epoch in range(EPOCHS):
            t, tastes = post.t, post.taste_variance
            total = Statistics(0.0, 0.0, np.zeros_like(post.H), np.zeros_like(post.h))
            for k in self.rng.permutation(len(batches)):
                batch = self.store.load(batches[k])
                known = epoch > 0 and not batch.new_labels().any()
                visit = ShardedVisit(batch, post, options.executor, LARGEST_BLOCK)
                visit.refresh_sites(post, options.local_steps, options.damping)
                rho = (i + options.delay) ** -options.forgetting_rate
                stats = self.step_t(visit, rho, len(users) / len(batches[k]), known)
                total = total.plus(stats, -(-SAMPLED_USERS // len(batches)))
                step_response(post, visit, rho)
                self.store.save_sites(visit.batch)
                i += 1
                self.report(1.0)
            post.H, post.h = total.H, total.h
            self.solve_t()
            self.step_tastes(total, free=True)
            change = rms((post.t - t) / np.sqrt(np.maximum(np.diagonal(post.S_t), 1e-12)))
            self.report(change)
            growth = abs(np.log(max(post.taste_variance, MIN_TAU) / max(tastes, MIN_TAU)))
            self.trace.converged = bool(change < EPOCH_CHANGE and growth < EPOCH_GROWTH)
            if self.trace.converged or epoch == EPOCHS - 1:
                break
            if 0 < post.Psi.shape[1] < post.n_items:
                self.turn_directions(total, epoch, keep=True)

    def turn_directions(self, stats: Statistics, count: int, keep: bool = False) -> None:
        """Rotate the directions Psi towards the gradient of the evidence; `keep` the memory of step lengths."""
        excess = stats.excess - shared_excess(self.post, stats.n_people)
        R = refresh_directions(self.post, excess, stats.n_users, count)
        self.memory = {name: R @ M @ R.T for name, M in self.memory.items()} if keep else {}

    def step_t(self, visit: Visit | ShardedVisit, rho: float, scale: float, known: bool = False) -> Statistics:
        """Natural-gradient step of q(t); return the statistics of the visit given it.

        If the users of a batch are `known`, H and h hold their part, which is replaced.
        """
        post, trace = self.post, self.trace
        stats = visit.integrate_users(post)  # local step: p_u integrated out, given the sites
        if known and isinstance(visit, ShardedVisit):
            post.H, post.h = post.H + stats.H - visit.before.H, post.h + stats.h - visit.before.h
        else:
            post.H = (1.0 - rho) * post.H + rho * scale * stats.H  # eq:S_stochastic
            post.h = (1.0 - rho) * post.h + rho * scale * stats.h
        self.solve_t()
        visit.find_marginals(post, stats)
        if trace.n_iter % EVIDENCE_EVERY == 0:
            self.record_evidence(visit, scale)
        trace.n_iter += 1
        return stats

    def record_evidence(self, visit: Visit | ShardedVisit, scale: float) -> None:
        """Append the log evidence of all labels, estimated from the users of a visit."""
        self.trace.evidence.append(scale * visit.log_evidence() + self.post.log_evidence_t())

    def step_tastes(self, stats: Statistics, free: bool = False) -> float:
        """Natural-gradient step of A and the scales, given statistics of all users; return the largest change."""
        post = self.post
        axes = None
        if post.Psi.shape[1]:
            stats.gradient_A -= shared_excess(post, stats.n_people, post.Psi)
            axes = principal_axes(post, stats)
        shares = self.options.learn_share and (self.trace.n_iter % 3 == 0 or axes is None)
        step = step_scales(post, stats, axes, self.secant, shares, self.max_step)
        if axes is not None:
            self.axes = principal_axes(post, stats)
            step = max(step, 0.5 * step_A(post, stats, self.axes, self.memory, self.max_step, free))
        return step

    def step(self, visit: Visit, damping: float | None = None) -> float:
        """One iteration over all users in one batch; return the largest relative step of a scale."""
        post, step = self.post, 1.0
        stats = self.stats = self.step_t(visit, rho=1.0, scale=1.0)
        before = visit.prior_variance
        if not len(before):
            before = post.prior_variance(visit.batch.a, visit.batch.b)
        if self.trace.n_iter > 1:
            step = self.step_tastes(stats)
            step_response(post, visit, 1.0)
        visit.prior_variance = post.prior_variance(visit.batch.a, visit.batch.b)
        ratio = visit.prior_variance / np.maximum(before, 1e-12)
        visit.update_sites(self.options.damping if damping is None else damping, ratio)
        return step

    def finish(self, visit: Visit, scale: float) -> None:
        """Recompute q(t) from the final A, scales and sites, without splitting users, and save the sites."""
        post = self.post
        if scale == 1.0:
            self.settle_axes()
        for last in (False,) * SETTLING_STEPS + (True,):
            if last and visit.groups is not visit.batch and post.personal:
                visit = Visit(visit.batch, post)
            stats = visit.integrate_users(post)
            post.H, post.h = scale * stats.H, scale * stats.h
            post.solve_t()
            visit.find_marginals(post)
            if not last:
                visit.update_sites(self.options.damping)
        self.record_evidence(visit, scale)
        set_scale_sd(post, scale * scale_information(visit))
        self.store.save_sites(visit.batch)

    def settle_axes(self) -> None:
        """Count the components of the learned A and allow for the uncertainty of its axes."""
        if self.axes is not None:
            recount_components(self.post, self.axes)
            add_spread(self.post, self.axes.spread)

    def sum_over_users(self, users: IntArray) -> None:
        """Compute H and h over all users exactly at the current A, after one refresh of the sites."""
        post, options = self.post, self.options
        H, h, information = np.zeros_like(post.H), np.zeros_like(post.h), 0.0
        counts = self.store.count_labels(users)
        chunks = chunks_of_users(users, counts, post.n_items)
        shards = (Shard.of(self.store.load(chunk), post) for chunk in chunks)
        shared = options.executor.share(without_users(post))
        parts = options.executor.stream(refresh_users, shards, shared, options.local_steps, options.damping)
        for chunk, (batch, stats, information_of_chunk) in zip(chunks, parts, strict=True):
            H, h, information = H + stats.H, h + stats.h, information + information_of_chunk
            self.store.save_sites(replace(batch, users=chunk))
        post.H, post.h = H, h
        post.solve_t()
        set_scale_sd(post, information)

    def refresh(self) -> None:
        """Bring sites, H and h of all users up to date with changed reliabilities or traits."""
        self.sum_over_users(self.store.active_users())

    def update(self, affected: IntArray, change: Callable[[], None], growth: float, reliability: bool = False) -> Trace:
        """Learn from the labels that `change` adds to and removes from the store, visiting only a few users.

        The users' old contribution is subtracted from H and h and the new one added. A few random users are visited as
        well, so that all sites are refreshed sooner or later. A and tau do not change until the next fit, so the sums
        remain exact. The cost does not depend on the number of labels: of users with large blocks only labels related
        to the new ones are used, and only the new ones get sites.
        """
        post, store = self.post, self.store
        users = np.union1d(affected, self.replay_sample(affected))
        before = store.load(users[users < store.n_users])
        change()
        active, batch = store.active_users(), store.load(users)
        keep, keep_before = self.choose_labels(batch, before)
        old = Visit(before.select(keep_before), post).integrate_users(post)
        whole = keep.all() and len(np.setdiff1d(active, users)) == 0
        if whole and post.n_items <= REFIT_ITEMS and store.count_labels(active).sum() <= REFIT_LABELS:
            return self.refit(users, growth, reliability)
        base_H, base_h = (0.0 * post.H, 0.0 * post.h) if whole else (post.H - old.H, post.h - old.h)
        seen = batch.select(keep)
        held = np.repeat(seen.counts < batch.counts, seen.counts) & ~seen.new_labels()
        visit = Visit(seen, post)
        stats = self.settle(visit, base_H, base_h, min(0.5, 10.0 * growth), held)
        if reliability and update_sharpness(post, visit.batch):
            visit = Visit(visit.batch, post)
            stats = self.settle(visit, base_H, base_h, held=held)
        batch.lam[keep], batch.eta[keep] = visit.batch.lam, visit.batch.eta
        scale = len(active) / max(stats.n_users, 1)
        self.record_evidence(visit, scale)
        self.trace.n_iter, self.trace.converged = UPDATE_STEPS, True
        store.save_sites(batch)
        return self.trace

    def choose_labels(self, batch: UserBatch, before: UserBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Mark the labels that an update uses, after and before the change: all labels of users with retractions."""
        new, N = batch.new_labels(), self.post.n_items
        ends = zip(batch.start[:-1], batch.start[1:], strict=True)
        rows = [first + np.flatnonzero(new[first:last]) for first, last in ends]
        blocks = np.minimum(batch.counts, N).astype(np.float64)
        size = next((s for s in BLOCK_SIZES if (np.minimum(blocks, s) ** 3).sum() <= UPDATE_WORK), LARGEST_BLOCK)
        keep = batch.related_labels([(batch.a[each], batch.b[each]) for each in rows], N, size)
        keep_before = np.ones(len(before), dtype=bool)
        for user, each in enumerate(rows[: len(before.users)]):
            known, first = int(before.counts[user]), batch.start[user]
            last = batch.start[user + 1]
            if last - first == known + len(each):  # new labels follow the known ones
                keep_before[before.start[user] : before.start[user + 1]] = keep[first : first + known]
            else:
                keep[first:last] = True
        return keep, keep_before

    def replay_sample(self, affected: IntArray) -> IntArray:
        """Sample a few other users, with few labels in total, to visit as well."""
        others = np.setdiff1d(self.store.active_users(), affected)
        others = others[np.minimum(self.store.count_labels(others), self.post.n_items) <= LARGEST_BLOCK]
        chosen = self.rng.choice(others, min(REPLAY_USERS, len(others)), replace=False)
        return np.asarray(chosen[np.cumsum(self.store.count_labels(chosen)) <= REPLAY_LABELS])

    def settle(
        self, visit: Visit, base_H: FloatArray, base_h: FloatArray, rho: float = 0.0,
        held: npt.NDArray[np.bool_] | None = None,
    ) -> Statistics:  # fmt: skip
        """Iterate the sites and t a few times, then step v_t.

        `base_H` and `base_h` are the sums over users not visited; the sites of the labels `held` stay fixed.
        """
        post, lam, eta = self.post, visit.batch.lam, visit.batch.eta
        for last in (False,) * UPDATE_STEPS + (True,):
            stats = visit.integrate_users(post)
            post.H, post.h = base_H + stats.H, base_h + stats.h
            if last and rho and post.consensus:
                step_consensus(post, self.secant, shares=False, rho=rho)
            self.solve_t()
            if not last:
                visit.find_marginals(post)
                visit.update_sites(self.options.damping)
                if held is not None:
                    visit.batch.lam = np.where(held, lam, visit.batch.lam)
                    visit.batch.eta = np.where(held, eta, visit.batch.eta)
        if len(visit.batch.users) >= MIN_USERS:
            visit.find_marginals(post, stats)
        return stats

    def absorb(self, batch: UserBatch) -> Trace:
        """Learn from labels that are not stored (models without components only): their sites stay in H and h.

        The sites are found in the space of these labels alone, where q(t) is their prior.
        """
        post, n = self.post, len(batch)
        self.trace.n_iter, self.trace.converged = UPDATE_STEPS, True
        if n > post.n_items:
            self.settle(Visit(batch, post), post.H, post.h)
            return self.trace
        X = np.zeros((n, post.n_items))
        X[np.arange(n), batch.a], X[np.arange(n), batch.b] = 1.0, -1.0
        m, Y = X @ post.t, X @ post.S_t @ X.T
        lam, eta = np.full(n, FIRST_PRECISION), np.zeros(n)
        for step in range(UPDATE_STEPS):
            R = np.linalg.inv(np.eye(n) + Y * lam)
            site_m, site_v = cavity(R @ (m + Y @ eta), np.diagonal(R @ Y), lam, eta)
            new_lam, new_eta = matched_site(site_m, site_v, batch.y, batch.weight, response=post.response)
            damping = self.options.damping if step else 1.0
            lam, eta = lam + damping * (new_lam - lam), eta + damping * (new_eta - eta)
        H = (X.T * lam) @ X
        post.H, post.h = post.H + 0.5 * (H + H.T), post.h + X.T @ eta
        self.solve_t()
        return self.trace

    def refit(self, users: IntArray, growth: float, reliability: bool) -> Trace:
        """Continue the fit of a small study with all its labels: a few iterations from the current A and scales.

        Their logs move by at most MOVE_PER_GROWTH times the relative growth of the labels, so that versions of a small
        study do not jump between explanations that the labels support about equally.
        """
        post, trace = self.post, self.trace
        trace.refitted = True
        if not post.Psi.shape[1]:
            self.fit_in_one_batch(users, self.options.max_iterations)
        else:
            post.remove_spread()
            visit = Visit(self.store.load(users), post, LARGEST_BLOCK)
            self.max_step = MOVE_PER_GROWTH * growth / REFIT_ITERATIONS
            for i in range(REFIT_ITERATIONS):
                self.step(visit)
                if i == 0 and post.Psi.shape[1] < post.n_items:
                    self.turn_directions(self.stats, REFRESHES)
            trace.converged = True
            self.finish(visit, 1.0)
        if reliability:
            self.learn_reliability()
        return trace

    def learn_reliability(self) -> None:
        """Learn each user's sharpness, then the scales and A again: random answers no longer look like tastes."""
        for _ in range(RELIABILITY_ROUNDS):
            if not learn_sharpness(self.post, self.store, self.options.executor):
                return
            self.post.forget_tastes()
            self.restart()
            self.fit()
        if learn_sharpness(self.post, self.store, self.options.executor):
            self.refresh()

    def solve_t(self) -> None:
        """Compute q(t) from the running sums, which are recomputed if rounding has made them indefinite."""
        try:
            self.post.solve_t()
        except np.linalg.LinAlgError:
            self.sum_over_users(self.store.active_users())

    def report(self, change: float) -> None:
        """Report the progress of the fit."""
        if self.options.progress is None:
            return
        post = self.post
        self.options.progress(
            {
                "iteration": self.trace.n_iter, "most": self.max_iterations, "evidence": self.trace.evidence[-1],
                "change": change, "tau": post.tau, "v_t": post.v_t, "share": post.prior.share,
                "taste_share": post.taste_prior.share,
                "components": post.n_supported,
            }
        )  # fmt: skip


def refresh_users(shard: Shard, post: Posterior, new_steps: int, damping: float) -> tuple[UserBatch, Statistics, float]:
    """Refresh the sites of these users; return the sites, H, h and the information about the common scale."""
    visit = shard.visit(post)
    visit.refresh_sites(post, new_steps if shard.batch.new_labels().any() else 1, damping)
    information = scale_information(visit)
    return visit.batch, visit.integrate_users(post), information


def rms(x: FloatArray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(x)))) if len(x) else 0.0
