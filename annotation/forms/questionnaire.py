"""The questions to workers: written as JSON, checked, and refused in plain words."""

import json
import re
import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

MOST_QUESTIONS = 20
MOST_CHOICES = 50
LONGEST_LABEL = 300
LONGEST_CHOICE = 200
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def as_text(questions: list[dict[str, Any]]) -> str:
    return json.dumps(questions, ensure_ascii=False, indent=2) if questions else ""


def parse_questionnaire(text: str) -> list[dict[str, Any]]:
    """The questions in the text; none when it is empty. ValidationError says which question is wrong and how."""
    questions = _read(text) if text.strip() else []
    if not isinstance(questions, list):
        raise ValidationError(_("The questions must be a list: put them between [ and ]."))
    if len(questions) > MOST_QUESTIONS:
        raise ValidationError(_("Ask at most %(most)d questions.") % {"most": MOST_QUESTIONS})
    for number, question in enumerate(questions, start=1):
        if problem := _problem_with(question):
            raise ValidationError(_("Question %(number)d: %(problem)s") % {"number": number, "problem": problem})
    _refuse_equal_names([question["name"] for question in questions])
    return questions


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno}
        message = _("This is not JSON: look at line %(line)d, column %(column)d. Is a comma, quote or bracket missing?")
        raise ValidationError(message % place) from None
    except RecursionError:
        raise ValidationError(_("This is nested too deeply.")) from None


def _problem_with(question: Any) -> str:
    """What is wrong with this question, or nothing."""
    if not isinstance(question, dict):
        return _('write it as {"name": ..., "label": ..., "choices": [...]}.')
    if unknown := sorted(set(question) - {"name", "label", "choices"}):
        return _("“%(key)s” is not known; use name, label and choices.") % {"key": unknown[0]}
    if not (isinstance(question.get("name"), str) and NAME.fullmatch(question["name"])):
        return _("it needs a name of small letters, digits and underscores that starts with a letter.")
    if not _is_line(question.get("label"), LONGEST_LABEL):
        return _("it needs a label, the words workers read, of 1 to %(most)d characters.") % {"most": LONGEST_LABEL}
    return _problem_with_choices(question["choices"]) if "choices" in question else ""


def _problem_with_choices(choices: Any) -> str:
    if not (isinstance(choices, list) and all(_is_line(choice, LONGEST_CHOICE) for choice in choices)):
        words = _("its choices must be a list of words, each of 1 to %(most)d characters.")
        return words % {"most": LONGEST_CHOICE}
    if not 2 <= len(choices) <= MOST_CHOICES:
        return _("it needs 2 to %(most)d choices; leave them out to let workers write.") % {"most": MOST_CHOICES}
    if len(set(choices)) < len(choices):
        return _("two of its choices are equal.")
    return ""


def _is_line(value: Any, longest: int) -> bool:
    """Text of a bounded length that a database can keep: no control characters, no halves of characters."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= longest:
        return False
    return not {"Cc", "Cs"} & {unicodedata.category(character) for character in value}


def _refuse_equal_names(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(_("Two questions have the name “%(name)s”. Give each its own.") % {"name": name})
