"""The columns of a judgement file: what they can be used as, and guesses from common names and first cells."""

from collections.abc import Callable
from statistics import mean, median

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy

from annotation.importing.cells import parse_milliseconds, parse_time
from annotation.importing.columns import KEEP, SKIP, STUDY, STUDY_NAMES, ColumnMap, Guess, TableSample

TRAIT_PREFIX, EXTRA_PREFIX = "trait:", "extra:"
LONG_CELLS = 300  # mean cell length above which a column holds item texts or conversations
LONGEST_SECONDS = 300  # a median response time above this is in milliseconds


class JudgementUse(TextChoices):
    """What a column of a judgement file can be used as; the values name the columns in messages."""

    WORKER = "worker", gettext_lazy("Worker: your ID for the person")
    FIRST = "a", gettext_lazy("First item (key)")
    SECOND = "b", gettext_lazy("Second item (key)")
    CHOICE = "choice", gettext_lazy("Preferred item, or tie")
    WINNER = "winner", gettext_lazy("Winner (key)")
    LOSER = "loser", gettext_lazy("Loser (key)")
    PAIR = "pair", gettext_lazy("Both keys, joined by an underscore")
    TIME = "time", gettext_lazy("Time of the judgement")
    MILLISECONDS = "response_ms", gettext_lazy("Response time in milliseconds")
    SECONDS = "response_seconds", gettext_lazy("Response time in seconds")
    NOTE = "note", gettext_lazy("Reason that the worker wrote")
    TRAIT = "trait", gettext_lazy("Trait of the worker")
    STUDY = STUDY, gettext_lazy("Study: choose which rows to import")
    RETRACTED = "retracted", gettext_lazy("Retracted: rows with “true” are left out")
    WORKER_NUMBER = "worker_number", gettext_lazy("Order in which workers joined")
    KEEP = KEEP, gettext_lazy("Keep as an extra column")
    SKIP = SKIP, gettext_lazy("Leave out")


USE = JudgementUse
REPEATABLE = {USE.TRAIT, USE.KEEP, USE.SKIP}
WORKER_NAMES = (
    "worker", "worker_id", "workerid", "judge", "judge_id", "turkerid", "annotator", "annotator_id", "rater",
    "rater_id", "performer", "participant", "participant_id", "assessor", "user", "user_id", "evaluation_session_id",
)  # fmt: skip
SIDE_NAMES = (
    ("a", "b"), ("item_a", "item_b"), ("left", "right"), ("left_id", "right_id"), ("item_left", "item_right"),
    ("model_a", "model_b"), ("first", "second"), ("item1", "item2"), ("item_1", "item_2"), ("option_a", "option_b"),
    ("candidate_a", "candidate_b"), ("id_a", "id_b"), ("key_a", "key_b"), ("a1", "a2"), ("left_item", "right_item"),
    ("option1", "option2"), ("option_1", "option_2"),
)  # fmt: skip
OUTCOME_NAMES = (
    ("winner", "loser"), ("won", "lost"), ("candidate_chosen", "candidate_not_chosen"), ("chosen", "rejected"),
    ("chosen", "not_chosen"), ("chosen", "unchosen"), ("preferred", "not_preferred"), ("better", "worse"),
    ("winner_id", "loser_id"), ("win", "lose"),
)  # fmt: skip
CHOICE_NAMES = (
    "choice", "winner", "label", "won", "preferred", "preference", "chosen", "selected", "answer", "vote", "result",
    "outcome", "judgement", "judgment", "winner_id", "selected_item", "chosen_item", "preferred_item",
)  # fmt: skip
TIME_NAMES = (
    "judged_at", "submitted", "submitted_at", "submit_time", "timestamp", "tstamp", "created_at", "datetime", "date",
    "time",
)  # fmt: skip
MILLISECOND_NAMES = ("response_ms", "rt_ms", "response_time_ms", "duration_ms", "time_ms", "milliseconds", "latency_ms")
SECOND_NAMES = ("response_seconds", "work_seconds", "seconds", "duration_seconds", "response_time_s")
DURATION_NAMES = ("response_time", "time_taken", "rt", "reaction_time", "duration", "worktimeinseconds")
NOTE_NAMES = ("note", "comment", "comments", "reason", "rationale", "explanation", "justification", "remark")
TRAIT_NAMES = ("age", "gender", "country", "education", "native_language")
OWN_COLUMNS = (
    "sequence", "uuid", "a_revision", "b_revision", "skip_reason", "shown_first", "round", "source", "late",
    "clock_doubtful", "retracted_sequence", "excluded", "arm",
)  # fmt: skip


def guess_judgement_columns(sample: TableSample) -> ColumnMap:
    """Guess the uses of the columns from common names; times and durations also from their cells."""
    guess = Guess(sample, OWN_COLUMNS)
    guess.assign_prefixed(USE.TRAIT, TRAIT_PREFIX)
    guess.assign_prefixed(USE.KEEP, EXTRA_PREFIX)
    guess.assign(USE.WORKER, *WORKER_NAMES)
    guess.assign(USE.STUDY, *STUDY_NAMES)
    guess.assign(USE.RETRACTED, "retracted")
    guess.assign(USE.WORKER_NUMBER, "worker_number")
    _assign_pair(guess)
    guess.assign(USE.TIME, *(name for name in TIME_NAMES if _can_parse(guess, name, parse_time)))
    if sample.is_export:
        guess.assign(USE.SKIP, "created_at")  # when the event was stored, perhaps by an import
    guess.assign(USE.MILLISECONDS, *MILLISECOND_NAMES)
    if not guess.has(USE.MILLISECONDS):
        guess.assign(USE.SECONDS, *SECOND_NAMES)
        _assign_duration(guess)
    guess.assign(USE.NOTE, *NOTE_NAMES)
    for name in TRAIT_NAMES:
        guess.assign(USE.TRAIT, name)
    for index, name in enumerate(guess.names):
        cells = sample.cells(index)
        if cells and mean(map(len, cells)) > LONG_CELLS:
            guess.assign(USE.SKIP, name)
    return guess.finish()


def _assign_pair(guess: Guess) -> None:
    """Find the columns with the pair and the preference: a pair ID or two sides with a choice, or winner and loser."""
    if "label" in guess.names:
        guess.assign(USE.PAIR, "#id", "#_#id")
    if guess.has(USE.PAIR):
        for name in ("a1", "a2"):  # the texts
            guess.assign(USE.SKIP, name)
        guess.assign(USE.CHOICE, "label")
        return
    sides = next((pair for pair in SIDE_NAMES if set(pair) <= set(guess.names)), None)
    outcomes = next((pair for pair in OUTCOME_NAMES if set(pair) <= set(guess.names)), None)
    if sides is None and outcomes is not None:
        guess.assign(USE.WINNER, outcomes[0])
        guess.assign(USE.LOSER, outcomes[1])
        return
    first, second = sides or (None, None)
    guess.assign(USE.FIRST, *([first] if first else [names[0] for names in SIDE_NAMES]))
    guess.assign(USE.SECOND, *([second] if second else [names[1] for names in SIDE_NAMES]))
    guess.assign(USE.CHOICE, *CHOICE_NAMES)


def _assign_duration(guess: Guess) -> None:
    """Tell milliseconds from seconds by the median."""
    name = next((name for name in DURATION_NAMES if _can_parse(guess, name, parse_milliseconds)), None)
    if name is not None and not guess.has(USE.SECONDS):
        numbers = [float(cell) for cell in guess.sample.cells(guess.names.index(name))]
        guess.assign(USE.MILLISECONDS if median(numbers) > LONGEST_SECONDS else USE.SECONDS, name)


def _can_parse(guess: Guess, name: str, parse: Callable[[str], object]) -> bool:
    """Whether there is an unused column of this name, and all its cells can be parsed."""
    index = guess.index_of(name)
    cells = [] if index is None else guess.sample.cells(index)
    try:
        for cell in cells:
            parse(cell)
    except ValueError:
        return False
    return bool(cells)


def required_uses(columns: ColumnMap) -> list[str]:
    """The uses that a file with these columns must have."""
    if columns.find(USE.WINNER) is not None or columns.find(USE.LOSER) is not None:
        return [USE.WINNER, USE.LOSER]
    if columns.find(USE.PAIR) is not None:
        return [USE.PAIR, USE.CHOICE]
    return [USE.FIRST, USE.SECOND, USE.CHOICE]
