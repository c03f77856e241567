"""Items whose rank in the model and by win rate disagree most, with the likely reason."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from annotation.models import Item
from modelling.models import ModelSnapshot
from modelling.training.votes import ItemVotes, Votes

MAX_ITEMS = 5
MIN_RANKS = 2  # smallest difference to report; one rank is common and means nothing
FEW_JUDGEMENTS = 5


@dataclass(frozen=True)
class Disagreement:
    """An item whose rank in the model lies outside its ranks by win rate; all ranks are within its part."""

    item: Item
    votes: ItemVotes

    @property
    def reason(self) -> str:
        return describe_reason(self.votes)


def find_disagreements(snapshot: ModelSnapshot, votes: Votes, group: str = "") -> list[Disagreement]:
    """The items that disagree most, in the whole version or in one group."""
    chosen = [pk for pk, each in votes.items.items() if not group or each.group == group]
    apart = [pk for pk in chosen if rank_difference(votes.of(pk)) >= MIN_RANKS]
    most = sorted(apart, key=lambda pk: -rank_difference(votes.of(pk)))[:MAX_ITEMS]
    items = Item.objects.in_bulk(most)
    for item in items.values():
        item.project = snapshot.project  # avoids a query per row
    return [Disagreement(items[pk], votes.of(pk)) for pk in most]


def rank_difference(votes: ItemVotes) -> int:
    """How many ranks the item's model rank lies outside its range of ranks by win rate."""
    if votes.part_rank is None or votes.best_vote_rank is None or votes.worst_vote_rank is None:
        return 0
    return max(votes.best_vote_rank - votes.part_rank, votes.part_rank - votes.worst_vote_rank, 0)


def describe_reason(votes: ItemVotes) -> str:
    """The likely reason: opponents or texts. Bradley-Terry knows the opponents but not the texts."""
    rank, best = votes.part_rank or 0, votes.best_vote_rank or 0
    higher = rank < best
    if votes.judgements < FEW_JUDGEMENTS:
        return _("Few judgements: the model relies on similar texts.")
    if 2 * abs((votes.bradley_terry_rank or 0) - rank) <= rank_difference(votes):
        return _("It met strong opponents.") if higher else _("It met weak opponents.")
    return _("Similar texts are preferred more often.") if higher else _("Similar texts are preferred less often.")
