"""Questionnaire answers as vectors."""

import numpy as np

from modelling.features.traits import TraitFeatures

ANSWERS = [
    {"pets": ["cat", "dog"], "age": 20},
    {"pets": ["dog"], "age": 30},
    {"pets": [], "age": 40},
    {},
]


def test_several_choices_set_several_columns() -> None:
    features = TraitFeatures().fit(ANSWERS)
    assert features.categories == {"pets": ("cat", "dog")}
    columns = features.transform(ANSWERS)[:, 1:] * np.sqrt(2.0)
    np.testing.assert_allclose(columns, [[1, 1], [0, 1], [0, 0], [0, 0]])


def test_a_restored_encoding_gives_the_same_vectors() -> None:
    features = TraitFeatures().fit(ANSWERS)
    restored = TraitFeatures.from_state(features.to_state())
    np.testing.assert_array_equal(restored.transform(ANSWERS), features.transform(ANSWERS))
