"""How many pairs a study's items form, and how many judgements a worker can make."""

from dataclasses import dataclass

from django.db.models import Count

from annotation.models import Project
from annotation.models.arms import Design, list_designs


def count_pairs(design: Design) -> int:
    """Count the pairs that a worker with this design can get."""
    sizes = [size for _group, size in design.items.order_by().values_list("group").annotate(Count("pk"))]
    if design.pairs == Project.Pairs.ANY:
        sizes = [sum(sizes)]
    return sum(size * (size - 1) // 2 for size in sizes)


@dataclass(frozen=True)
class PossiblePairs:
    """The pairs that the study's workers can get; with arms, those of the smallest arm and of all arms together."""

    fewest: int
    total: int


def count_possible_pairs(project: Project) -> PossiblePairs:
    counts = [count_pairs(design) for design in list_designs(project)]
    return PossiblePairs(min(counts), sum(counts))


def possible_judgements(project: Project, n_pairs: int) -> int:
    """How many judgements a worker can make: the quota, or fewer if there are not enough pairs and planned repeats."""
    return min(project.judgements_per_worker, n_pairs + n_pairs * project.repeat_share // 100)


def count_promised_judgements(project: Project) -> int:
    """The number of judgements shown on the welcome page; with arms, that of the arm with the fewest pairs."""
    return possible_judgements(project, count_possible_pairs(project).fewest) or project.judgements_per_worker
