"""Wait for a condition with a deadline: the only place where drills and tests sleep."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float, failure: str, interval: float = 0.02) -> float:
    """Poll until `condition` is true and return the seconds it took; raise TimeoutError with `failure` otherwise."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"Timed out after {seconds:g} s: {failure}.")
        time.sleep(interval)
    return time.monotonic() - began
