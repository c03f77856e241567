"""The questionnaire: owners build it without JSON, workers answer it before and after the task."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from annotation.models import Project, User, Worker
from annotation.services import erase_worker
from annotation.services.privacy.retention import erase_worker_data

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]
URL = "/projects/pets/questions/"
AGE = {"name": "age", "label": "Your age", "choices": ["18-29", "30+"]}
TOWN = {"name": "town", "label": "Your town"}


def post(client: Client, rows: list[dict[str, str]], action: str = "") -> Any:
    defaults = {"kind": "choice", "when": "before"}
    fields = {f"form-{n}-{name}": value for n, row in enumerate(rows) for name, value in {**defaults, **row}.items()}
    counts = {"form-TOTAL_FORMS": str(len(rows)), "form-INITIAL_FORMS": "0"}
    return client.post(URL, {**counts, **fields, **({"action": action} if action else {})})


def labels_in(response: Any) -> list[str]:
    return re.findall(r'name="form-\d+-label" value="([^"]*)"', response.content.decode())


def test_every_kind_of_question_is_saved(project: Project, owner: User, log_in: LogIn) -> None:
    rows = [
        {"label": "Your age", "choices": "18-29\r\n\r\n 30+ "},
        {"label": "Which pets?", "kind": "several", "choices": "cat\ndog", "required": "on"},
        {"label": "How many?", "kind": "number", "min": "0", "max": "9", "choices": "left over"},
        {"label": "How hard?", "kind": "scale", "low": "easy", "high": "hard", "when": "after", "name": "effort"},
        {"label": "Noch etwas? / 还有吗", "kind": "text", "when": "after"},
        {"label": "还有吗", "kind": "text"},
        {"label": "Your age", "kind": "number"},
    ]
    assert post(log_in(owner), rows).status_code == 302
    project.refresh_from_db()
    assert project.questionnaire == [
        {"name": "your_age", "label": "Your age", "choices": ["18-29", "30+"]},
        {
            "name": "which_pets",
            "label": "Which pets?",
            "kind": "several",
            "choices": ["cat", "dog"],
            "required": True,
        },
        {"name": "how_many", "label": "How many?", "kind": "number", "min": 0, "max": 9},
        {
            "name": "effort",
            "label": "How hard?",
            "kind": "scale",
            "min": 1,
            "max": 5,
            "low": "easy",
            "high": "hard",
            "when": "after",
        },
        {"name": "noch_etwas", "label": "Noch etwas? / 还有吗", "kind": "text", "when": "after"},
        {"name": "question", "label": "还有吗", "kind": "text"},
        {"name": "your_age_2", "label": "Your age", "kind": "number"},
    ]


def test_saving_an_existing_questionnaire_changes_nothing(project: Project, owner: User, log_in: LogIn) -> None:
    Project.objects.filter(pk=project.pk).update(questionnaire=[AGE, TOWN])
    client = log_in(owner)
    page = client.get(URL).content.decode()
    assert "short answer" in page
    rows = [
        {"label": "Your age", "choices": "18-29\n30+", "name": "age"},
        {"label": "Your town", "kind": "short", "name": "town"},
    ]
    assert post(client, rows).status_code == 302
    project.refresh_from_db()
    assert project.questionnaire == [AGE, TOWN]
    assert project.audit.count() == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": ""}, "It needs a label"),
        ({"label": "A", "choices": "one"}, "It needs 2 to 50 choices."),
        ({"label": "A", "kind": "scale", "min": "1", "max": "50"}, "A scale has at most 11 numbers."),
        ({"label": "A", "kind": "number", "min": "x"}, "Enter a number."),
        ({"label": "A", "kind": "number", "min": "5", "max": "1"}, "The largest number must be larger"),
        ({"label": "A", "kind": "text", "name": "Not A Name"}, "It needs a name"),
        ({"label": "A", "kind": "nonsense"}, "not one of the available choices"),
    ],
)
def test_an_error_keeps_everything_typed(
    row: dict[str, str], message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = post(log_in(owner), [{"label": "First", "choices": "kept\nas typed"}, row])
    assert response.status_code == 422
    page = response.content.decode()
    assert message in page
    assert "kept\nas typed" in page
    project.refresh_from_db()
    assert project.questionnaire == []


def test_two_questions_cannot_have_the_same_column(project: Project, owner: User, log_in: LogIn) -> None:
    rows = [{"label": "A", "kind": "text", "name": "same"}, {"label": "B", "kind": "text", "name": "same"}]
    response = post(log_in(owner), rows)
    assert response.status_code == 422
    page = response.content.decode()
    assert page.count('<p class="error">Another question has the same name.') == 2


@pytest.mark.parametrize(
    ("action", "labels"),
    [
        ("add", ["A", "B", "C", ""]),
        ("up-1", ["B", "A", "C"]),
        ("up-0", ["A", "B", "C"]),
        ("down-1", ["A", "C", "B"]),
        ("down-2", ["A", "B", "C"]),
        ("remove-0", ["B", "C"]),
        ("remove-9", ["A", "B", "C"]),
        ("explode", ["A", "B", "C"]),
    ],
)
def test_questions_are_added_moved_and_removed_without_saving(
    action: str, labels: list[str], project: Project, owner: User, log_in: LogIn
) -> None:
    rows = [{"label": "A", "choices": "one"}, {"label": "B", "kind": "number", "min": "x"}, {"label": "C"}]
    response = post(log_in(owner), rows, action)
    assert response.status_code == 200
    page = response.content.decode()
    assert [label for label in labels_in(response) if label] == [label for label in labels if label]
    assert page.count('-kind" ') == len(labels)
    assert "Not saved yet" in page
    project.refresh_from_db()
    assert project.questionnaire == []


def test_the_last_question_can_be_removed(project: Project, owner: User, log_in: LogIn) -> None:
    response = post(log_in(owner), [{"label": "A"}], "remove-0")
    assert "This study asks workers no questions yet." in response.content.decode()


QUESTIONS = [
    {**AGE, "required": True},
    {"name": "pets", "label": "Which pets?", "kind": "several", "choices": ["cat", "dog", "fish"]},
    {"name": "size", "label": "Household", "kind": "number", "min": 1, "max": 20},
    {"name": "interest", "label": "Interest", "kind": "scale", "min": 1, "max": 5, "low": "none", "high": "much"},
    {"name": "why", "label": "Why do you take part?", "kind": "text"},
    {"name": "effort", "label": "How hard was it?", "kind": "scale", "min": 0, "max": 10, "when": "after"},
    {"name": "comment", "label": "Anything else?", "kind": "text", "when": "after"},
]
ANSWERS = {
    "q_age": "30+",
    "q_pets": ["cat", "fish"],
    "q_size": "3.0",
    "q_interest": "4",
    "q_why": "Curious,\nand bored",
}


@pytest.fixture
def asking(project: Project) -> Project:
    Project.objects.filter(pk=project.pk).update(questionnaire=QUESTIONS, consent="", judgements_per_worker=1)
    project.refresh_from_db()
    return project


def test_answers_before_the_task_are_stored_as_traits_and_free_text_apart(asking: Project, client: Client) -> None:
    assert client.post("/s/pets/join/", ANSWERS).status_code == 302
    worker = Worker.objects.get()
    assert worker.traits == {"age": "30+", "pets": ["cat", "fish"], "size": 3, "interest": 4}
    assert worker.answers == {"why": "Curious,\nand bored"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"q_age": ""}, "This field is required."),
        ({"q_pets": ["cow"]}, "not one of the available choices"),
        ({"q_size": "0"}, "greater than or equal to 1"),
        ({"q_size": "1e400"}, "Enter a number."),
        ({"q_interest": "6"}, "not one of the available choices"),
    ],
)
def test_a_wrong_answer_is_explained_and_the_others_are_kept(
    wrong: dict[str, Any], message: str, asking: Project, client: Client
) -> None:
    response = client.post("/s/pets/join/", {**ANSWERS, **wrong})
    assert response.status_code == 422
    page = response.content.decode()
    assert message in page
    assert "Curious,\nand bored" in page
    assert Worker.objects.count() == 0


def test_optional_questions_can_be_left_out(asking: Project, client: Client) -> None:
    assert client.post("/s/pets/join/", {"q_age": "30+"}).status_code == 302
    assert Worker.objects.get().traits == {"age": "30+"}


@pytest.fixture
def finished(asking: Project, client: Client, judge: Any) -> Worker:
    """A worker in this browser who has judged their last pair."""
    client.post("/s/pets/join/", ANSWERS)
    worker = Worker.objects.get()
    judge(worker, "left")
    return worker


def test_questions_after_the_task_come_before_the_thank_you_page(finished: Worker, client: Client) -> None:
    page = client.get("/s/pets/").content.decode()
    assert "How hard was it?" in page
    assert "Thank you." not in page
    response = client.post("/s/pets/questions/", {"q_effort": "0", "q_comment": "Fun"}, follow=True)
    assert "Thank you." in response.content.decode()
    finished.refresh_from_db()
    assert finished.answers == {"why": "Curious,\nand bored", "effort": 0, "comment": "Fun"}
    assert "Thank you." in client.get("/s/pets/").content.decode()


def test_questions_after_the_task_can_be_skipped(finished: Worker, client: Client) -> None:
    response = client.post("/s/pets/questions/", {"q_effort": "3", "skip": "on"}, follow=True)
    assert "Thank you." in response.content.decode()
    finished.refresh_from_db()
    assert "effort" not in finished.answers


def test_a_required_question_after_the_task_cannot_be_skipped(finished: Worker, client: Client) -> None:
    required = [{**question, "required": True} for question in QUESTIONS]
    Project.objects.update(questionnaire=required)
    assert "Skip these questions" not in client.get("/s/pets/").content.decode()
    response = client.post("/s/pets/questions/", {"q_comment": "Fun", "skip": "on"})
    assert response.status_code == 422
    assert "Fun" in response.content.decode()
    finished.refresh_from_db()
    assert finished.closing_at is None


def test_erasure_and_retention_remove_all_answers(finished: Worker, project: Project) -> None:
    assert erase_worker_data(project).answers == 1
    finished.refresh_from_db()
    assert (finished.traits, finished.answers) == ({}, {})
    Worker.objects.update(answers={"why": "again"})
    erase_worker(worker=Worker.objects.get(), user=None)
    assert Worker.objects.get().answers == {}


def test_a_simulated_worker_need_not_answer(asking: Project, client: Client) -> None:
    assert client.post("/s/pets/join/", {"simulated": "yes"}).status_code == 302
    assert Worker.objects.get().simulated
