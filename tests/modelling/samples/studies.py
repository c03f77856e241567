"""Versions without a fit, for tests of pages."""

from typing import Any

from annotation.models import EventHead, Item, Project
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState

DEFAULTS: dict[str, Any] = {"kind": "step", "seed": 0, "seconds": 0.5, "code_version": "0.1.0", "settings": {}}


def make_version(project: Project, number: int, *, order: list[str] | None = None, **facts: Any) -> ModelSnapshot:
    """Publish version `number`, with the items in `order` (keys, best first) and ten more judgements than the last."""
    last = 10 * number
    fields = DEFAULTS | {"first_sequence": 1, "last_sequence": last, "inputs_revision": 0, "included": last}
    snapshot = ModelSnapshot.objects.create(
        project=project, number=number, checksum=f"{number:064d}", data_hash=f"{number:064x}", **(fields | facts)
    )
    by_key = {item.key: item for item in Item.objects.filter(project=project, active=True)}
    for rank, key in enumerate(order or by_key, start=1):
        mean = (len(by_key) - rank) / 2
        ConsensusScore.objects.create(
            snapshot=snapshot, item=by_key[key], mean=mean, sd=0.2, rank=rank, rank_low=rank, rank_high=rank,
            top_probability=1.0, polarisation=0.1, judgements=number * rank,
        )  # fmt: skip
    state, _ = UpdateState.objects.get_or_create(project=project)
    UpdateState.objects.filter(pk=state.pk).update(current=snapshot, done_sequence=last, condition="ok")
    EventHead.objects.filter(project=project).update(sequence=last)
    return snapshot
