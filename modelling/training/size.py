"""What studies with very many items are fitted with, and which are too large to be fitted at all.

Every matrix over items has N^2 entries, and crowdGPPL inverts several of them in each iteration. The published
algorithm has inducing points instead; only its ranking needs such matrices.
"""

import os
import resource
from dataclasses import replace

from django.utils.translation import gettext_noop

from annotation.models import Item, Project
from annotation.models.items import MANY_ITEMS
from modelling.engines import CROWDGPPL, PAPER_SVI
from modelling.training.settings import NONE, InvalidSettings, ModelSettings

MAX_INDEPENDENT_ITEMS = 500  # in the published algorithm, which then has no inducing points
BYTES_PER_PAIR = 100  # peak memory of an update over the squared number of items
TOO_MANY_INDEPENDENT = gettext_noop(
    "The published algorithm, which large studies need, can fit at most 500 items without item similarity. "
    "Choose an item similarity in the model settings, or the engine crowdGPPL for at most 3,000 items."
)
TOO_LARGE = gettext_noop(
    "This study has too many items for this server's memory, so no fit was started. "
    "Split the items among several studies, or run the updater on a machine with more memory."
)


def settings_for_size(project: Project) -> ModelSettings:
    """The project's settings; with many items, those of the published algorithm. Raises InvalidSettings."""
    return adapt_to_size(project, ModelSettings.from_dict(project.model_settings))


def adapt_to_size(project: Project, settings: ModelSettings) -> ModelSettings:
    """These settings, with the published algorithm in place of crowdGPPL if the project has many items."""
    if settings.engine == CROWDGPPL and has_many_items(project):
        return replace(settings, engine=PAPER_SVI, reliability=False)
    return settings


def has_many_items(project: Project) -> bool:
    """Whether a study has too many active items for Concord's own inference."""
    return Item.objects.filter(project=project, active=True)[MANY_ITEMS : MANY_ITEMS + 1].exists()


def has_too_many_items(n_items: int, settings: ModelSettings) -> bool:
    """Whether the engine cannot fit so many items with the settings' similarity."""
    return settings.engine == PAPER_SVI and settings.kernel == NONE and n_items > MAX_INDEPENDENT_ITEMS


def check_size(n_items: int, settings: ModelSettings) -> None:
    """Raise InvalidSettings, before anything is computed, if the study is too large for its engine or the memory."""
    if has_too_many_items(n_items, settings):
        raise InvalidSettings(TOO_MANY_INDEPENDENT)
    if BYTES_PER_PAIR * n_items**2 > memory_limit():
        raise InvalidSettings(TOO_LARGE)


def memory_limit() -> int:
    """Bytes that this process may use: its resource limit or the machine's memory, whichever is less."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return machine if limit == resource.RLIM_INFINITY else min(limit, machine)
