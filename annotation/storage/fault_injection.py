"""Fault injection for drills: named points that kill or stop the process, fill the disk or raise an error.

`maybe_fail` does nothing unless settings.FAULTS holds a plan, which only test settings allow. Plans look like
"point=rename,action=exit9,nth=3" (fail the third time at this point) or "seed=17,p=0.05" (fail at random at any point).
"""

import errno
import os
import signal
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

ACTIONS = ("exit9", "stop", "raise", "enospc")
SIGNALS = {"exit9": signal.SIGKILL, "stop": signal.SIGSTOP}


class InjectedFault(Exception):
    """Raised at a point by the action "raise"."""


@dataclass
class FaultPlan:
    point: str = ""
    action: str = "exit9"
    nth: int = 1
    p: float = 0.0
    rng: Random = field(default_factory=Random)
    counts: Counter[str] = field(default_factory=Counter)

    def is_due(self, point: str) -> bool:
        if self.p:
            return self.rng.random() < self.p
        self.counts[point] += 1
        return point == self.point and self.counts[point] == self.nth


_plans: list[FaultPlan] = []


def maybe_fail(point: str) -> None:
    """Fail here if the plan says so."""
    if _plans and _plans[0].is_due(point):
        _fail(_plans[0].action, point)


def configure() -> None:
    """Load the plan from settings.FAULTS; ImproperlyConfigured unless the settings allow faults."""
    _plans.clear()
    if not settings.FAULTS:
        return
    if not settings.FAULTS_ALLOWED:
        raise ImproperlyConfigured("FAULTS is set outside a drill. Unset it.")
    _plans.append(parse_plan(settings.FAULTS))


def parse_plan(text: str) -> FaultPlan:
    """Parse a plan such as "point=rename,action=exit9,nth=3"."""
    options = dict(part.split("=", 1) for part in text.split(","))
    plan = FaultPlan(
        point=options.pop("point", ""),
        action=options.pop("action", "exit9"),
        nth=int(options.pop("nth", "1")),
        p=float(options.pop("p", "0")),
        rng=Random(int(options.pop("seed", "0"))),  # noqa: S311
    )
    if options or plan.action not in ACTIONS or not (plan.point or plan.p):
        raise ImproperlyConfigured(f"FAULTS is not a valid plan: {text!r}.")
    return plan


def _fail(action: str, point: str) -> None:
    if action in SIGNALS:
        os.kill(os.getpid(), SIGNALS[action])
        return
    if action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise InjectedFault(point)
