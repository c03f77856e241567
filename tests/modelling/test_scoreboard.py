"""Predict, then learn: what the scoreboard says can be worked out again from the log and the stored arrays."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit, ndtr

from annotation import ledger, services
from annotation.models import Judgement, Project, Worker
from annotation.services import Receipt
from modelling import arrays, updating
from modelling.inputs import moment_of, read_news
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.scoreboard import Sums, by_version, foretell, score, totals

ATOL = 1e-9  # the promise: sums of some dozens of labels, worked out by another route


def test_a_sure_and_right_prediction_costs_nothing_and_a_sure_and_wrong_one_a_finite_sum() -> None:
    right, wrong = score(np.array([1.0]), np.array([1.0])), score(np.array([1.0]), np.array([0.0]))
    assert (right.correct, wrong.correct) == (1, 0)
    assert right.log_loss == pytest.approx(0.0, abs=1e-11)
    assert wrong.log_loss == pytest.approx(-math.log(1e-12), rel=1e-3)
    assert (right.brier, wrong.brier) == (pytest.approx(0.0, abs=1e-11), pytest.approx(1.0))


def test_half_is_never_right_and_a_tie_is_never_decided() -> None:
    assert score(np.array([0.5, 0.5]), np.array([1.0, 0.0])).correct == 0
    tie = score(np.array([0.7]), np.array([0.5]))
    assert (tie.labels, tie.decided, tie.correct) == (1, 0, 0)
    assert tie.log_loss == pytest.approx(-0.5 * (math.log(0.7) + math.log(0.3)))
    assert tie.accuracy is None


def test_calibration_is_kept_by_tenths_and_sums_add_up() -> None:
    p, y = np.array([0.05, 0.31, 0.39, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    whole, parts = score(p, y), score(p[:2], y[:2]) + score(p[2:], y[2:])
    assert [tenth[0] for tenth in whole.calibration] == [1, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    assert whole.calibration[3][1:] == (pytest.approx(0.70), pytest.approx(1.0))
    assert parts.log_loss == pytest.approx(whole.log_loss)
    assert [tenth[0] for tenth in parts.calibration] == [tenth[0] for tenth in whole.calibration]


@pytest.fixture
def history(project: Project, judge: Callable[..., Receipt]) -> Project:
    """Five versions: a refit, steps with a newcomer, an undo and a skip, a refit, and a step."""
    Project.objects.update(redundancy=100)
    project.refresh_from_db()
    workers = [services.enrol(project=project) for _ in range(13)]
    for number, worker in enumerate(workers[:12]):
        for turn in range(5):
            judge(worker, ("left", "right", "tie")[(number + turn) % 3])
    updating.run_one("one")
    for worker in workers[8:]:
        judge(worker, "left")
    updating.run_one("one")
    taken_back = judge(workers[0], "right").judgement
    judge(workers[1], "skip")
    judge(workers[2], "tie")
    services.retract(worker=workers[0], judgement=taken_back.uuid, uuid=taken_back.uuid)
    updating.run_one("one")
    judge(workers[12], "right")
    ledger.raise_inputs_revision(project.pk)
    updating.run_one("one")
    judge(workers[12], "left")
    updating.run_one("one")
    return project


def labels_between(parent: ModelSnapshot, snapshot: ModelSnapshot) -> list[Judgement]:
    """What a version learned that its parent had not seen, straight from the rows."""
    came = Judgement.objects.filter(sequence__gt=parent.last_sequence, sequence__lte=snapshot.last_sequence)
    gone = {j.pk for j in came if hasattr(j, "retraction") and j.retraction.sequence <= snapshot.last_sequence}
    return [j for j in came.order_by("sequence") if j.choice != "skip" and j.pk not in gone]


def by_hand(parent: ModelSnapshot, judgement: Judgement) -> dict[str, float]:
    """The four probabilities from the parent's stored arrays, by the formulas of the paper, in plain numpy."""
    stored = arrays.load(parent.project, parent.checksum)
    place = {pk: n for n, pk in enumerate(stored["item_ids"].tolist())}
    a, b = place[judgement.item_lo_id], place[judgement.item_hi_id]
    worker = {pk: n for n, pk in enumerate(stored["worker_ids"].tolist())}.get(judgement.worker_id)
    return {
        "personal": gaussian(stored, "model.", a, b, worker),
        "consensus": gaussian(stored, "model.", a, b, None, typical=True),
        "gppl": gaussian(stored, "gppl.", a, b, None, typical=True),
        "bradley_terry": bradley_terry(stored, a, b),
    }


def gaussian(stored: arrays.Arrays, part: str, a: int, b: int, worker: int | None, typical: bool = False) -> float:
    """P(z > 0) with z = f(a) - f(b) + noise."""
    model = {name.removeprefix(part): value for name, value in stored.items() if name.startswith(part)}
    mean, cov, Psi = model["items_mean"], model["items_cov"], model["Psi"]
    x = Psi[a] - Psi[b]
    s = model["scale_items_shape"] / model["scale_items_rate"]
    rest = max(left_out(part, stored, a, b), 0.0)
    S_0 = model["finish_S_t"] if typical and "finish_S_t" in model else cov[0]
    m, v = x @ mean[:, 0], x @ S_0 @ x + rest / s[0]
    if not typical:
        C = mean.shape[1] - 1
        s_w = model["scale_users_shape"] / model["scale_users_rate"]
        w = np.zeros(C) if worker is None else model["users_W"][worker]
        Omega = np.diag(1.0 / s_w) if worker is None else model["users_Omega"][worker]
        d = x @ mean[:, 1:]
        V = np.array([x @ cov[c] @ x + rest / s[c] for c in range(1, C + 1)])
        m, v = m + d @ w, v + V @ (w**2 + np.diag(Omega)) + d @ Omega @ d
    return float(ndtr(m / np.sqrt(1.0 + v)))


def left_out(part: str, stored: arrays.Arrays, a: int, b: int) -> float:
    """What the inducing directions leave out of the variance of a difference."""
    from modelling.crowdgppl.state import kernel_from_words

    kernel, X = kernel_from_words(stored[f"{part}space_kernel"]), stored[f"{part}X_items"]
    k = kernel(X[[a, b]])
    x = stored[f"{part}Psi"][a] - stored[f"{part}Psi"][b]
    return float(k[0, 0] + k[1, 1] - 2 * k[0, 1] - x @ x)


def bradley_terry(stored: arrays.Arrays, a: int, b: int) -> float:
    """The maximum of the posterior found by scipy, not by our Newton steps."""
    scores, cov = fitted_scores(stored)
    v = cov[a, a] + cov[b, b] - 2 * cov[a, b]
    return float(expit((scores[a] - scores[b]) / np.sqrt(1.0 + np.pi * v / 8.0)))


def fitted_scores(stored: arrays.Arrays) -> tuple[np.ndarray, np.ndarray]:
    from scipy.optimize import root

    A, B, Y = stored["model.a"], stored["model.b"], stored["model.y"]
    n = len(stored["item_ids"])
    prior = np.append(np.ones(n), 0.1)

    def chances(theta: np.ndarray) -> np.ndarray:
        strength = np.exp(np.column_stack([theta[A], theta[B], theta[-1] + (theta[A] + theta[B]) / 2]))
        return strength / strength.sum(axis=1, keepdims=True)

    def slope(theta: np.ndarray) -> np.ndarray:
        seen = np.column_stack([Y == 1.0, Y == 0.0, Y == 0.5]).astype(float)
        gap = seen - chances(theta)
        out = -prior * theta
        np.add.at(out, A, gap[:, 0] + gap[:, 2] / 2)
        np.add.at(out, B, gap[:, 1] + gap[:, 2] / 2)
        out[-1] += gap[:, 2].sum()
        return out

    theta = root(slope, np.zeros(n + 1), tol=1e-13).x
    H = np.diag(prior)
    for i, j, p in zip(A, B, chances(theta), strict=True):
        rows = np.zeros((3, n + 1))  # the three strengths by (scores, tie rate)
        rows[0, i] = rows[1, j] = rows[2, -1] = 1.0
        rows[2, [i, j]] = 0.5
        H += rows.T @ (np.diag(p) - np.outer(p, p)) @ rows
    return theta[:-1], np.linalg.inv(H)[:-1, :-1]


def test_the_scoreboard_equals_an_offline_recomputation_from_the_log(history: Project) -> None:
    versions = list(ModelSnapshot.objects.order_by("number"))
    assert [version.kind for version in versions] == ["refit", "step", "step", "refit", "step"]
    for parent, snapshot in pairwise(versions):
        judgements = labels_between(parent, snapshot)
        y = np.array([{"lo": 1.0, "hi": 0.0, "tie": 0.5}[j.choice] for j in judgements])
        foretold = [by_hand(parent, judgement) for judgement in judgements]
        for entry in snapshot.scoreboard.all():
            p = np.array([each[entry.method] for each in foretold])
            assert (entry.labels, entry.decided) == (len(y), int((y != 0.5).sum()))
            assert entry.log_loss == pytest.approx(-(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(), abs=ATOL)
            assert entry.brier == pytest.approx(((p - y) ** 2).sum(), abs=ATOL)
            assert entry.correct == int(((p > 0.5) & (y == 1)).sum() + ((p < 0.5) & (y == 0)).sum())
            assert sum(tenth[0] for tenth in entry.calibration) == len(y)
    assert ScoreboardEntry.objects.count() == 4 * 4


def test_totals_run_over_the_versions(history: Project) -> None:
    running = by_version(history)
    assert [number for number, _ in running] == [2, 3, 4, 5]
    assert running[-1][1] == totals(history)
    assert totals(history, upto=2)["personal"] == running[0][1]["personal"]
    whole = totals(history)["consensus"]
    assert whole.labels == 5 + 1 + 1 + 1
    assert 0.0 <= whole.accuracy <= 1.0
    assert whole.mean_log_loss > 0.0 < whole.mean_brier


def test_before_the_second_version_there_is_nothing_to_tell(project: Project, worker: Worker, judge) -> None:
    judge(worker)
    updating.run_one("one")
    assert totals(project) == {}
    assert by_version(project) == []
    assert Sums().mean_log_loss is None


def test_an_updater_that_was_restarted_foretells_the_same(history: Project, judge) -> None:
    """Bradley-Terry is not stored: it is worked out again from the labels."""
    parent = ModelSnapshot.objects.latest()
    judge(Worker.objects.first(), "left")
    foretold = []
    for _ in range(2):  # the first time from memory, then from the arrays
        learner = updating.recall(parent)
        news = read_news(parent, moment_of(history), learner.fitted.item_ids, learner.fitted.worker_ids)
        foretold.append(foretell(learner.fitted, learner.rivals, news))
    for method, sums in foretold[0].items():
        assert foretold[1][method].log_loss == pytest.approx(sums.log_loss, abs=ATOL)
