"""Named points at which a test makes the process fail: killed, stopped, out of disk, or with an error.

`hit` does nothing unless a plan was armed, and a plan can be armed only where the settings allow it: in tests.
Plans: "point=rename,action=exit9,nth=3" (the third time that point is passed), "seed=17,p=0.05" (any, by chance).
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
    """Raised on purpose by a test."""


@dataclass
class Plan:
    """Where, how and when to fail."""

    point: str = ""
    action: str = "exit9"
    nth: int = 1
    p: float = 0.0
    rng: Random = field(default_factory=Random)
    passed: Counter[str] = field(default_factory=Counter)

    def is_due(self, point: str) -> bool:
        if self.p:
            return self.rng.random() < self.p
        self.passed[point] += 1
        return point == self.point and self.passed[point] == self.nth


_armed: list[Plan] = []


def hit(point: str) -> None:
    """The process passes this point."""
    if _armed and _armed[0].is_due(point):
        _fail(_armed[0].action, point)


def arm() -> None:
    """The plan in the settings applies from now on. Refused where the settings are not those of a test."""
    _armed.clear()
    if not settings.FAULTS:
        return
    if not settings.FAULTS_ALLOWED:
        raise ImproperlyConfigured("FAULTS is set, but this is not a test. Unset it.")
    _armed.append(read(settings.FAULTS))


def read(words: str) -> Plan:
    """A plan from words such as "point=rename,action=exit9,nth=3"."""
    given = dict(part.split("=", 1) for part in words.split(","))
    plan = Plan(
        point=given.pop("point", ""),
        action=given.pop("action", "exit9"),
        nth=int(given.pop("nth", "1")),
        p=float(given.pop("p", "0")),
        rng=Random(int(given.pop("seed", "0"))),  # noqa: S311
    )
    if given or plan.action not in ACTIONS or not (plan.point or plan.p):
        raise ImproperlyConfigured(f"FAULTS cannot be read: {words!r}.")
    return plan


def _fail(action: str, point: str) -> None:
    if action in SIGNALS:
        os.kill(os.getpid(), SIGNALS[action])
        return
    if action == "enospc":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    raise InjectedFault(point)
