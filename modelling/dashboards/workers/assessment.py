"""Careless or different: a worker's probabilities, with the evidence in plain sentences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Item, Worker
from modelling.dashboards.workers.flags import Flag
from modelling.findings.workers.assessment import AUTOMATED
from modelling.findings.workers.versions import get_assessment
from modelling.models import ModelSnapshot, WorkerAssessment

LIKELY = 0.5


@dataclass(frozen=True)
class AssessmentNames:
    """Codes of the workers and keys of the items mentioned in evidence, by primary key."""

    workers: dict[int, str]
    items: dict[int, str]

    @classmethod
    def load(cls, rows: Iterable[WorkerAssessment]) -> "AssessmentNames":
        rows = list(rows)
        workers = {row.evidence["alike"][0] for row in rows if "alike" in row.evidence}
        items = {row.evidence["largest_move"][0] for row in rows if "largest_move" in row.evidence}
        found = Worker.objects.visible().filter(pk__in=workers).values_list("pk", "code")
        return cls(dict(found), dict(Item.objects.filter(pk__in=items).values_list("pk", "key")))


@dataclass(frozen=True)
class Assessment:
    """One worker's assessment as a page shows it."""

    row: WorkerAssessment
    names: AssessmentNames

    @property
    def verdict(self) -> str:
        """One word; “unclear” if no probability exceeds one half."""
        if self.row.careless > LIKELY:
            return _("careless")
        if self.row.different > LIKELY:
            return _("different")
        return _("ordinary") if self.row.ordinary > LIKELY else _("unclear")

    @property
    def probability(self) -> float:
        """The largest of the three probabilities."""
        return max(self.row.careless, self.row.different, self.row.ordinary)

    @property
    def chances(self) -> list[tuple[str, float]]:
        return [
            (_("Careless"), self.row.careless),
            (_("Different"), self.row.different),
            (_("Ordinary"), self.row.ordinary),
        ]

    @property
    def is_careless(self) -> bool:
        return self.row.careless > LIKELY

    @property
    def looks_automated(self) -> bool:
        return len(self._facts["signs"]) >= AUTOMATED

    @property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.row.evidence
        return facts

    @cached_property
    def evidence(self) -> list[str]:
        """The evidence in plain sentences, with the counts behind it."""
        return [*self._predictability(), *self._patterns(), *self._automation()]

    def _predictability(self) -> Iterator[str]:
        facts, n = self._facts, self.row.answers
        counts = {"k": facts["predicted"], "n": n, "agreed": facts["agreed"]}
        yield (
            _(
                "The worker's other answers predict %(k)d of %(n)d answers, and the consensus of the other workers "
                "predicts %(agreed)d. By chance it would be about half."
            )
            % counts
        )
        if self.is_careless and facts["since"]:
            place = {"place": facts["since"] + 1, "n": n}
            yield _("From about answer %(place)d of %(n)d on, the answers no longer follow preferences.") % place

    def _patterns(self) -> Iterator[str]:
        facts = self._facts
        if facts["repeated"]:
            counts = {"k": facts["repeated"] - facts["contradicted"], "n": facts["repeated"]}
            yield _("Repeated pairs with the same answer: %(k)d of %(n)d.") % counts
        if facts["sided"]:
            counts = {"k": facts["left"], "n": facts["sided"]}
            yield _("The text on the left was chosen in %(k)d of %(n)d answers.") % counts
        if facts["triples"]:
            counts = {"k": facts["circular"], "n": facts["triples"]}
            yield (
                _(
                    "Triples of items with circular answers (A above B, B above C, C above A): %(k)d of %(n)d. "
                    "By chance it would be a quarter."
                )
                % counts
            )
        if facts["timed"]:
            yield self._speed()

    def _speed(self) -> str:
        counts = {"k": self._facts["too_fast"], "n": self._facts["timed"]}
        return _("Answers that were too fast to have read both texts: %(k)d of %(n)d.") % counts

    def _automation(self) -> Iterator[str]:
        facts = self._facts
        if "noiseless" in facts["signs"]:
            yield _("The answers are more consistent than people's answers usually are.")
        if "alike" in facts and (code := self.names.workers.get(facts["alike"][0])):
            counts = {"code": code, "k": facts["alike"][1], "n": facts["alike"][2]}
            yield (
                _("Same answer as worker %(code)s to %(k)d of %(n)d shared pairs, more than similar opinions explain.")
                % counts
            )

    @property
    def exclusion_effect(self) -> str:
        """How the ranking would change without this worker, all else being equal."""
        facts = self._facts
        if not facts["moved"]:
            return _("Without this worker no item would change its rank.")
        moved = ngettext(
            "Without this worker %(k)d of %(n)d items would change its rank.",
            "Without this worker %(k)d of %(n)d items would change their ranks.",
            facts["moved"],
        ) % {"k": facts["moved"], "n": facts["ranked"]}
        pk, before, after = facts["largest_move"]
        if key := self.names.items.get(pk):
            largest = {"key": key, "before": before, "after": after}
            moved += " " + _("The largest change: “%(key)s” from rank %(before)d to %(after)d.") % largest
        return moved

    @property
    def flags(self) -> list[Flag]:
        found = []
        if self.is_careless:
            chance = _("probability %(percent).0f %% (n = %(n)d)")
            evidence = chance % {"percent": 100 * self.row.careless, "n": self.row.answers}
            found.append(Flag("careless", _("looks careless"), evidence))
        if self.looks_automated:
            speed = [self._speed()] if "fast" in self._facts["signs"] else []
            found.append(Flag("automated", _("looks automated"), " ".join([*self._automation(), *speed])))
        return found


def load_assessment(worker: Worker, snapshot: ModelSnapshot) -> Assessment | None:
    """One worker's assessment in a version; None if they gave too few answers."""
    row = get_assessment(worker, snapshot)
    return Assessment(row, AssessmentNames.load([row])) if row else None
