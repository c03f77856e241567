"""The JSON form of a questionnaire: what is accepted, and a reason for everything else."""

import json

import pytest
from django.core.exceptions import ValidationError

from annotation.forms.question_rules import format_questionnaire, parse_questionnaire
from annotation.models.questions import Question

AGE = {"name": "age", "label": "Your age", "choices": ["18-29", "30+"]}
FREE = {"name": "note", "label": "Anything else?"}
NUMBER = {**FREE, "kind": "number"}
SCALE = {**FREE, "kind": "scale", "min": 1, "max": 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"name": "age"', "line 1, column 16"),
        ("{}", "must be a list"),
        ("[1]", "Question 1: write it as"),
        (json.dumps([AGE, {**AGE, "name": "Her Age"}]), "Question 2: it needs a name"),
        (json.dumps([{**AGE, "label": ""}]), "it needs a label"),
        (json.dumps([{**AGE, "label": "a\u0000b"}]), "it needs a label"),
        (json.dumps([{**AGE, "label": "\ud800"}]), "it needs a label"),
        (json.dumps([{**AGE, "choices": ["one"]}]), "it needs 2 to 50 choices"),
        (json.dumps([{**AGE, "choices": "one"}]), "it needs 2 to 50 choices"),
        (json.dumps([{**AGE, "choices": [1, 2]}]), "must be text, 1 to"),
        (json.dumps([{**AGE, "choices": ["one", "one"]}]), "two of its choices are the same"),
        (json.dumps([{**AGE, "options": []}]), "“options” is unknown"),
        (json.dumps([AGE, AGE]), "Two questions have the name “age”"),
        (json.dumps([{"name": f"q{n}", "label": "?"} for n in range(21)]), "at most 20 questions"),
        ("[" * 15_000, "nested too deeply"),
        (json.dumps([{**FREE, "kind": "slider"}]), "its kind must be one of"),
        (json.dumps([{**FREE, "kind": "several"}]), "it needs 2 to 50 choices"),
        (json.dumps([{**AGE, "kind": "text"}]), "“choices” does not belong"),
        (json.dumps([{**FREE, "min": 1}]), "“min” does not belong"),
        (json.dumps([{**NUMBER, "min": "one"}]), "write a number"),
        ('[{"name": "n", "label": "N", "kind": "number", "max": NaN}]', "write a number"),
        (json.dumps([{**NUMBER, "min": 5, "max": 5}]), "must be larger"),
        (json.dumps([{**SCALE, "max": 5.5}]), "a scale needs"),
        (json.dumps([{**SCALE, "max": 20}]), "at most 11 numbers"),
        (json.dumps([{**SCALE, "low": "x" * 61}]), "at most 60 characters"),
        (json.dumps([{**AGE, "required": "yes"}]), "“required” must be true or false"),
        (json.dumps([{**AGE, "when": "never"}]), "“when” must be before or after"),
    ],
)
def test_an_invalid_questionnaire_is_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_questionnaire(text)


@pytest.mark.parametrize(
    "question",
    [
        AGE,
        FREE,
        {**AGE, "kind": "several", "required": True, "when": "after"},
        {**NUMBER, "min": 0.5},
        {**SCALE, "low": "not at all", "high": "very"},
        {**FREE, "kind": "text", "when": "after"},
    ],
)
def test_a_question_is_read_and_stored_unchanged(question: dict[str, object]) -> None:
    assert parse_questionnaire(format_questionnaire([question])) == [question]
    assert Question.from_json(question).to_json() == question


def test_the_model_may_use_answers_given_before_except_free_text() -> None:
    kinds = [AGE, FREE, NUMBER, SCALE, {**FREE, "kind": "text"}, {**AGE, "when": "after"}]
    assert [Question.from_json(question).is_trait for question in kinds] == [True] * 4 + [False] * 2
