"""The scoreboard can be recomputed from the log and the stored arrays."""

import json
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit, ndtr

from annotation import services
from annotation.models import Judgement, Project, Worker
from annotation.services import Receipt
from annotation.storage import event_log
from modelling.baselines import ThurstoneMosteller
from modelling.crowdgppl.kernels import kernel_from_state
from modelling.crowdgppl.posterior import MEAN_VARIANCE
from modelling.dashboards.model.scoreboard import scoreboard as scoreboard_page
from modelling.models import ModelSnapshot, ScoreboardEntry, WorkerPosterior
from modelling.training.evaluation import scoreboard
from modelling.training.evaluation.scoreboard import (
    MetricSums,
    running_totals,
    score_predictions,
    scoreboard_totals,
    sum_metrics,
)
from modelling.training.inputs import get_read_point, read_delta
from modelling.training.settings import METHOD_LABELS
from modelling.training.storage import array_store
from modelling.training.storage.label_store import RECORD
from modelling.updater import update
from tests.modelling.samples.histories import make_crowd

ATOL = 1e-9  # sums over some dozens of labels, computed independently


def test_certain_predictions_cost_nothing_if_right_and_a_finite_sum_if_wrong() -> None:
    right, wrong = sum_metrics(np.array([1.0]), np.array([1.0])), sum_metrics(np.array([1.0]), np.array([0.0]))
    assert (right.correct, wrong.correct) == (1, 0)
    assert right.log_loss == pytest.approx(0.0, abs=1e-11)
    assert wrong.log_loss == pytest.approx(-math.log(1e-12), rel=1e-3)
    assert (right.brier, wrong.brier) == (pytest.approx(0.0, abs=1e-11), pytest.approx(1.0))


def test_one_half_is_never_correct_and_ties_are_not_decided() -> None:
    assert sum_metrics(np.array([0.5, 0.5]), np.array([1.0, 0.0])).correct == 0
    tie = sum_metrics(np.array([0.7]), np.array([0.5]))
    assert (tie.labels, tie.decided, tie.correct) == (1, 0, 0)
    assert tie.log_loss == pytest.approx(-0.5 * (math.log(0.7) + math.log(0.3)))
    assert tie.accuracy is None


def test_calibration_has_ten_bins_and_sums_can_be_added() -> None:
    p, y = np.array([0.05, 0.31, 0.39, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    whole, parts = sum_metrics(p, y), sum_metrics(p[:2], y[:2]) + sum_metrics(p[2:], y[2:])
    assert [bin[0] for bin in whole.calibration] == [1, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    assert whole.calibration[3][1:] == (pytest.approx(0.70), pytest.approx(1.0))
    assert parts.log_loss == pytest.approx(whole.log_loss)
    assert [bin[0] for bin in parts.calibration] == [bin[0] for bin in whole.calibration]


@pytest.fixture
def history(project: Project, judge: Callable[..., Receipt]) -> Project:
    """Five versions: a refit, steps with a new worker, an undo and a skip, a refit, and a step."""
    workers = [*make_crowd(project, judge, workers=12), services.enrol(project=project)]
    update.update_one("one")
    for worker in workers[8:]:
        judge(worker, "left")
    update.update_one("one")
    retracted = judge(workers[0], "right").judgement
    judge(workers[1], "skip")
    judge(workers[2], "tie")
    services.retract(worker=workers[0], judgement=retracted.uuid, uuid=retracted.uuid)
    update.update_one("one")
    judge(workers[12], "right")
    event_log.raise_inputs_revision(project.pk)
    update.update_one("one")
    judge(workers[12], "left")
    update.update_one("one")
    return project


def labels_between(parent: ModelSnapshot, snapshot: ModelSnapshot) -> list[Judgement]:
    """The labels of a version that its parent did not have, from the rows."""
    new = Judgement.objects.filter(sequence__gt=parent.last_sequence, sequence__lte=snapshot.last_sequence)
    retracted = {j.pk for j in new if hasattr(j, "retraction") and j.retraction.sequence <= snapshot.last_sequence}
    return [j for j in new.order_by("sequence") if j.choice != "skip" and j.pk not in retracted]


def predict_independently(parent: ModelSnapshot, judgement: Judgement) -> dict[str, float]:
    """The four probabilities from the parent's stored arrays, by the formulas of the paper, in plain numpy."""
    stored = array_store.load(parent.project, parent.checksum)
    position = {pk: n for n, pk in enumerate(stored["item_ids"].tolist())}
    a, b = position[judgement.item_lo_id], position[judgement.item_hi_id]
    return {
        "personal": personal(stored, read_records(parent, judgement.worker_id), a, b),
        "consensus": random_worker(stored, "model.", a, b),
        "gppl": random_worker(stored, "gppl.", a, b),
        "bradley_terry": bradley_terry(parent, stored, a, b),
    }


def read_records(parent: ModelSnapshot, worker: int) -> np.ndarray:
    """The worker's labels and sites in a version: those of the last version that visited the worker."""
    rows = WorkerPosterior.objects.filter(worker=worker, number__lte=parent.number).order_by("-number")
    row = rows.first()
    return np.frombuffer(bytes(row.content) if row else b"", dtype=RECORD)


def item_covariance(stored: array_store.Arrays, part: str, share: str = "share") -> np.ndarray:
    """K = share K_features + (1 - share) I."""
    about = json.loads(str(stored[part + "item_prior"]))
    kernel, X = kernel_from_state(json.loads(str(stored[part + "item_kernel"]))), stored[part + "X_items"]
    return about[share] * kernel(X) / about["size"] + (1.0 - about[share]) * np.eye(len(X))


def prior_of_tastes(stored: array_store.Arrays, part: str) -> np.ndarray:
    """A = floor K_A and the components."""
    return floor(stored, part) * item_covariance(stored, part, "taste_share") + components(stored, part)


def floor(stored: array_store.Arrays, part: str) -> float:
    """The variance of tastes outside the components."""
    numbers = json.loads(str(stored[part + "numbers"]))
    return float(numbers["tau"] + numbers["spread"])


def components(stored: array_store.Arrays, part: str) -> np.ndarray:
    """Psi (A_M - floor I) Psi'."""
    Psi, A_M = stored[part + "Psi"], stored[part + "A_M"]
    return Psi @ (A_M - floor(stored, part) * np.eye(len(A_M))) @ Psi.T


def random_worker(stored: array_store.Arrays, part: str, a: int, b: int) -> float:
    """P(z > 0) with z = f(a) - f(b) + noise for a worker of whom no judgement is known."""
    x = np.zeros(len(stored["item_ids"]))
    x[a], x[b] = 1.0, -1.0
    t, S_t = consensus(stored, part)
    return preference(stored, part, x @ t, x @ (S_t + prior_of_tastes(stored, part)) @ x)


def consensus(stored: array_store.Arrays, part: str) -> tuple[np.ndarray, np.ndarray]:
    """S_t = (C^-1 + H)^-1 and t = S_t h; C = v_t K and the variance of the components."""
    lower = np.zeros((len(stored["item_ids"]),) * 2)
    lower[np.tril_indices(len(lower))] = stored[part + "H_lower"]
    numbers, K = json.loads(str(stored[part + "numbers"])), item_covariance(stored, part)
    C = numbers["v_t"] * K + MEAN_VARIANCE * components(stored, part)
    S_t = np.linalg.inv(np.linalg.inv(C) + lower + np.tril(lower, -1).T)
    return S_t @ stored[part + "h"], S_t


def preference(stored: array_store.Arrays, part: str, mean: float, variance: float) -> float:
    """P(first) + P(tie) / 2 for z ~ N(mean, variance) known up to a common scale; ties are |z + noise| < margin."""
    numbers, response = (json.loads(str(stored[part + name])) for name in ("numbers", "response"))
    points, weights = np.polynomial.hermite.hermgauss(5)  # for exp(-x^2): x = log scale / (scale_sd sqrt(2))
    scale, margin = np.exp(np.sqrt(2.0) * numbers["scale_sd"] * points), response["margin"]
    spread = np.sqrt(1.0 + scale**2 * variance)
    above, below = ndtr((scale * mean - margin) / spread), ndtr((scale * mean + margin) / spread)
    certain = float(weights @ (above + below) / (2.0 * weights.sum()))
    return response["lapse"] / 2.0 + (1.0 - response["lapse"]) * certain


def personal(stored: array_store.Arrays, records: np.ndarray, a: int, b: int) -> float:
    """P(z > 0) for a worker with p_u conditioned on the sites of their labels, dense and one label per row."""
    if not len(records):
        return random_worker(stored, "model.", a, b)
    n, A, (t, S_t) = len(stored["item_ids"]), prior_of_tastes(stored, "model."), consensus(stored, "model.")
    x, X = np.zeros(n), np.zeros((len(records), n))
    x[a], x[b] = 1.0, -1.0
    X[np.arange(len(records)), records["a"]] = 1.0
    X[np.arange(len(records)), records["b"]] = -1.0
    lam, eta = records["lam"], records["eta"]
    gain = x @ A @ X.T @ np.linalg.inv(X @ A @ X.T + np.diag(1.0 / lam))
    of_t = x - gain @ X  # z = of_t' t + E[p_u given the labels] + its residual
    mean = of_t @ t + gain @ (eta / lam)
    variance = of_t @ S_t @ of_t + x @ A @ x - gain @ X @ A @ x
    return preference(stored, "model.", mean, variance)


def bradley_terry(parent: ModelSnapshot, stored: array_store.Arrays, a: int, b: int) -> float:
    """The posterior mode by scipy instead of our Newton steps, from the labels of the last refit."""
    refits = ModelSnapshot.objects.filter(project=parent.project, kind="refit", number__lte=parent.number)
    refit = refits.latest()
    workers = stored["worker_ids"].tolist()
    records = np.concatenate([read_records(refit, worker) for worker in workers])
    scores, variances = fitted_scores(records, len(stored["item_ids"]))
    v = variances[a] + variances[b]  # each given the other scores
    return float(expit((scores[a] - scores[b]) / np.sqrt(1.0 + np.pi * v / 8.0)))


def fitted_scores(records: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.optimize import root

    A, B, Y = records["a"], records["b"], records["answer"] / 2
    prior = np.append(np.ones(n), 0.1)

    def probabilities(theta: np.ndarray) -> np.ndarray:
        strength = np.exp(np.column_stack([theta[A], theta[B], theta[-1] + (theta[A] + theta[B]) / 2]))
        return strength / strength.sum(axis=1, keepdims=True)

    def slope(theta: np.ndarray) -> np.ndarray:
        observed = np.column_stack([Y == 1.0, Y == 0.0, Y == 0.5]).astype(float)
        gap = observed - probabilities(theta)
        out = -prior * theta
        np.add.at(out, A, gap[:, 0] + gap[:, 2] / 2)
        np.add.at(out, B, gap[:, 1] + gap[:, 2] / 2)
        out[-1] += gap[:, 2].sum()
        return out

    theta = root(slope, np.zeros(n + 1), tol=1e-13).x
    H = np.diag(prior)
    for i, j, p in zip(A, B, probabilities(theta), strict=True):
        rows = np.zeros((3, n + 1))  # the three strengths by (scores, tie rate)
        rows[0, i] = rows[1, j] = rows[2, -1] = 1.0
        rows[2, [i, j]] = 0.5
        H += rows.T @ (np.diag(p) - np.outer(p, p)) @ rows
    return theta[:-1], 1.0 / np.diagonal(H)[:-1]


@pytest.mark.slow
def test_the_scoreboard_can_be_recomputed_from_the_log(history: Project) -> None:
    versions = list(ModelSnapshot.objects.order_by("number"))
    assert [version.kind for version in versions] == ["refit", "step", "step", "refit", "step"]
    for parent, snapshot in pairwise(versions):
        judgements = labels_between(parent, snapshot)
        y = np.array([{"lo": 1.0, "hi": 0.0, "tie": 0.5}[j.choice] for j in judgements])
        predictions = [predict_independently(parent, judgement) for judgement in judgements]
        for entry in snapshot.scoreboard.all():
            p = np.array([each[entry.method] for each in predictions])
            assert (entry.labels, entry.decided) == (len(y), int((y != 0.5).sum()))
            assert entry.log_loss == pytest.approx(-(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(), abs=ATOL)
            assert entry.brier == pytest.approx(((p - y) ** 2).sum(), abs=ATOL)
            assert entry.correct == int(((p > 0.5) & (y == 1)).sum() + ((p < 0.5) & (y == 0)).sum())
            assert sum(bin[0] for bin in entry.calibration) == len(y)
    assert ScoreboardEntry.objects.count() == 4 * 4


@pytest.mark.slow
def test_running_totals_accumulate_over_versions(history: Project) -> None:
    running = running_totals(history)
    assert [number for number, _ in running] == [2, 3, 4, 5]
    assert running[-1][1] == scoreboard_totals(history)
    assert scoreboard_totals(history, upto=2)["personal"] == running[0][1]["personal"]
    whole = scoreboard_totals(history)["consensus"]
    assert whole.labels == 5 + 1 + 1 + 1
    assert 0.0 <= whole.accuracy <= 1.0
    assert whole.mean_log_loss > 0.0 < whole.brier


def test_the_scoreboard_is_empty_before_the_second_version(project: Project, worker: Worker, judge) -> None:
    judge(worker)
    update.update_one("one")
    assert scoreboard_totals(project) == {}
    assert running_totals(project) == []
    assert MetricSums().mean_log_loss is None


@pytest.mark.slow
def test_predictions_are_the_same_after_a_restart(history: Project, judge) -> None:
    parent = ModelSnapshot.objects.latest()
    judge(Worker.objects.first(), "left")
    predictions = []
    for _ in range(2):  # first from memory, then from the arrays
        state = update.load_training_state(parent)
        delta = read_delta(parent, get_read_point(history), state.fitted.item_ids, state.fitted.worker_ids)
        predictions.append(score_predictions(state.fitted, state.baselines, delta))
    for method, sums in predictions[0].items():
        assert predictions[1][method].log_loss == pytest.approx(sums.log_loss, abs=ATOL)


@pytest.mark.django_db
def test_gppl_is_left_out_where_items_are_many(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoreboard, "MAX_GPPL_ITEMS", 6)
    first = update.update_one("one")
    assert not [name for name in array_store.load(project, first.checksum) if name.startswith("gppl.")]
    judge(crowd[0])
    step = update.update_one("one")
    assert step.kind == "step"
    assert set(step.scoreboard.values_list("method", flat=True)) == {"personal", "consensus", "bradley_terry"}


@pytest.mark.slow
@pytest.mark.django_db
def test_methods_that_the_settings_add_predict_new_judgements_too(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    names = sorted(METHOD_LABELS)
    Project.objects.update(model_settings={"scoreboard_methods": names, "kernel": "surface"})
    first = update.update_one("one")
    stored = {name.split(".")[1] for name in array_store.load(project, first.checksum) if name.startswith("other.")}
    assert sorted(stored) == names
    judge(crowd[0])
    update._cache.clear()  # as after a restart
    step = update.update_one("one")
    assert step.kind == "step"
    assert set(step.scoreboard.values_list("method", flat=True)) == {*map(str, scoreboard.METHODS), *names}
    assert all(entry.labels == 1 and 0 < entry.log_loss < 5 for entry in step.scoreboard.all())
    shown = scoreboard_page(project, step.number)
    assert {row.method for row in shown.rows} >= {"GPVU", "crowdBT: Bradley-Terry with worker accuracies"}


@pytest.mark.django_db
def test_a_method_that_cannot_be_fitted_does_not_stop_the_update(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One needs features that the settings switch off; the fit of the other fails."""

    def fail(*args: object) -> None:
        raise np.linalg.LinAlgError("not positive definite")

    monkeypatch.setattr(ThurstoneMosteller, "_fit", fail)
    methods = ["crowd_bt_gp", "thurstone_mosteller", "crowd_bt"]
    Project.objects.update(model_settings={"scoreboard_methods": methods, "kernel": "none"})
    update.update_one("one")
    judge(crowd[0])
    step = update.update_one("one")
    assert set(step.scoreboard.values_list("method", flat=True)) == {*map(str, scoreboard.METHODS), "crowd_bt"}
