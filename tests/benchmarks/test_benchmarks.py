"""Every benchmark in its quick form prints JSON with its figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness
from benchmarks.model import coverage, people, speed, streaming
from benchmarks.paper import convincingness, simulations, ukpconvarg
from benchmarks.server import large_study
from benchmarks.simulated_crowds import draw_crowd


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """Measure the speed of the machine roughly, which saves seconds."""
    monkeypatch.setattr(harness, "UNIT_SIZE", 200)
    harness.cholesky_unit.cache_clear()
    yield
    harness.cholesky_unit.cache_clear()


@pytest.mark.slow
def test_every_benchmark_can_be_imported_without_django_settings():
    """They are run as scripts, and those that need a database configure it themselves."""
    folder = Path(harness.__file__).parent
    names = [".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in folder.rglob("*.py")]
    statement = "; ".join(f"import {name}" for name in names if "load" not in name and not name.endswith("__"))
    variables = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    subprocess.run([sys.executable, "-c", statement], cwd=folder.parent, env=variables, check=True)


def printed(capsys):
    return json.loads(capsys.readouterr().out)


def write_corpus(folder, rng):
    """Write a corpus of 32 folds of 5 texts in which the longer text is better."""
    files = {
        "folds.csv": ["fold,topic,stance"], "items.csv": ["item_id,fold,topic,stance,text"],
        "judgements.csv": ["worker_id,item_a,item_b,choice,fold"], "gold_pairs.csv": ["item_a,item_b,choice,fold"],
        "gold_ranking.csv": ["item_id,fold,score"], "personal_ranking.csv": ["worker_id,item_id,fold,score"],
    }  # fmt: skip
    for fold in range(32):
        files["folds.csv"].append(f"{fold},topic {fold // 2},{fold % 2}")
        lengths = rng.permutation(5) * 4 + 2
        for i, n in enumerate(lengths):
            name, text = f"arg{fold}_{i}", " ".join(rng.choice(["sea", "tree", "stone", "river"], n))
            files["items.csv"].append(f"{name},{fold},topic {fold // 2},{fold % 2},{text}.")
            files["gold_ranking.csv"].append(f"{name},{fold},{n}")
            files["personal_ranking.csv"] += [f"w{w},{name},{fold},{n}" for w in range(4)]
        for i in range(5):
            for j in range(i):
                choice = "tie" if rng.random() < 0.1 else "a" if lengths[i] > lengths[j] else "b"
                pair = f"arg{fold}_{i},arg{fold}_{j},{choice},{fold}"
                files["judgements.csv"].append(f"w{rng.integers(4)},{pair}")
                files["gold_pairs.csv"].append(pair)
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def corpus_folder(tmp_path):
    write_corpus(tmp_path, np.random.default_rng(0))
    return tmp_path


@pytest.mark.slow
def test_convincingness_finds_that_longer_texts_are_better(corpus_folder, capsys):
    convincingness.main(["--quick", "--data", str(corpus_folder)])
    result = printed(capsys)
    assert result["means"]["crowdgppl"]["consensus.accuracy"] > 0.9
    assert result["means"]["linear"]["consensus.tau"] > 0.8
    assert result["differences"]["crowdgppl - gppl"]["personal.cross_entropy"]["mean"] is not None
    assert result["selection_units"] > 0
    assert len(result["choices"]) == 2
    assert set(result["means"]) == set(convincingness.METHODS)
    assert result["wilcoxon_p"]["crowdgppl - gppl"]["consensus.tau"] is None  # two folds are too few


def test_convincingness_without_data_is_skipped(monkeypatch, capsys):
    monkeypatch.delenv(ukpconvarg.FOLDER_VARIABLE, raising=False)
    convincingness.main(["--quick"])
    assert printed(capsys)["skipped"] is True


def test_the_protocol_scores_the_gold_ranking_as_perfect(corpus_folder):
    corpus = ukpconvarg.read_corpus(corpus_folder)

    class Oracle:
        def predict_consensus(self, items):
            return corpus.gold_score[items]

        def predict_consensus_proba(self, a, b, kind="typical"):
            return np.where(corpus.gold_score[a] > corpus.gold_score[b], 0.9, 0.1)

        def predict_proba(self, u, a, b):
            return self.predict_consensus_proba(a, b)

        def predict_utilities(self, users, items):
            return np.repeat(corpus.gold_score[items][:, None], len(users), axis=1)

    figures = ukpconvarg.score_fold(corpus, 3, Oracle())
    assert all(figures[f"{panel}.accuracy"] == 1 for panel in ukpconvarg.PANELS)
    assert all(figures[f"{panel}.tau"] == pytest.approx(1) for panel in ukpconvarg.PANELS)
    assert figures["consensus.cross_entropy"] == pytest.approx(-np.log(0.9))


def test_ties_and_workers_without_training_labels_are_left_out_of_the_test(corpus_folder):
    judgements = corpus_folder / "judgements.csv"
    judgements.write_text(judgements.read_text() + "stranger,arg3_0,arg3_1,a,3\nstranger,arg3_0,arg3_2,a,3\n")
    corpus = ukpconvarg.read_corpus(corpus_folder)
    predicted = []

    class Recorder:
        def predict_consensus(self, items):
            return np.zeros(len(items))

        def predict_consensus_proba(self, a, b, kind="typical"):
            return np.full(len(a), 0.5)

        def predict_proba(self, u, a, b):
            predicted.append((u, a, b))
            return np.full(len(u), 0.5)

        def predict_utilities(self, users, items):
            return np.zeros((len(items), len(users)))

    figures = ukpconvarg.score_fold(corpus, 3, Recorder())
    stranger = corpus.labels.u[-1]
    ties = np.sum((corpus.label_fold == 3) & (corpus.labels.y == 0.5))
    assert all(stranger not in u for u, _, _ in predicted)
    assert len(predicted[0][0]) == 10 - ties
    assert figures["consensus.accuracy"] == 0.5
    assert figures["consensus.tau"] == 0


def test_folds_are_named_by_numbers_and_ranges():
    assert convincingness.fold_numbers("0-2,5,30-31") == [0, 1, 2, 5, 30, 31]


@pytest.mark.slow
def test_simulations_run_in_their_quick_form(capsys):
    simulations.main(["--quick"])
    result = printed(capsys)
    assert set(result["a"]) == set(result["b"]) == {"3.16"}
    assert result["c"]["crowdgppl: 1 components, 2304 labels"]["matched_r"]["mean"] > 0.5
    assert set(result["a"]["3.16"]["tau"]) == set(simulations.METHODS)


def test_matching_pairs_each_true_component_once():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((2, 50))
    found = np.vstack([-truth[1], truth[0], rng.standard_normal(50), np.zeros(50)])
    assert simulations.matched_correlation(truth, found) == pytest.approx(1)


def test_the_true_utilities_span_the_true_tastes():
    crowd = draw_crowd(np.random.default_rng(0), n_users=12, n_labels=20, n_components=3, n_items=15)
    assert simulations.taste_cosine(crowd, crowd.F) == pytest.approx(1)
    assert simulations.taste_cosine(crowd, np.repeat(crowd.t[:, None], 12, axis=1)) == 0


@pytest.mark.slow
def test_coverage_runs_in_its_quick_form(capsys):
    coverage.main(["--quick"])
    result = printed(capsys)
    mean = result["coverage"]["1 components, sd(t) 1.0, balanced"]["mean"]
    assert all(0.6 < mean[name] <= 1 for name in ("consensus_pairs", "ranks", "personal_pairs", "personal_scores"))
    assert set(result["verdict"]) == {"consensus_pairs", "ranks", "personal_pairs"}


@pytest.mark.slow
def test_speed_runs_in_its_quick_form(capsys):
    speed.main(["--quick"])
    result = printed(capsys)
    assert result["small"]["one batch"]["accuracy"] > 0.6
    assert result["small"]["ten batches of users"]["iterations"] > 0
    assert result["peak_megabytes"]["in_all"] > 0


@pytest.mark.slow
def test_streaming_runs_in_its_quick_form(capsys):
    streaming.main(["--quick"])
    result = printed(capsys)
    assert result["studies"] == 1
    assert result["one_sided_labels"]["rise"]["mean"] > 0
    assert abs(result["retractions"]["cross_entropy_lost"]["mean"]) < 0.05


def test_figures_over_studies_are_means_with_standard_errors():
    rows = [
        {"ms": 1.0, "worst_ms": 4.0, "stream": {"accuracy": 0.5}},
        {"ms": 3.0, "worst_ms": 9.0, "stream": {"accuracy": 0.5}},
    ]
    result = streaming.over_studies(rows)
    assert result["ms"] == {"mean": 2.0, "standard_error": pytest.approx(1.0)}
    assert result["worst_ms"] == 9.0
    assert result["stream"]["accuracy"] == {"mean": 0.5, "standard_error": 0.0}


def test_a_result_has_rounded_plain_numbers():
    assert harness.rounded({"x": np.float64(1 / 3), "n": np.int64(2), "bad": float("nan"), "l": (0.5,)}) == {
        "x": 0.3333, "n": 2, "bad": None, "l": [0.5],
    }  # fmt: skip


def test_a_paired_interval_covers_a_constant_gain():
    gain = harness.paired([1.0, 2.0, 3.0], [0.5, 1.5, 2.5])
    assert gain["mean"] == pytest.approx(0.5)
    assert gain["low"] == pytest.approx(gain["high"])


def test_a_full_result_is_written_and_a_quick_one_only_printed(tmp_path, capsys):
    options = harness.arguments(None).parse_args(["--results", str(tmp_path)])
    harness.publish("something", {"value": 1.0}, options)
    assert json.loads((tmp_path / "something.json").read_text())["value"] == 1.0
    harness.publish("other", {}, harness.arguments(None).parse_args(["--quick", "--results", str(tmp_path)]))
    assert not (tmp_path / "other.json").exists()
    assert "something" in capsys.readouterr().out


@pytest.mark.slow
def test_people_compares_both_extensions_with_the_plain_model(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(people, "COMPONENTS", 3)
    people.main(["--quick", "--results", str(tmp_path)])
    result = printed(capsys)
    assert set(result) > {"traits_that_matter", "traits_that_do_not", "clickers", "no_clickers", "met"}
    assert result["traits_that_matter"]["gain"]["mean"] > 0.03
    weight = result["clickers"]["mean"]
    assert weight["clickers"] < weight["others"] <= 1.0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_large_study_is_updated_within_its_memory_limit(capsys):
    large_study.main(["--quick"])
    result = printed(capsys)
    assert (result["finished"], result["words"], result["ranked"]) == (True, "", 60)
    assert result["peak_address_space_megabytes"] < result["limit_megabytes"]
