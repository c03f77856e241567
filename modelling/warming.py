"""What a web process does once, beside its first requests, so that none of them has to wait for it."""

import gc
import logging

from modelling.word_vectors import word_vectors

log = logging.getLogger("concord.warming")


def warm_up() -> None:
    """The word vectors are in memory, and what a process keeps for ever is no longer looked through for garbage.

    Pages make thousands of short-lived objects; each time they have filled a quarter of what is there already, Python
    looks through all of it, which took up to a tenth of a second of somebody's request.
    """
    try:
        word_vectors(["a"])
    except (OSError, RuntimeError) as error:  # the page that needs them says so itself
        log.warning("the word vectors could not be read: %s", error)
    gc.collect()
    gc.freeze()
