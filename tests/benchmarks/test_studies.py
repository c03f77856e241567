"""Simulated studies are reproducible, their true probabilities are right, and rivals match independent computations."""

import json

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks.model import stability
from benchmarks.studies import components, exact, generate, real, rivals, simulated

SMALL = generate.Parameters(
    index=0, n_items=12, n_judges=9, labels_each=30, spread=0.5, pairing="balanced", n_groups=1, one_group_each=False,
    n_features=6, informative=0.5, tastes="low-rank", rank=2, taste_ratio=0.7, clarity=1.0, heavy_tails=False,
    logistic=False, tie_share=0.0, careless=0.0, sharpness=0.0,
)  # fmt: skip


def small(**changes):
    return generate.generate(3, parameters=generate.Parameters(**{**SMALL.__dict__, **changes}))


def test_a_study_is_the_same_every_time_and_replicates_differ():
    first, again, other = generate.generate(10), generate.generate(10), generate.generate(10, replicate=1)
    np.testing.assert_array_equal(first.labels.y, again.labels.y)
    np.testing.assert_array_equal(first.X_items, again.X_items)
    assert first.parameters == other.parameters
    assert not np.array_equal(first.labels.a[:50], other.labels.a[:50])


def test_parameters_stay_within_the_ranges():
    drawn = [generate.parameters_of(i) for i in range(64)]
    assert all(5 <= p.n_items <= 2000 and 5 <= p.n_judges <= 5000 for p in drawn)
    assert all(p.labels_each * p.n_judges <= generate.MOST_LABELS + 1 for p in drawn)
    assert {p.pairing for p in drawn} == {"balanced", "adaptive"}
    assert {p.tastes for p in drawn} == {"none", "low-rank", "full-rank", "clusters"}


@pytest.mark.parametrize("pairing", ["balanced", "adaptive"])
def test_items_of_different_groups_are_never_compared(pairing):
    study = small(pairing=pairing, n_groups=3)
    labels, test = study.labels, study.tests["design"]
    assert (study.group[labels.a] == study.group[labels.b]).all()
    assert (study.group[test.a] == study.group[test.b]).all()
    assert (labels.a != labels.b).all()
    assert (test.a != test.b).all()


@pytest.mark.parametrize("changes", [{}, {"tie_share": 0.3}, {"careless": 0.9}, {"logistic": True, "sharpness": 0.5}])
def test_expected_answers_are_the_means_of_sampled_answers(changes):
    rng = np.random.default_rng(0)
    p = generate.Parameters(**{**SMALL.__dict__, **changes})
    crowd = generate._Crowd(rng, p, None)
    u, a, b = np.full(20_000, 2), np.full(20_000, 1), np.full(20_000, 5)
    answers = crowd.answer(rng, u, a, b)
    assert answers.mean() == pytest.approx(crowd.expected(u, a, b)[0], abs=0.012)


def test_bradley_terry_equals_scikit_learn():
    study, ridge = small(), 0.3
    labels = study.labels
    fitted = rivals.BradleyTerry.fit(labels, 12, ridge)
    X = rivals.differences(labels.a, labels.b, 12).toarray()
    second = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, labels.y)
    np.testing.assert_allclose(fitted.scores, second.coef_[0], atol=1e-5)


def test_hierarchical_bradley_terry_equals_a_general_optimiser_with_ties():
    study = small(tie_share=0.2)
    labels, ridge, personal = study.labels, 0.2, 1.5
    fitted = rivals.HierarchicalBradleyTerry.fit(labels, 12, ridge, personal)

    def objective(theta):
        t, D = theta[:12], theta[12:].reshape(9, 12)
        gap = t[labels.a] - t[labels.b] + D[labels.u, labels.a] - D[labels.u, labels.b]
        loss = np.sum(np.logaddexp(0, gap) - labels.y * gap) + ridge / 2 * t @ t + personal / 2 * (D**2).sum()
        r = expit(gap) - labels.y
        slope_t = np.bincount(labels.a, r, 12) - np.bincount(labels.b, r, 12) + ridge * t
        slope_D = personal * D
        np.add.at(slope_D, (labels.u, labels.a), r)
        np.add.at(slope_D, (labels.u, labels.b), -r)
        return loss, np.concatenate([slope_t, slope_D.ravel()])

    exact = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 5000}
    best = optimize.minimize(
        objective,
        np.zeros(12 + 9 * 12),
        jac=True,
        method="L-BFGS-B",
        options=exact,
    )
    np.testing.assert_allclose(fitted.scores, best.x[:12], atol=1e-4)
    u, a, b = np.repeat(np.arange(9), 12), np.tile(np.arange(12), 9), np.tile((np.arange(12) + 5) % 12, 9)
    D = best.x[12:].reshape(9, 12)
    expected = expit(best.x[a] - best.x[b] + D[u, a] - D[u, b])
    np.testing.assert_allclose(fitted.personal(u, a, b), expected, atol=1e-4)


def test_without_personal_variance_the_hierarchical_model_is_bradley_terry():
    labels = small().labels
    plain, deep = rivals.BradleyTerry.fit(labels, 12, 0.3), rivals.HierarchicalBradleyTerry.fit(labels, 12, 0.3, 1e9)
    np.testing.assert_allclose(plain.scores, deep.scores, atol=1e-5)
    np.testing.assert_allclose(
        plain.random_member(labels.a, labels.b), deep.random_member(labels.a, labels.b), atol=1e-5
    )


def test_the_cross_validated_ridge_has_the_least_loss_of_the_grid():
    labels = small().labels
    folds = rivals.fold_numbers(len(labels), 0)
    losses = []
    for ridge in rivals.RIDGES:
        total = 0.0
        for fold in range(rivals.FOLDS):
            train, test = rivals.subset(labels, folds != fold), rivals.subset(labels, folds == fold)
            scores = rivals.BradleyTerry.fit(train, 12, ridge).scores
            gap = scores[test.a] - scores[test.b]
            total += np.sum(np.logaddexp(0, gap) - test.y * gap)
        losses.append(total)
    assert rivals.BradleyTerry.cross_validated(labels, 12).ridge == pytest.approx(rivals.RIDGES[np.argmin(losses)])


def test_the_truth_has_the_least_possible_loss():
    study = small()
    truth = simulated.truth(study)

    class Oracle:
        def personal(self, u, a, b):
            return study.tests["design"].personal

        def random_member(self, a, b):
            return study.tests["design"].random_member + 0.01

    losses = simulated.score(study, Oracle())
    assert losses["design.personal"] == pytest.approx(truth["design.personal"])
    assert losses["design.random_member"] > truth["design.random_member"]


@pytest.mark.slow
def test_simulated_studies_resume_where_they_stopped(tmp_path, capsys):
    call = [
        "--quick",
        "--rows",
        str(tmp_path),
        "--to",
        "40",
        "--models",
        "bradley_terry",
        "constant",
        "gppl",
        "crowdgppl",
    ]
    simulated.main(call)
    first = json.loads(capsys.readouterr().out)
    assert first["studies"] == 2
    lines = (tmp_path / "rivals.jsonl").read_text().splitlines()
    simulated.main(call)
    assert json.loads(capsys.readouterr().out) == first
    assert (tmp_path / "rivals.jsonl").read_text().splitlines() == lines
    assert 0 <= first["design.personal"]["share_within_margin"] <= 1


def write_real_studies(folder, rng):
    """Three small studies in the files of the real ones."""
    for name in ("vehicles", "music", "ukpconvarg"):
        (folder / name).mkdir()
    words = ["red cart", "blue van", "old bus", "fast boat", "small bike", "green tram"]
    (folder / "vehicles/items.csv").write_text("key,text\n" + "".join(f"{i},{w}\n" for i, w in enumerate(words)))
    (folder / "music/items.csv").write_text("key,text,group\n" + "".join(f"m{i},{w},g\n" for i, w in enumerate(words)))
    (folder / "ukpconvarg/items.csv").write_text("item_id,text\n" + "".join(f"{i},{w}\n" for i, w in enumerate(words)))
    lines = {"vehicles": ["study,worker,left,right,winner"], "music": ["worker,a,b,choice"]}
    lines["ukpconvarg"] = ["worker_id,item_a,item_b,choice,fold"]
    for _ in range(90):
        a, b = rng.choice(6, size=2, replace=False)
        lines["vehicles"].append(f"size,w{rng.integers(5)},{a},{b},{max(a, b)}")
        choice = "tie" if abs(a - b) == 1 else "ab"[int(a < b)]
        lines["music"].append(f"w{rng.integers(5)},m{a},m{b},{choice}")
        lines["ukpconvarg"].append(f"w{rng.integers(5)},{a},{b},{choice},0")
    for name, each in lines.items():
        (folder / name / "judgements.csv").write_text("\n".join(each) + "\n")


def test_real_studies_are_read_with_ties_and_winners(tmp_path):
    write_real_studies(tmp_path, np.random.default_rng(0))
    vehicles, music, arguments = real.read_studies(tmp_path)
    np.testing.assert_array_equal(vehicles.labels.y, vehicles.labels.a > vehicles.labels.b)
    assert set(music.labels.y) == set(arguments.labels.y) == {0.0, 0.5, 1.0}
    assert len(music.texts) == 6
    assert vehicles.n_judges == 5


@pytest.mark.slow
def test_real_studies_compare_models_by_judge(tmp_path, capsys):
    write_real_studies(tmp_path, np.random.default_rng(0))
    models = ["crowdgppl", "bradley_terry", "constant"]
    real.main(["--quick", "--data", str(tmp_path), "--rows", str(tmp_path), "--models", *models, "--only", "music"])
    found = json.loads(capsys.readouterr().out)["studies"]["music"]
    for part in ("ties as one half", "ties not scored", "ties left out"):
        against = found[f"{part}, personal"]["crowdgppl_minus"]
        assert set(against) == {"bradley_terry", "constant"}
        assert against["constant"]["mean"] < 0


def test_standard_error_by_judge_equals_that_of_judge_means_in_a_balanced_design():
    gaps = np.random.default_rng(1).standard_normal(30)
    mean, error = real.clustered(np.arange(30), gaps * 4, np.full(30, 4))
    assert mean == pytest.approx(gaps.mean())
    assert error == pytest.approx(gaps.std(ddof=1) / np.sqrt(30))
    twice = real.clustered(np.tile(np.arange(30), 2), np.tile(gaps * 4, 2), np.full(60, 4))
    assert twice == pytest.approx((mean, error))  # a second split of the same answers adds no certainty


@pytest.mark.slow
def test_components_and_the_unanimous_crowd_are_counted(capsys):
    components.main(["--quick"])
    result = json.loads(capsys.readouterr().out)
    assert result["0 tastes, 300 labels"]["crowds"] == 2
    assert result["unanimous"]["seeds"] == 2


def test_the_unanimous_crowd_never_contradicts_itself():
    labels = components.unanimous_labels(0)
    np.testing.assert_array_equal(np.bincount(labels.u), components.UNANIMOUS_LABELS)
    np.testing.assert_array_equal(labels.y, labels.a < labels.b)


@pytest.mark.slow
def test_stability_runs_in_its_quick_form(capsys):
    stability.main(["--quick"])
    found = json.loads(capsys.readouterr().out)["3 tastes, no features"]
    assert found["dropped_label"]["consensus"]["p95"] > 0
    assert len(found["pilot"]["consensus"]["by_step"]) == stability.VERSIONS - 1


def test_change_of_hyperparameters_ignores_negligible_ones():
    assert stability.ratio({"a": 1.0, "b": 1e-6}, {"a": 2.0, "b": 1e-4}) == pytest.approx(2.0)


def test_exact_sampler_equals_quadrature_for_two_items_and_one_judge():
    class Few:
        u, a, b, y = np.zeros(3, int), np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([1.0, 1.0, 1.0])

    found = exact.sample_posterior(Few, np.eye(2), 0.5 * np.eye(2), 1)
    z = np.linspace(-12, 12, 20_001)
    density = norm.pdf(z, scale=np.sqrt(3.0)) * norm.cdf(z) ** 2 * norm.cdf(-z)
    density /= density.sum()
    mean, sd = exact.difference_moments(found.F[:, 0])
    expected = (density * z).sum()
    assert mean[0] == pytest.approx(expected, abs=0.03)
    assert sd[0] == pytest.approx(np.sqrt((density * (z - expected) ** 2).sum()), abs=0.03)
    consensus, _ = exact.difference_moments(found.t)
    assert consensus[0] == pytest.approx(expected * 2 / 3, abs=0.03)
