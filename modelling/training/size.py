"""Which studies have too many items to be fitted.

Every matrix over items has N^2 entries, and crowdGPPL inverts several of them in each iteration: with N = 10,000 a fit
takes hours and most of a machine's memory, at every refit. Such a fit is refused before anything is computed. The
published algorithm has inducing points instead; only its ranking needs such matrices.
"""

import os
import resource

from django.utils.translation import gettext_noop

from annotation.models import Item, Project
from annotation.models.items import MOST_MODEL_ITEMS
from modelling.engines import CROWDGPPL, PAPER_SVI
from modelling.training.settings import NONE, InvalidSettings, ModelSettings, get_valid_settings

MAX_INDEPENDENT_ITEMS = 500  # in the published algorithm, which then has no inducing points
BYTES_PER_PAIR = {CROWDGPPL: 100, PAPER_SVI: 50}  # peak memory of an update over the squared number of items
TOO_MANY = gettext_noop(
    "The model can fit at most 5,000 items, so no fit was started. Split the items among several studies."
)
TOO_MANY_INDEPENDENT = gettext_noop(
    "The published algorithm can fit at most 500 items without item similarity. "
    "Choose an item similarity or the engine crowdGPPL in the model settings."
)
TOO_LARGE = gettext_noop(
    "This study has too many items for this server's memory, so no fit was started. "
    "Split the items among several studies, or run the updater on a machine with more memory."
)


def exceeded_limit(project: Project) -> int:
    """The largest number of items that the project's engine can fit, if it has more active ones; otherwise 0."""
    if get_valid_settings(project).engine != CROWDGPPL:
        return 0
    more = Item.objects.filter(project=project, active=True)[MOST_MODEL_ITEMS : MOST_MODEL_ITEMS + 1]
    return MOST_MODEL_ITEMS if more.exists() else 0


def has_too_many_items(n_items: int, settings: ModelSettings) -> bool:
    """Whether there are more items than the engine can fit with the similarity of the settings."""
    return settings.engine == PAPER_SVI and settings.kernel == NONE and n_items > MAX_INDEPENDENT_ITEMS


def check_size(n_items: int, settings: ModelSettings) -> None:
    """Raise InvalidSettings, before anything is computed, if the study is too large for its engine or the memory."""
    if settings.engine == CROWDGPPL and n_items > MOST_MODEL_ITEMS:
        raise InvalidSettings(TOO_MANY)
    if has_too_many_items(n_items, settings):
        raise InvalidSettings(TOO_MANY_INDEPENDENT)
    if BYTES_PER_PAIR[settings.engine] * n_items**2 > memory_limit():
        raise InvalidSettings(TOO_LARGE)


def memory_limit() -> int:
    """Bytes that this process may use: its resource limit or the machine's memory, whichever is less."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return machine if limit == resource.RLIM_INFINITY else min(limit, machine)
