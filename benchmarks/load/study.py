"""The study that drills and load tests use, with generated texts in one group."""

from annotation import services
from annotation.models import Item, Project


def make_study(
    slug: str, *, items: int, redundancy: int = 3, per_worker: int = 5000, update_batch: int = 10
) -> Project:
    """Create an open study of `items` short texts in one group."""
    project = services.create_project(
        owner=None,
        slug=slug,
        title="Drill",
        state=Project.State.OPEN,
        redundancy=redundancy,
        judgements_per_worker=per_worker,
        update_batch=update_batch,
    )
    texts = (f"Argument {number}: {'because it matters, ' * (number % 7)}so we should." for number in range(items))
    rows = [Item(project=project, key=f"item-{n}", text=text, group="one") for n, text in enumerate(texts)]
    Item.objects.bulk_create(rows, batch_size=500)
    return project
