"""Features of texts and workers: finite and reproducible."""

import itertools

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.feature_extraction.text import CountVectorizer

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.features import text
from modelling.features.item_kernels import default_item_kernel
from modelling.features.surface import SURFACE_NAMES, surface_features
from modelling.features.text import (
    RankGaussian,
    TextFeatures,
    character_ngrams,
    tokenise_words,
)
from modelling.features.traits import TraitFeatures
from modelling.features.word_vectors import word_vectors

TEXTS = [
    "Plastic bottles should be banned because they pollute the sea, and research shows that it gets worse.",
    "lol no!!! u r so wrong",
    "However, a ban could harm people without clean tap water. For example, in some towns pipes contain lead.",
    "I THINK THIS IS STUPID",
    "See https://example.org for 3 studies (2019, 2020).",
]
ODD = {
    "no text at all": [],
    "one text": ["Only this."],
    "one text, empty": [""],
    "identical texts": ["the same words"] * 6,
    "emoji": ["🎉🎉", "👍🏽", "🎉 yes"],
    "right to left": ["שלום עולם", "مرحبا بالعالم؟"],
    "only white space": ["  \n\t ", "\n"],
    "half a surrogate": ["\ud800 broken", "whole"],
    "200 kB": ["word and another " * 12_000, "short"],
}


def surface(text, name):
    return surface_features([text])[0, SURFACE_NAMES.index(name)]


@pytest.mark.parametrize("texts", [TEXTS, *ODD.values()], ids=["plain", *ODD.keys()])
def test_terms_are_counted_as_scikit_learn_counts_them(texts):
    """An independent computation of the counts, so that stored versions keep giving the same features."""
    words = CountVectorizer(analyzer="word", token_pattern=r"\w+|[^\w\s]")
    letters = CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    for analyse, counter in ((tokenise_words, words), (character_ngrams, letters)):
        assert [sorted(analyse(text)) for text in texts] == [sorted(counter.build_analyzer()(text)) for text in texts]
    features = TextFeatures().fit(TEXTS)
    start, stop = features.blocks["letters"]
    letters.set_params(vocabulary=list(features.vocabularies["letters"]))
    expected = np.log1p(letters.transform(texts).toarray()) if texts else np.zeros((0, stop - start))
    np.testing.assert_array_equal(features._raw(texts, None)["letters"], expected)


@pytest.mark.parametrize("texts", ODD.values(), ids=ODD.keys())
def test_each_text_gets_a_finite_row(texts):
    X = TextFeatures().fit(texts).transform(texts)
    assert len(X) == len(texts)
    assert np.isfinite(X).all()


def test_unseen_texts_get_rows_of_the_same_width():
    features = TextFeatures().fit(TEXTS)
    new = features.transform(["Something else entirely, at last.", "🎉"])
    assert new.shape == (2, features.transform(TEXTS).shape[1])
    assert np.isfinite(new).all()


def test_a_row_depends_on_its_own_text_only():
    features = TextFeatures().fit(TEXTS)
    np.testing.assert_array_equal(features.transform(TEXTS)[2:3], features.transform(TEXTS[2:3]))


def test_restored_features_give_the_same_rows():
    numeric = np.arange(10.0).reshape(5, 2)
    features = TextFeatures().fit(TEXTS, numeric=numeric)
    state = features.to_state()
    assert all(isinstance(value, np.ndarray) and value.dtype != object for value in state.values())
    again = TextFeatures.from_state(state)
    assert again.blocks == features.blocks
    np.testing.assert_array_equal(again.transform(TEXTS, numeric), features.transform(TEXTS, numeric))


def test_a_state_of_another_version_is_rejected():
    state = TextFeatures().fit(TEXTS).to_state()
    state["version"] = np.array(0)
    with pytest.raises(ValueError, match="version 0"):
        TextFeatures.from_state(state)


def test_blocks_cover_all_columns_once():
    features = TextFeatures().fit(TEXTS, numeric=np.ones((5, 1)))
    bounds = list(features.blocks.values())
    assert bounds[0][0] == 0
    assert all(left[1] == right[0] for left, right in itertools.pairwise(bounds))
    assert bounds[-1][1] == features.transform(TEXTS, np.ones((5, 1))).shape[1]


def test_numeric_columns_may_be_huge_or_constant():
    numeric = np.column_stack([[1e300, -1e300, 0, 1, 2], np.full(5, 7.0)])
    features = TextFeatures().fit(TEXTS, numeric=numeric)
    start, stop = features.blocks["numeric"]
    own = features.transform(TEXTS, numeric)[:, start:stop]
    assert np.isfinite(own).all()
    assert np.ptp(own[:, 1]) == 0
    assert list(np.argsort(own[:, 0])) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("bad", [[[np.nan]] * 5, [[np.inf]] * 5, [[1.0]] * 4, [1.0] * 5])
def test_invalid_numeric_columns_are_rejected(bad):
    with pytest.raises(ValueError, match=r"[Nn]umeric column"):
        TextFeatures().fit(TEXTS, numeric=bad)


def test_missing_numeric_columns_are_rejected():
    features = TextFeatures().fit(TEXTS, numeric=np.ones((5, 2)))
    with pytest.raises(ValueError, match="2 numeric columns"):
        features.transform(TEXTS)


def test_surface_features_count_what_their_names_say():
    assert surface("Why? Because I said so!", "question_marks") == pytest.approx(1 / 5)
    assert surface("Why? Because I said so!", "causes") == pytest.approx(3 / 5)
    assert surface("SHOUTED words", "shouted_words") == pytest.approx(1 / 2)
    assert surface("a nation of kindness, happily", "abstract_nouns") == pytest.approx(2 / 5)
    assert surface("see http://a.org and www.b.org", "links") == pytest.approx(np.log(3))
    assert surface("one two. three four five. six", "log_sentences") == pytest.approx(np.log(4))


def test_rank_gaussian_keeps_the_order_and_stays_finite():
    fitted = RankGaussian.fit(np.array([[1.0], [5.0], [2.0], [1e9]]))
    values = fitted.transform(np.array([[-1e9], [1.0], [1.5], [5.0], [1e12]]))[:, 0]
    assert np.all(np.diff(values) >= 0)
    assert values[0] == pytest.approx(-values[-1])


def test_many_rows_are_ranked_with_few_knots():
    X = np.random.default_rng(0).exponential(size=(5_000, 1))
    Z = RankGaussian.fit(X).transform(X)[:, 0]
    assert abs(Z.mean()) < 0.05
    assert abs(Z.std() - 1) < 0.05


def test_similar_texts_have_similar_word_vectors():
    (dog, puppy, treaty), _ = word_vectors(["a dog", "a puppy", "an international treaty"])
    assert np.linalg.norm(dog - puppy) < np.linalg.norm(dog - treaty)


def test_the_default_kernel_generalises_a_preference_for_long_texts():
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 60, size=40)
    texts = [" ".join(rng.choice(["sea", "tree", "river", "stone", "cloud"], size=n)) + "." for n in lengths]
    features = TextFeatures().fit(texts[:30])
    a, b = rng.integers(0, 30, size=(2, 300))
    keep = lengths[a] != lengths[b]
    labels = PairwiseLabels(
        u=np.zeros(keep.sum(), dtype=int), a=a[keep], b=b[keep], y=(lengths[a] > lengths[b])[keep].astype(float)
    )
    model = CrowdGPPL(n_components=0, item_kernel=default_item_kernel(features.blocks))
    model.fit(labels, X_items=features.transform(texts[:30]))
    scores = model.predict_consensus(X_items=features.transform(texts[30:]))
    assert kendalltau(scores, lengths[30:]).statistic > 0.7


def test_sentence_embeddings_add_a_block_that_is_restored(monkeypatch):
    monkeypatch.setattr(text, "sentence_vectors", lambda texts: np.array([[len(each), 1.0] for each in texts]))
    features = TextFeatures(sentences=True).fit(TEXTS)
    start, stop = features.blocks["sentences"]
    assert stop - start == 2
    again = TextFeatures.from_state(features.to_state())
    assert np.array_equal(again.transform(TEXTS), features.transform(TEXTS))


ANSWERS = [
    {"age": 20, "country": "DE"},
    {"age": 40, "country": "FR"},
    {"age": None, "country": ""},
    {"country": "DE"},
]


def test_traits_are_standardised_or_one_hot_encoded():
    X = TraitFeatures().fit(ANSWERS).transform(ANSWERS)
    np.testing.assert_allclose(X[:, 0], [-1, 1, 0, 0])
    assert np.linalg.norm(X[0, 1:] - X[1, 1:]) == pytest.approx(1.0)
    np.testing.assert_array_equal(X[2], 0)


def test_unseen_answers_count_as_missing():
    X = TraitFeatures().fit(ANSWERS).transform([{"age": "old", "country": "IT", "new question": 3}])
    np.testing.assert_array_equal(X, np.zeros((1, 3)))


def test_without_answers_there_are_no_columns():
    assert TraitFeatures().fit([{}, {}]).transform([{}, {}]).shape == (2, 0)
    assert TraitFeatures().fit([]).transform([]).shape == (0, 0)


def test_trait_features_are_restored_from_arrays():
    traits = TraitFeatures().fit(ANSWERS)
    again = TraitFeatures.from_state(traits.to_state())
    np.testing.assert_array_equal(again.transform(ANSWERS), traits.transform(ANSWERS))


def test_an_infinite_answer_is_rejected_with_a_message():
    with pytest.raises(ValueError, match="'age' is not a finite number"):
        TraitFeatures().fit([{"age": float("nan")}])
