"""The one place where drills and tests wait: for a condition, with a deadline."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float, what: str, pause: float = 0.02) -> float:
    """Returns the seconds until `condition` was true; fails, naming `what`, when it never is."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"Waited {seconds:g} s in vain: {what}.")
        time.sleep(pause)
    return time.monotonic() - began
