"""Labels as a source of mini-batches: the same fit wherever they lie, and plain words where they make no sense."""

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels, ParquetLabels, SortedLabels, write_labels
from modelling.crowdgppl.sources import COLUMNS, batches_of_runs

from .crowds import draw_labels, fitted, make_crowd, scores

SAME = {"rtol": 0, "atol": 1e-9}  # a batch is the same labels in the same order; only its neighbours differ


@pytest.fixture(scope="module")
def large():
    """Three hundred users, a few of whom have no labels."""
    crowd = make_crowd(seed=5, n_users=300, n_items=30, per_user=12, held_per_user=12)
    return crowd, crowd.labels.take(~np.isin(crowd.labels.u, [0, 7, 8, 150]))


@pytest.fixture(scope="module")
def source(large):
    return SortedLabels.of(large[1])


@pytest.fixture(scope="module")
def fed(large, source):
    return fitted(source, batch_size=60, n_users=300)


@pytest.fixture
def folder(tmp_path, source):
    write_labels(tmp_path, in_chunks(source, 7))
    return tmp_path


def in_chunks(source, count):
    """Whole users at a time, as a program that writes a long file would have them."""
    for users in np.array_split(np.arange(source.n_users), count):
        yield source.of_users(users)


def write_parquet(path, source, rows=500, **changed):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: source.columns[name] for name in COLUMNS} | changed
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def same_fit(one, other):
    """To the last bit."""
    assert np.array_equal(one.predict_consensus(return_cov=True)[1], other.predict_consensus(return_cov=True)[1])
    assert np.array_equal(one.predict_utilities(), other.predict_utilities())
    assert one.component_energy_ == pytest.approx(other.component_energy_, rel=0)


def test_memory_mapped_files_give_the_fit_of_arrays_to_the_last_bit(fed, folder):
    mapped = SortedLabels.open(folder)
    assert all(isinstance(column, np.memmap) for column in mapped.columns.values())
    same_fit(fed, fitted(mapped, batch_size=60, n_users=300))


def test_parquet_in_one_row_group_gives_the_fit_of_arrays_to_the_last_bit(fed, source, tmp_path):
    path = write_parquet(tmp_path / "labels.parquet", source, rows=10**6)
    same_fit(fed, fitted(ParquetLabels(path), batch_size=60, n_users=300))


def test_parquet_in_many_row_groups_holds_the_same_labels(source, tmp_path):
    many = ParquetLabels(write_parquet(tmp_path / "labels.parquet", source))
    users = np.array([3, 7, 41, 42, 43, 200, 299])
    for name in COLUMNS:
        assert np.array_equal(getattr(many.of_users(users), name), getattr(source.of_users(users), name))
    met = np.concatenate(list(many.user_batches(25, np.random.default_rng(0))))
    assert sorted(met) == list(source.index.present)
    assert len(list(many.user_batches(25, np.random.default_rng(0)))) >= 8


def test_a_source_is_as_good_as_everybody_at_once(large, fed):
    crowd, labels = large
    held = crowd.held.take(~np.isin(crowd.held.u, [0, 7, 8, 150]))
    full, batches = scores(fitted(labels), held), scores(fed, held)
    assert batches[0] > full[0] - 0.01
    assert batches[1] < full[1] + 0.015


def test_the_order_in_which_users_were_visited_does_not_matter_to_what_is_known_of_them(fed):
    mean, sd = fed.predict_utilities(users=[5, 290, 11], return_std=True)
    alone = [fed.predict_utilities(users=[u], return_std=True) for u in (5, 290, 11)]
    np.testing.assert_allclose(mean, np.hstack([each[0] for each in alone]), **SAME)
    np.testing.assert_allclose(sd, np.hstack([each[1] for each in alone]), **SAME)
    np.testing.assert_allclose(mean, fed.predict_utilities(users=[5, 290, 11]), **SAME)


def test_a_user_without_labels_or_never_seen_is_at_the_prior(fed):
    absent, stranger = fed.predict_proba([0, 300], [1, 1], [2, 2], X_users=np.zeros((1, 2)))
    assert absent == pytest.approx(stranger)
    assert np.all(fed.user_components_[:, 0] == 0)
    assert fed.predict_utilities(users=[300], X_users=np.zeros((1, 2)))[:, 0] == pytest.approx(fed.predict_consensus())


@pytest.fixture(scope="module")
def in_memory(large):
    """The same batches of users with all labels in memory."""
    return fitted(large[1], batch_size=60, n_users=300)


def test_the_consensus_has_the_intervals_of_the_finish(fed, in_memory):
    (t, sd), (expected, expected_sd) = (model.predict_consensus(return_std=True) for model in (fed, in_memory))
    assert sd == pytest.approx(expected_sd, rel=0.1)
    assert np.corrcoef(t, expected)[0, 1] > 0.99


def test_the_bound_of_a_source_is_near_that_of_the_same_batches_in_memory(fed, in_memory):
    assert fed.lower_bounds_[-1] == pytest.approx(in_memory.lower_bounds_[-1], rel=0.01)


@pytest.mark.parametrize("variant", [{"n_components": 0}, {"consensus": False}, {"scales": "ard"}])
def test_variants_of_the_model_learn_from_a_source_too(large, source, variant):
    model = fitted(source, batch_size=100, n_users=300, **variant)
    accuracy, _ = scores(model, large[0].held)
    assert accuracy > (0.6 if variant == {"n_components": 0} else 0.7)


def test_items_with_features_learn_from_a_source():
    crowd = make_crowd(seed=6, n_users=200, n_items=40, per_user=10, features=True)
    model = fitted(SortedLabels.of(crowd.labels), X_items=crowd.X, batch_size=50, n_inducing_items=15)
    assert scores(model, crowd.held)[0] > 0.7
    assert model.predict_consensus(X_items=crowd.X[:2] + 0.01).shape == (2,)


def test_the_scale_is_chosen_on_some_of_the_users(source):
    told = []
    model = CrowdGPPL(n_components=3, batch_size=60, progress=lambda *each: told.append(each))
    model.fit(source)
    assert not model.choice_.personal_rest
    assert {stage for stage, *_ in told} == {"choose", "fit", "finish", "users"}
    assert all(iteration <= most for stage, iteration, most, _ in told if stage != "choose")


def test_saved_and_loaded_it_predicts_the_same_if_it_is_given_its_source(fed, source):
    state = fed.to_state()
    assert not len(state["u"])
    same_fit(fed, CrowdGPPL.from_state(state))
    asked = ([4, 5], [0, 1], [2, 3])
    assert np.array_equal(CrowdGPPL.from_state(state, source=source).predict_proba(*asked), fed.predict_proba(*asked))
    with pytest.raises(ValueError, match="give from_state the source"):
        CrowdGPPL.from_state(state).predict_proba(*asked)


def test_a_fed_model_keeps_nothing_to_add_to_or_take_from(fed, large):
    few = large[1].take(np.arange(3))
    for change in (fed.partial_fit, fed.forget):
        with pytest.raises(ValueError, match="fit it again"):
            change(few)


@pytest.mark.parametrize(
    ("choices", "words"),
    [({"batch_size": None}, "give batch_size"), ({"batch_size": 60, "finish": True}, "private rest")],
)
def test_what_a_source_cannot_do_is_refused(source, choices, words):
    with pytest.raises(ValueError, match=words):
        fitted(source, **choices)


def test_traits_of_users_need_arrays(source):
    with pytest.raises(ValueError, match="X_users"):
        fitted(source, X_users=np.zeros((300, 2)), batch_size=60)


def test_fewer_items_than_the_labels_speak_of_are_refused(source):
    with pytest.raises(ValueError, match="only 29"):
        fitted(source, batch_size=60, n_items=29)


BAD = {
    "u": ([1, 0, 2], "in order of users"),
    "a": ([0, -1, 2], "negative index"),
    "b": ([1, 3, 2], "compared with itself"),
    "y": ([1.0, np.nan, 0.0], "missing or infinite"),
    "weight": ([1.0, 1.0], "same length"),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_make_no_sense_are_refused(name):
    values, words = BAD[name]
    good = {"u": [0, 1, 2], "a": [0, 1, 2], "b": [1, 3, 3], "y": [1.0, 0.0, 0.5], "weight": [1.0, 1.0, 2.0]}
    with pytest.raises(ValueError, match=words):
        SortedLabels(**{each: np.array(value) for each, value in (good | {name: values}).items()})


def test_users_out_of_order_are_found_across_chunks_too(monkeypatch):
    monkeypatch.setattr("modelling.crowdgppl.sources.CHUNK_LABELS", 2)
    with pytest.raises(ValueError, match="in order of users"):
        SortedLabels(np.array([0, 3, 1, 4]), np.arange(4), np.arange(4) + 1, np.ones(4))


def test_a_user_index_beyond_all_bounds_is_refused():
    with pytest.raises(ValueError, match="at most"):
        SortedLabels(np.array([0, 2**60]), np.array([0, 1]), np.array([1, 2]), np.ones(2))


def test_no_labels_are_refused():
    none = np.zeros(0, dtype=int)
    with pytest.raises(ValueError, match="no labels"):
        CrowdGPPL(batch_size=5).fit(SortedLabels(none, none, none, np.zeros(0)))


def test_a_file_that_ends_early_is_refused(folder):
    file = folder / "y.npy"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"y\.npy ends early"):
        SortedLabels.open(folder)


def test_a_missing_file_is_named(folder):
    (folder / "b.npy").unlink()
    with pytest.raises(ValueError, match=r"b\.npy is missing"):
        SortedLabels.open(folder)


def test_writing_that_was_interrupted_leaves_the_old_files(folder, source):
    def breaks():
        yield source.of_users(np.arange(10))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_labels(folder, breaks())
    assert len(SortedLabels.open(folder)) == len(source)


def test_a_mapped_file_that_is_written_to_during_the_fit_stops_it(folder):
    mapped = SortedLabels.open(folder)
    file = folder / "y.npy"
    file.write_bytes(file.read_bytes()[:-800])
    with pytest.raises(ValueError, match="changed while they were read"):
        fitted(mapped, batch_size=60)


def test_labels_that_go_to_other_users_during_the_fit_stop_it(source):
    moved = SortedLabels(**{name: column.copy() for name, column in source.columns.items()})
    moved.columns["u"][:3] = 2
    with pytest.raises(ValueError, match="other labels than before"):
        moved.of_users(np.arange(5))
    moved.columns["u"][:] = source.columns["u"]
    moved.columns["a"][:] = 77
    with pytest.raises(ValueError, match="an item 77 now"):
        moved.of_users(np.arange(5))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y": None}, "no column y"),
        ({"u": "unsorted"}, "in order of users"),
        ({"y": "missing"}, "y holds values that are missing"),
        ({"a": "words"}, "whole numbers"),
    ],
)
def test_parquet_that_makes_no_sense_is_refused(source, tmp_path, changed, words):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: source.columns[name] for name in ("u", "a", "b", "y")}
    wrong = {
        "unsorted": columns["u"][::-1],
        "missing": pa.array([None, *columns["y"][1:]]),
        "words": [f"item {a}" for a in columns["a"]],
    }
    ((name, how),) = changed.items()
    columns = {each: value for each, value in columns.items() if how or each != name}
    pq.write_table(pa.table(columns | ({name: wrong[how]} if how else {})), tmp_path / "labels.parquet")
    with pytest.raises(ValueError, match=words):
        ParquetLabels(tmp_path / "labels.parquet")


def test_parquet_that_ends_early_or_changes_is_refused(source, tmp_path):
    path = write_parquet(tmp_path / "labels.parquet", source)
    opened = ParquetLabels(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match="changed while they were read"):
        fitted(opened, batch_size=60)
    with pytest.raises(ValueError, match="ends early"):
        ParquetLabels(path)
    with pytest.raises(ValueError, match="is not there"):
        ParquetLabels(tmp_path / "nothing.parquet")


def test_batches_are_random_runs_of_neighbours_and_everybody_comes_once():
    users = np.arange(3, 1003)
    batches = list(batches_of_runs(users, 100, np.random.default_rng(0), run=10))
    assert sorted(np.concatenate(batches)) == list(users)
    assert {len(batch) for batch in batches} == {100}
    assert all((np.diff(batch) > 0).all() for batch in batches)
    assert all(np.count_nonzero(np.diff(batch) > 1) > 4 for batch in batches)


def test_weights_and_ties_count_in_a_source():
    rng = np.random.default_rng(0)
    labels = draw_labels(rng, rng.standard_normal((10, 80)), 15, ties=0.2)
    weighted = PairwiseLabels(labels.u, labels.a, labels.b, labels.y, rng.choice([0.0, 1.0, 2.0], len(labels)))
    plain, other = (fitted(SortedLabels.of(each), batch_size=40, n_components=2) for each in (labels, weighted))
    assert np.abs(plain.predict_consensus() - other.predict_consensus()).max() > 0.01
