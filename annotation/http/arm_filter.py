"""The query parameter that limits a page to one arm of a study."""

from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from annotation.models import Arm, Project


@dataclass(frozen=True)
class ArmFilter:
    """The arms of a study to choose from, and the chosen one. A study without arms has nothing to choose."""

    arms: list[Arm] = field(default_factory=list)
    chosen: Arm | None = None

    @classmethod
    def parse(cls, project: Project, query: QueryDict) -> "ArmFilter":
        arms = list(project.arms.all())
        return cls(arms, next((arm for arm in arms if arm.name == query.get("arm")), None))

    @property
    def names(self) -> list[str]:
        return [arm.name for arm in self.arms]

    @property
    def name(self) -> str:
        return self.chosen.name if self.chosen else ""

    @property
    def of_workers(self) -> dict[str, Any]:
        """Filter arguments for a worker query."""
        return {"arm": self.chosen} if self.chosen else {}

    @property
    def of_judgements(self) -> dict[str, Any]:
        """Filter arguments for a judgement query."""
        return {"worker__arm": self.chosen} if self.chosen else {}


EVERY_ARM = ArmFilter()
