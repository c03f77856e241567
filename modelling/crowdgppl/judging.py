"""Which workers answer at random: whether models that have not seen an answer foretell it.

Somebody who dissents is consistent with themselves: their other answers, through the personal part, foretell each one.
Nothing foretells a coin. A model that has learned from an answer is no judge of it: it makes room for a coin's taste.
See test_a_model_that_has_learned_from_a_coin_finds_it_consistent.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .arrays import FloatArray, IntArray
from .choice import predictor_of
from .finish import finished, personal_covariance, settle_rest
from .inducing import leading
from .inference import Rules, iterate
from .labels import PairwiseLabels
from .posterior import Finish, Posterior
from .predict import Predictor
from .reliability import Reliability, answers_foretold
from .rest import RestPredictor
from .streaming import without_labels

FOLDS = 4
WARM_ITERATIONS = 5  # of a warm copy without a fold


def at_their_word(post: Posterior, rules: Rules, users: IntArray | None = None) -> Predictor:
    """Predictions for these users (all by default) in which each has learned fully from their own answers.

    Items are as they are, learned from everybody as far as they count. But somebody once taken for a coin would be
    foretold without their own answers, and never be found consistent again. See
    test_who_was_taken_for_a_coin_is_judged_anew.
    """
    S_t = np.zeros((post.space.M, post.space.M)) if post.finish is None else post.finish.S_t
    directions, root = leading(personal_covariance(post) + S_t, post.space.M)
    finish = Finish(S_t, directions * root, post.lam.copy(), post.tau.copy(), personal=True)
    everybody_sharp = replace(post, reliability=None)
    settle_rest(everybody_sharp, finish, rules, users)
    plain = predictor_of(post)
    parts = (plain.view, plain.items, plain.s, plain.W, plain.Omega, plain.s_w, S_t)
    return RestPredictor(*parts, everybody_sharp, finish)


def foretell(post: Posterior, labels: PairwiseLabels, rules: Rules) -> FloatArray:
    """(n, K) the log probability of each of these answers at each sharpness, by a posterior that does not know them."""
    m, v = at_their_word(post, rules, np.unique(labels.u)).moments(labels.u, labels.a, labels.b)
    return answers_foretold(m, v, labels.y, labels.weights)


def foretell_new(post: Posterior, labels: PairwiseLabels, rules: Rules) -> None:
    """What was foretold of labels that are about to be learned joins that of the labels before them."""
    if post.reliability is None:
        return
    roomy = replace(post.ledger, n_users=len(post.users.W), n_items=post.space.n_items)
    told = foretell(replace(post, ledger=roomy), labels, rules)
    post.reliability.foretold = np.vstack((post.reliability.foretold, told))


def judge_everybody(post: Posterior, rules: Rules, rng: np.random.Generator) -> None:
    """The sharpness of all workers and what the crowd is like, each answer foretold by a copy that let go of it."""
    judged, labels = Reliability.prior(len(post.users.W), post.ledger.n_labels), post.ledger.labels
    fold = deal_labels(labels.u, rng)
    for held in range(FOLDS):
        rows = np.flatnonzero(fold == held)
        if 0 < len(rows) < len(labels):
            judged.foretold[rows] = foretell(warm_copy(post, rows, rules), labels.take(rows), rules)
    judged.learn_crowd(labels.u)
    judged.learn(labels.u, np.arange(len(judged.a)))
    post.reliability = judged


def deal_labels(u: IntArray, rng: np.random.Generator) -> IntArray:
    """The fold of each label, each user's labels spread evenly over the folds."""
    order = rng.permutation(len(u))
    order = order[np.argsort(u[order], kind="stable")]
    fold = np.empty(len(u), dtype=np.int64)
    fold[order] = np.arange(len(u)) % FOLDS
    return fold


def warm_copy(post: Posterior, held: IntArray, rules: Rules) -> Posterior:
    """A copy that has let go of these labels: a few full iterations without them."""
    copy = post.copy()
    without_labels(copy, held)
    for _ in range(WARM_ITERATIONS):
        iterate(copy, rules)
    copy.refresh_users()
    copy.finish = finished(copy, rules, personal=False)
    return copy
