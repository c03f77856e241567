"""The preparation settings: what is saved, and what is refused."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Preparation, Project, User

pytestmark = pytest.mark.django_db
PAGE = "/projects/pets/preparation/"
PAIR = {"first_0": "Cats purr.", "second_0": "asdf", "answer_0": "left", "explanation_0": "The second says nothing."}


@pytest.fixture
def olga(project: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    return log_in(owner)


def test_pairs_and_questions_are_saved_and_shown_again(olga: Client) -> None:
    olga.post(PAGE, PAIR | {"question_0": "Whose view?", "choices_0": "The experts'\n*Mine"})
    saved = Preparation.objects.get()
    assert saved.practice[0]["answer"] == "left"
    assert saved.comprehension == [{"question": "Whose view?", "choices": ["The experts'", "Mine"], "answer": 1}]
    page = olga.get(PAGE).content.decode()
    assert "Cats purr." in page
    assert "*Mine" in page


@pytest.mark.parametrize(
    "values",
    [
        PAIR | {"explanation_0": ""},
        {"first_1": "Only one text"},
        {"question_0": "Which?", "choices_0": "one\ntwo"},
        {"question_0": "Which?", "choices_0": "*one\n*two"},
        {"question_0": "Which?", "choices_0": "*one"},
        {"question_0": "Which?", "choices_0": "*same\nsame"},
        {"choices_0": "*one\ntwo"},
    ],
)
def test_incomplete_pairs_and_questions_are_refused(olga: Client, values: dict[str, str]) -> None:
    assert olga.post(PAGE, values).status_code == 422
    assert not Preparation.objects.exists()
