"""Recruiting platforms: identify arriving workers from their links, and report how a participation ended."""

from annotation.models import Recruitment
from annotation.platforms.base import Completion, Identity, LinkInvalid, Platform
from annotation.platforms.generic import Generic
from annotation.platforms.invited import Invited
from annotation.platforms.mturk import MechanicalTurk
from annotation.platforms.prolific import Prolific

__all__ = ["Completion", "Identity", "LinkInvalid", "Platform", "get_platform"]

PLATFORMS: dict[str, type[Platform]] = {
    Recruitment.Platform.PROLIFIC: Prolific,
    Recruitment.Platform.MTURK: MechanicalTurk,
    Recruitment.Platform.GENERIC: Generic,
    Recruitment.Platform.INVITED: Invited,
}


def get_platform(recruitment: Recruitment) -> Platform | None:
    """The adapter for the project's platform; None if anyone with the link can take part."""
    adapter = PLATFORMS.get(recruitment.platform)
    return adapter(recruitment) if adapter else None
