"""Rules for the questions of a questionnaire, and its JSON form for commands and the API."""

import json
import re
import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from annotation.models.questions import AFTER, BEFORE, WITH_CHOICES, WITH_LIMITS, QuestionKind

MAX_QUESTIONS = 20
MAX_CHOICES = 50
MAX_LABEL = 300
MAX_CHOICE = 200
MAX_END = 60  # characters in the label at each end of a scale
MAX_STEPS = 10  # numbers on a scale
MAX_NUMBER = 1_000_000_000
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
KEYS = ("name", "label", "kind", "choices", "min", "max", "low", "high", "required", "when")

Problem = tuple[str, str]  # the question's invalid key, and a message


def format_questionnaire(questions: list[dict[str, Any]]) -> str:
    return json.dumps(questions, ensure_ascii=False, indent=2) if questions else ""


def parse_questionnaire(text: str) -> list[dict[str, Any]]:
    """Parse and validate the owner's JSON; an empty text means no questions."""
    questions = _parse_json(text) if text.strip() else []
    if not isinstance(questions, list):
        raise ValidationError(_("The questions must be a list in square brackets: [ … ]."))
    if len(questions) > MAX_QUESTIONS:
        raise ValidationError(_("Ask at most %(limit)d questions.") % {"limit": MAX_QUESTIONS})
    for number, question in enumerate(questions, start=1):
        if problem := find_problem(question):
            raise ValidationError(_("Question %(number)d: %(problem)s") % {"number": number, "problem": problem[1]})
    if name := find_repeated([question["name"] for question in questions]):
        raise ValidationError(_("Two questions have the name “%(name)s”. Names must be unique.") % {"name": name})
    return questions


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno}
        message = _(
            "This is not valid JSON: see line %(line)d, column %(column)d. Is a comma, quote or bracket missing?"
        )
        raise ValidationError(message % place) from None
    except RecursionError:
        raise ValidationError(_("The JSON is nested too deeply.")) from None


def find_repeated(names: list[str]) -> str:
    """Return the first name that occurs more than once, or ""."""
    return next((name for place, name in enumerate(names) if name in names[:place]), "")


def find_problem(question: Any) -> Problem | None:
    """Return what is wrong with a question in its JSON form, or None."""
    if not isinstance(question, dict):
        return "name", _('write it as {"name": ..., "label": ..., "choices": [...]}.')
    if unknown := sorted(set(question) - set(KEYS)):
        return "name", _("“%(key)s” is unknown; use %(keys)s.") % {"key": unknown[0], "keys": ", ".join(KEYS)}
    if not (isinstance(question.get("name"), str) and NAME.fullmatch(question["name"])):
        return "name", _("it needs a name: lower-case letters, digits and underscores, starting with a letter.")
    if not _is_valid_text(question.get("label"), MAX_LABEL):
        message = _("it needs a label, the text that workers read, of 1 to %(limit)d characters.")
        return "label", message % {"limit": MAX_LABEL}
    if question.get("kind", QuestionKind.CHOICE) not in QuestionKind.values:
        return "kind", _("its kind must be one of %(kinds)s.") % {"kinds": ", ".join(QuestionKind.values)}
    if not isinstance(question.get("required", False), bool):
        return "required", _("“required” must be true or false.")
    if question.get("when", BEFORE) not in (BEFORE, AFTER):
        return "when", _("“when” must be before or after.")
    return _find_kind_problem(question)


def _find_kind_problem(question: dict[str, Any]) -> Problem | None:
    """Check the parts that only some kinds of questions have."""
    kind = question.get("kind", QuestionKind.CHOICE if "choices" in question else QuestionKind.SHORT)
    if kind in WITH_CHOICES:
        return _find_choices_problem(question.get("choices"))
    for name, kinds in (("choices", WITH_CHOICES), ("min", WITH_LIMITS), ("max", WITH_LIMITS)):
        if name in question and kind not in kinds:
            return name, _("“%(key)s” does not belong to this kind of question.") % {"key": name}
    if kind in WITH_LIMITS:
        return _find_limits_problem(kind, question.get("min"), question.get("max")) or _find_ends_problem(question)
    return None


def _find_choices_problem(choices: Any) -> Problem | None:
    if not isinstance(choices, list) or not 2 <= len(choices) <= MAX_CHOICES:
        return "choices", _("it needs 2 to %(limit)d choices.") % {"limit": MAX_CHOICES}
    if not all(_is_valid_text(choice, MAX_CHOICE) for choice in choices):
        return "choices", _("each choice must be text, 1 to %(limit)d characters long.") % {"limit": MAX_CHOICE}
    if len(set(choices)) < len(choices):
        return "choices", _("two of its choices are the same.")
    return None


def _find_limits_problem(kind: str, low: Any, high: Any) -> Problem | None:
    """Check the limits: a scale needs a whole number at each end; a number question may leave its limits out."""
    for name, value in (("min", low), ("max", high)):
        if value is not None and not _is_limit(value):
            return name, _("write a number from -%(limit)d to %(limit)d.") % {"limit": MAX_NUMBER}
    if kind == QuestionKind.SCALE and not (isinstance(low, int) and isinstance(high, int)):
        return "max", _("a scale needs a smallest and a largest whole number, such as 1 and 5.")
    if low is not None and high is not None and low >= high:
        return "max", _("the largest number must be larger than the smallest.")
    if kind == QuestionKind.SCALE and high - low > MAX_STEPS:
        return "max", _("a scale has at most %(limit)d numbers.") % {"limit": MAX_STEPS + 1}
    return None


def _is_limit(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -MAX_NUMBER <= value <= MAX_NUMBER


def _find_ends_problem(question: dict[str, Any]) -> Problem | None:
    for name in ("low", "high"):
        if name in question and not _is_valid_text(question[name], MAX_END):
            return name, _("write at most %(limit)d characters.") % {"limit": MAX_END}
    return None


def _is_valid_text(value: Any, max_length: int) -> bool:
    """Whether this is text within the length limit, without control characters or lone surrogates."""
    if not isinstance(value, str) or not 0 < len(value.strip()) <= max_length:
        return False
    return not {"Cc", "Cs"} & {unicodedata.category(character) for character in value}
