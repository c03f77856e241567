"""The paper's experiments: data files, resumed runs, and every experiment in its quick form."""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benchmarks.paper import __main__ as everything
from benchmarks.paper import components, new_argument, report, scalability, sushi, sushi_files
from benchmarks.paper.reference import CONVINCINGNESS, SUSHI, paper_row, scaled_kernel
from benchmarks.paper.ukpconvarg import Corpus
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import PairwiseLabels


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sushi")
    sushi_files.write_generated(folder, n_users=40)
    return sushi_files.read_sushi(folder)


def test_the_items_of_set_a_are_not_the_first_rows(data):
    np.testing.assert_array_equal(data.items_a, data.items[[0, 1, 2, 3, 4, 6, 7, 8, 26, 29]])
    assert data.orders_a.shape == data.orders_b.shape == (40, 10)
    assert data.items.shape == (100, 18)  # as in the paper: two binary columns, twelve kinds, four numbers
    assert len(data.users) == 40


def test_rankings_are_read_from_best_to_worst(tmp_path):
    path = tmp_path / "x.order"
    path.write_text("10 1\n0 3 5 0 2\n0 3 1 2 0\n")
    np.testing.assert_array_equal(sushi_files.read_orders(path), [[5, 0, 2], [1, 2, 0]])
    path.write_text("10 1\n0 4 5 0 2\n")
    with pytest.raises(ValueError, match="number of items"):
        sushi_files.read_orders(path)


def test_training_and_test_pairs_follow_the_rankings_and_do_not_overlap(data):
    sample = sushi.draw(data, sushi.Design("b", 30, 10, 5), np.random.default_rng(0))
    place = np.full((30, 100), -1)
    place[np.arange(30)[:, None], sample.orders] = np.arange(10)
    assert np.all(place[sample.u, sample.winner] < place[sample.u, sample.loser])
    train = sample.train
    a_better = place[train.u, train.a] < place[train.u, train.b]
    np.testing.assert_array_equal(a_better, train.y == 1)
    assert 0.3 < train.y.mean() < 0.7
    pairs = {(u, *sorted(ab)) for u, *ab in zip(train.u, train.a, train.b, strict=True)}
    assert len(pairs) == len(train) == 300
    assert not pairs & {(u, *sorted(ab)) for u, *ab in zip(sample.u, sample.winner, sample.loser, strict=True)}


def test_the_true_utilities_score_perfectly(data):
    sample = sushi.draw(data, sushi.DESIGNS["A-small"], np.random.default_rng(0))
    F = np.zeros((10, len(sample.orders)))
    F[sample.orders, np.arange(len(sample.orders))[:, None]] = -np.arange(10)

    class Oracle:
        def predict_proba(self, u, a, b):
            return np.where(F[a, u] > F[b, u], 0.9, 0.1)

        def predict_utilities(self, users):
            return F[:, users]

    figures = sushi.score(Oracle(), sample)
    assert figures == pytest.approx({"accuracy": 1, "cross_entropy": -np.log(0.9), "tau": 1, "tau_per_user": 1})


@pytest.mark.slow
def test_sushi_runs_every_method_on_a_generated_set(capsys):
    sushi.main(["--quick", "--tune"])
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert set(result["A-small"]) == set(result["B"]) == set(CATALOGUE)
    assert result["B"]["crowdgppl"]["tau"]["mean"] > 0.4
    assert result["paper_tuning"]["gppl"]["paper"] == 100
    assert "0.71" in captured.err  # the paper's value is in the table


def test_sushi_without_data_is_skipped(capsys):
    sushi.main([])
    assert json.loads(capsys.readouterr().out)["skipped"] is True


def test_a_killed_run_continues_with_the_next_cell(tmp_path):
    options = argparse.Namespace(quick=False, results=tmp_path, fresh=False)
    calls = []

    def compute(value):
        calls.append(value)
        return {"value": value, "list": np.arange(2)}

    for _ in range(2):
        runs = report.Runs("x", options)
        assert [runs.cell(lambda i=i: compute(i), cell=i)["value"] for i in (1.5, 2.5)] == [1.5, 2.5]
    assert calls == [1.5, 2.5]
    path = tmp_path / "x.runs.jsonl"
    path.write_text(path.read_text()[:-10])  # the kill came while the last line was written
    report.Runs("x", options).cell(lambda: compute(2.5), cell=2.5)
    assert calls == [1.5, 2.5, 2.5]
    options.finished = True
    assert report.Runs("x", options).cell(lambda: compute(3.5), cell=3.5) is None
    options.fresh = True
    assert report.Runs("x", options).found == {}


def test_the_paper_has_numbers_for_its_methods():
    assert (
        paper_row(SUSHI, "paper_svi_no_user", "A") == paper_row(SUSHI, "crowdgppl_no_user", "A") == (0.85, 0.31, 0.80)
    )
    assert paper_row(CONVINCINGNESS, "gpvu", "consensus") == (None, None, None)
    assert paper_row(SUSHI, "paper_svi_no_inducing", "B") == (None, None, None)
    assert scaled_kernel(100).scale == 200
    assert scaled_kernel(400).scale == 20


@pytest.mark.slow
def test_scalability_runs_in_its_quick_form(capsys):
    scalability.main(["--quick"])
    result = json.loads(capsys.readouterr().out)
    assert set(result["P"]["crowdGPPL"]) == {"200", "800", "exponent"}
    assert result["M"]["paper SVI"]["40"]["accuracy"]["mean"] > 0.6


def test_an_exponent_is_the_slope_in_logarithms():
    assert scalability.exponent({n: [2.0 * n**3] for n in (10, 20, 40, 80)}) == pytest.approx(3)


@pytest.mark.slow
def test_components_are_sorted_and_averaged(capsys):
    components.main(["--quick"])
    values = json.loads(capsys.readouterr().out)["three tastes, generated"]["paper SVI"]
    assert values == sorted(values, reverse=True)
    assert components.mean_sorted([[3.0, 1.0], [1.0]]) == [2.0, 0.5]


def test_everything_runs_with_the_data_that_are_there(tmp_path, monkeypatch):
    """Only the folders that exist are passed on."""
    (tmp_path / "sushi").mkdir()
    started = {}
    for name in ("simulations", "sushi", "convincingness", "scalability", "components"):
        module = getattr(everything, name)
        monkeypatch.setattr(module, "main", lambda argv, n=name: started.setdefault(n, argv))
    everything.main(["--data", str(tmp_path), "--repeats", "2", "--quick"])
    assert list(started) == ["simulations", "sushi", "convincingness", "scalability", "components"]
    assert str(tmp_path / "sushi") in started["sushi"]
    assert "--data" not in started["convincingness"]
    assert all("--quick" in argv for argv in started.values())


@pytest.fixture
def corpus():
    """Two folds of six texts each; longer texts are better, and three workers judge every pair within a fold."""
    texts = tuple("Because it is so. " * (1 + n % 6) + ("Yes." if n < 6 else "No.") for n in range(12))
    fold, everyone = np.repeat([0, 1], 6), range(3)
    rows = [(u, a, b, float(a > b)) for u in everyone for a in range(12) for b in range(12) if a != b]
    u, a, b, y = (np.array(column) for column in zip(*[row for row in rows if row[1] // 6 == row[2] // 6], strict=True))
    labels, gold = PairwiseLabels(u=u, a=a, b=b, y=y), np.arange(12.0)
    return Corpus(texts, fold, np.zeros(2, dtype=int), labels, fold[a], np.zeros((0, 2), dtype=int), gold, {})


def test_a_text_of_another_fold_is_scored_as_on_the_page(corpus):
    fitted = new_argument.fit_other_folds(corpus, 0, {"kernel": "surface"})
    np.testing.assert_array_equal(fitted.item_ids, np.arange(6, 12))
    np.testing.assert_array_equal(fitted.centre, np.arange(6))
    np.testing.assert_array_equal(fitted.item_counts, np.full(6, 30))  # five pairs in both orders by three workers
    assert fitted.consensus.mean() == pytest.approx(0.0)
    assert new_argument.tau_of_fold(corpus, 0, {"kernel": "surface"}) > 0.8


@pytest.mark.browser
def test_a_figure_is_written_as_png(tmp_path):
    options = argparse.Namespace(quick=False, results=tmp_path)
    curve = report.line("GPPL", [1, 10], [0.5, 0.6], [0.1, 0.1])
    panels = [report.panel("title", "x", "y", [curve], log_x=True)]
    with ThreadPoolExecutor(1) as thread:  # a browser test may have left an event loop in this one
        thread.submit(report.write_figure, "x", panels, options).result(timeout=300)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
