"""Assess all workers of a study. Arrays in, numbers out: the updater and the benchmark call the same function.

Careless workers make a crowd look more diverse than it is, and a diverse crowd makes their answers look plausible. So
workers whose answers are hard to predict are left out of a second fit, and everyone is assessed by its results.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr

from modelling.crowdgppl import CrowdGPPL, LabelStore, PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.posterior import Posterior
from modelling.crowdgppl.state import posterior_from_state
from modelling.findings.workers.cross_prediction import Crowd, Evidence, crowd_without, find_evidence
from modelling.findings.workers.hypotheses import Explanation, explain, odds
from modelling.findings.workers.patterns import AnswerSheet, Likeness, Patterns, find_alike, find_patterns
from modelling.training.ranking import ranks

MIN_ANSWERS = 20  # decided answers; fewer are not conclusive
SUSPICIOUS = 0.5  # share of the median evidence per answer; workers below it are left out of the second fit
MAX_REFIT_LABELS = 40_000
MAX_OTHERS = 200  # workers whose preferences a worker may share
SHARP, NOISELESS = 3.0, 2.0  # sharpness of answers without noise, and the log evidence for it that counts as a sign
AUTOMATED = 2  # signs that together make answers look automated
MAX_ALIKE_WORKERS = 2000  # with more, workers are not compared with each other


@dataclass(frozen=True)
class WorkerFacts:
    """One worker's probabilities of being careless, different or ordinary, and the counts behind them."""

    worker: int
    n: int  # decided answers that were assessed
    careless: float
    different: float
    ordinary: float
    predicted: int  # answers that the worker's other answers predict
    agreed: int  # answers that the consensus of the others predicts
    since: int  # index of the answer at which carelessness most likely begins
    patterns: Patterns
    sharpness_gain: float  # log evidence of answers without noise against the noise of the crowd
    like: int | None = None  # the worker whose answers to the same pairs are more alike than the model expects
    shared: int = 0  # pairs that both answered
    same: int = 0  # those of them with the same answer
    moved: int = 0  # items whose rank the exclusion of the worker would change
    largest_move: tuple[int, int, int] | None = None  # item, rank with and without the worker

    @property
    def automation_signs(self) -> list[str]:
        """Signs that people rarely show; AUTOMATED or more of them make the answers look automated."""
        signs = {
            "noiseless": self.sharpness_gain >= NOISELESS,
            "fast": 2 * self.patterns.too_fast > max(self.patterns.timed, MIN_ANSWERS),
            "alike": self.like is not None,
        }
        return [name for name, found in signs.items() if found]

    @property
    def looks_automated(self) -> bool:
        return len(self.automation_signs) >= AUTOMATED


@dataclass(frozen=True, eq=False)
class WorkerEvidence:
    """A worker's decided answers, the other workers' predictions of them, and the evidence for tastes of their own."""

    sheet: AnswerSheet
    crowd: Crowd
    personal: Evidence


def assess_workers(model: CrowdGPPL, sheet: AnswerSheet, ranked: IntArray) -> list[WorkerFacts]:
    """Assess every worker with enough decided answers, given the model that was fitted to all of them."""
    decided = np.bincount(sheet.u[sheet.y != 0.5], minlength=model.n_users_)
    workers = np.flatnonzero(decided >= MIN_ANSWERS)
    if not len(workers):
        return []
    post = clean = posterior_from_state(model.to_state())
    reference, by_worker = model, dict(gather_evidence(post, model.store, sheet, workers))
    trusted = trusted_workers(by_worker)
    if len(trusted) < len(by_worker) and len(sheet.u) <= MAX_REFIT_LABELS:
        reference = refit(model, sheet, np.setdiff1d(workers, trusted))
        clean = posterior_from_state(reference.to_state())
        by_worker = dict(gather_evidence(clean, reference.store, sheet, workers))
    others = trusted[np.linspace(0, len(trusted) - 1, min(len(trusted), MAX_OTHERS)).astype(np.int64)]
    F = reference.predict_utilities(users=others)
    found = [explain_answers(clean, evidence, F[:, others != worker]) for worker, evidence in by_worker.items()]
    chances = odds(found)
    alike, lists = alike_workers(by_worker, model.n_items_), linked_lists(sheet, ranked, model.n_items_)
    return [
        describe(post, model.store, worker, evidence, chance, each.since, alike.get(worker), lists)
        for (worker, evidence), chance, each in zip(by_worker.items(), chances, found, strict=True)
    ]


def gather_evidence(
    post: Posterior, store: LabelStore, sheet: AnswerSheet, workers: IntArray
) -> Iterator[tuple[int, WorkerEvidence]]:
    counts = store.count_labels(workers)
    for worker, known in zip(workers.tolist(), counts.tolist(), strict=True):
        own = sheet.of(worker)
        sites = store.load(np.array([worker])) if known else None
        crowd = crowd_without(post, own.a, own.b, worker, sites)
        yield worker, WorkerEvidence(own, crowd, find_evidence(crowd.personal, own.y, post.response.margin))


def trusted_workers(by_worker: dict[int, WorkerEvidence]) -> IntArray:
    """The workers whose answers are about as predictable as the median worker's; all if those are no clear majority."""
    workers = np.array(list(by_worker))
    each = np.array([evidence.personal.total / len(evidence.sheet.y) for evidence in by_worker.values()])
    trusted = workers[each >= SUSPICIOUS * np.median(each)]
    return trusted if np.median(each) > 0.0 and 2 * len(trusted) > len(workers) else workers


def explain_answers(post: Posterior, evidence: WorkerEvidence, F: FloatArray) -> Explanation:
    """Compare the hypotheses about a worker's answers; F holds the utilities of other workers."""
    sheet, sign = evidence.sheet, 2.0 * evidence.sheet.y - 1.0
    consensus = sign * evidence.crowd.consensus.mean / np.sqrt(1.0 + np.diagonal(evidence.crowd.consensus.K))
    others = sign[:, None] * (F[sheet.a] - F[sheet.b])
    alone = find_evidence(evidence.crowd.alone, sheet.y, post.response.margin)
    patterns = find_patterns(sheet)
    return explain(consensus, others, alone.total, sheet.left, patterns.too_fast, patterns.timed)


def alike_workers(by_worker: dict[int, WorkerEvidence], n_items: int) -> dict[int, Likeness]:
    if len(by_worker) > MAX_ALIKE_WORKERS:
        return {}
    tendency = {}
    for worker, evidence in by_worker.items():
        own = evidence.personal
        tendency[worker] = 2.0 * ndtr(own.mean / np.sqrt(1.0 + own.variance)) - 1.0
    return find_alike({worker: evidence.sheet for worker, evidence in by_worker.items()}, tendency, n_items)


def refit(model: CrowdGPPL, sheet: AnswerSheet, left_out: IntArray) -> CrowdGPPL:
    """Fit the same model without the labels of some workers."""
    keep = ~np.isin(sheet.u, left_out)
    labels = PairwiseLabels(sheet.u[keep], sheet.a[keep], sheet.b[keep], sheet.y[keep])
    again = CrowdGPPL(n_components=model.n_components, item_kernel=model.item_kernel, random_state=model.random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return again.fit(labels, X_items=model.X_items_, n_items=model.n_items_, n_users=model.n_users_)


def describe(
    post: Posterior,
    store: LabelStore,
    worker: int,
    evidence: WorkerEvidence,
    chance: FloatArray,
    since: int,
    alike: Likeness | None,
    lists: list[IntArray],
) -> WorkerFacts:
    sheet, sign, own = evidence.sheet, np.sign(evidence.sheet.y - 0.5), evidence.personal
    sharp = find_evidence(evidence.crowd.personal.sharpened(SHARP), sheet.y, post.response.margin)
    moved, largest = rank_changes(post, store, worker, lists)
    careless, different, ordinary = (float(each) for each in chance)
    return WorkerFacts(
        worker=worker, n=len(sheet.y), careless=careless, different=different, ordinary=ordinary,
        predicted=int((np.sign(own.mean) == sign).sum()),
        agreed=int((np.sign(evidence.crowd.consensus.mean) == sign).sum()), since=since, patterns=find_patterns(sheet),
        sharpness_gain=sharp.total - own.total, like=alike.other if alike else None,
        shared=alike.shared if alike else 0, same=alike.same if alike else 0, moved=moved, largest_move=largest,
    )  # fmt: skip


def linked_lists(sheet: AnswerSheet, ranked: IntArray, n_items: int) -> list[IntArray]:
    """Lists of two or more ranked items linked by judgements; ranks cannot be compared between lists."""
    links = coo_matrix((np.ones(len(sheet.a)), (sheet.a, sheet.b)), shape=(n_items, n_items))
    parts = connected_components(links, directed=False)[1][ranked]
    lists = [ranked[parts == part] for part in np.unique(parts)]
    return [each for each in lists if len(each) > 1]


def rank_changes(
    post: Posterior, store: LabelStore, worker: int, lists: list[IntArray]
) -> tuple[int, tuple[int, int, int] | None]:
    """How many consensus ranks change if a worker is left out, and the largest change; all else stays the same.

    Ranks are within each of the lists.
    """
    if not lists:
        return 0, None
    none = np.zeros(0, dtype=np.int64)
    scores = crowd_without(post, none, none, worker, store.load(np.array([worker]))).scores
    items = np.concatenate(lists)
    before, after = (np.concatenate([ranks(values[None, each])[0] for each in lists]) for values in (post.t, scores))
    change = np.abs(after - before)
    if not change.any():
        return 0, None
    at = int(change.argmax())
    return int((change > 0).sum()), (int(items[at]), int(before[at]), int(after[at]))
