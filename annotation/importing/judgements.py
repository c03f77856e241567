"""Past judgements from a file: read and checked first, compared with the project next, appended to its log last."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from django.db import transaction
from django.utils.translation import gettext as _

from annotation.curation import MAX_KEY, current_items, hold_items, look_alike
from annotation.importing.columns import bare, wrong_with_name
from annotation.importing.judgement_rows import Answer, Event, Plan, store_judgements, workers_known
from annotation.importing.problems import ImportRefused, Problems, quoted
from annotation.importing.shapes import UNDERSCORE, shape_of
from annotation.importing.tables import open_table
from annotation.models import Item, Judgement, Project, User
from annotation.services import to_canonical

NAMESPACE = uuid.UUID("5c1d9f0a-6f0e-5b39-9a43-0c5b8b0b8a51")
CHOICES = ("a", "b", "tie")
MAX_WORKER = 200


def read_judgements(path: Path) -> list[Answer]:
    """Every row of the file, or a refusal that lists what is wrong with it."""
    problems, answers = Problems(), []
    with open_table(path) as table:
        if not table.header:
            raise ImportRefused(_("At least 1 judgement is needed.") + " " + _("The file is empty."))
        shape = shape_of(table)
        for line, cells in table.even_rows(problems):
            if not shape.leaves_out(cells):
                number = shape.number_of_worker(cells)
                answers.append(Answer(line, *shape.answer(cells), joined=shape.joined, number=number))
                _check(answers[-1], shape.columns, problems)
    problems.refuse_if_any()
    if not answers:
        raise ImportRefused(_("At least 1 judgement is needed.") + " " + _("The file has a header and no rows."))
    return answers


def plan_judgements(project: Project, answers: list[Answer]) -> Plan:
    """What these rows would add to the project as it is now."""
    items = {item.key: item for item in current_items(project)}
    answers = [_in_keys_of(items, answer) for answer in answers]
    _check_items(answers, items)
    stored, known = _winners_stored(project), workers_known(project)
    plan, problems, strangers = Plan(), Problems(), dict[str, int]()
    for answer, event in _events(project, answers, items):
        winner = stored.get(event.uuid)
        if winner is None:
            plan.added.append(event)
            if answer.worker not in known:
                strangers.setdefault(answer.worker, answer.number)
        elif winner == _winner(answer):
            plan.unchanged += 1
        else:
            problems.add(answer.line, "choice", _("The project has another answer of this worker to this pair."))
    problems.refuse_if_any()
    plan.workers = sorted(strangers, key=lambda name: strangers[name])  # as they appear, where no file numbers them
    return plan


@transaction.atomic
def import_judgements(*, project: Project, user: User | None, rows: list[Answer]) -> Plan:
    """The project's log has these judgements. The same rows again add nothing."""
    hold_items(project)
    plan = plan_judgements(project, rows)
    if plan.changes_anything:
        store_judgements(project, user, plan)
    return plan


def _check(answer: Answer, columns: list[str], problems: Problems) -> None:
    """The row names a worker, two different items and a choice."""
    worker, a, b, choice = columns
    for column, value, longest in ((worker, answer.worker, MAX_WORKER), (a, answer.a, MAX_KEY), (b, answer.b, MAX_KEY)):
        if message := wrong_with_name(value, longest):
            problems.add(answer.line, column, message)
    if answer.a and answer.a == answer.b:
        problems.add(answer.line, b, _("An item cannot be compared with itself."))
    if answer.choice not in CHOICES:
        words = {"value": quoted(answer.choice)}
        problems.add(answer.line, choice, _("%(value)s is not a choice; write a, b or tie.") % words)


def _in_keys_of(items: dict[str, Item], answer: Answer) -> Answer:
    """The answer with its keys as the project writes them; of an id, the only two keys that it can be made of."""
    meant = replace(answer, a=bare(answer.a, items), b=bare(answer.b, items))
    if not answer.joined or (meant.a in items and meant.b in items):
        return meant
    parts = f"{answer.a}{UNDERSCORE}{answer.b}".split(UNDERSCORE)
    ways = [(UNDERSCORE.join(parts[:n]), UNDERSCORE.join(parts[n:])) for n in range(1, len(parts))]
    known = [(bare(a, items), b) for a, b in ways if bare(a, items) in items and b in items]
    return replace(answer, a=known[0][0], b=known[0][1]) if len(known) == 1 else meant


def _check_items(answers: list[Answer], items: dict[str, Item]) -> None:
    """Both items of every row are items of the project, under exactly this key."""
    looks = {look_alike(key): key for key in items}
    problems = Problems()
    for answer in answers:
        for column, key in (("a", answer.a), ("b", answer.b)):
            if key in items:
                continue
            message = _("The project has no item %(key)s.") % {"key": quoted(key)}
            if alike := looks.get(look_alike(key)):
                message += " " + _("Is %(alike)s meant?") % {"alike": quoted(alike)}
            problems.add(answer.line, column, message)
    problems.refuse_if_any()


def _events(project: Project, answers: list[Answer], items: dict[str, Item]) -> Iterator[tuple[Answer, Event]]:
    """Each answer with its pair in canonical order; the same worker and pair again is the next round."""
    rounds = Counter[tuple[str, ...]]()
    for answer in answers:
        keys = sorted((answer.a, answer.b))
        rounds[answer.worker, *keys] += 1
        occurrence = rounds[answer.worker, *keys]
        # By keys, not by rows: a corrected text must not let the same file in twice.
        name = json.dumps([project.import_salt, answer.worker, *keys, occurrence])
        first, second = items[answer.a], items[answer.b]
        lo, hi = sorted((first, second), key=lambda item: item.pk)
        choice = to_canonical(answer.choice, lo_is_left=lo is first)
        yield answer, Event(uuid.uuid5(NAMESPACE, name), answer.worker, lo, hi, choice, occurrence)


def _winner(answer: Answer) -> str:
    """The key of the better item, or nothing for a tie."""
    return {"a": answer.a, "b": answer.b}.get(answer.choice, "")


def _winners_stored(project: Project) -> dict[uuid.UUID, str]:
    """What earlier files said, by the same keys."""
    imported = Judgement.objects.filter(project=project, source=Judgement.Source.IMPORT)
    rows = imported.values_list("uuid", "choice", "item_lo__key", "item_hi__key")
    return {number: {"lo": lo, "hi": hi}.get(choice, "") for number, choice, lo, hi in rows}
