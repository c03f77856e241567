"""The consensus ranking: what the crowd agrees on, with intervals."""

from dataclasses import dataclass

from django.core.paginator import Page, Paginator

from modelling.models import ConsensusScore, ModelSnapshot

PER_PAGE = 100
WIDTH = 200  # of the interval picture, in its own units
Z_95 = 1.96


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval, as positions in a picture of the given width."""

    low: float
    mean: float
    high: float

    @property
    def length(self) -> float:
        return round(self.high - self.low, 2)


@dataclass(frozen=True)
class Row:
    score: ConsensusScore
    interval: Interval


@dataclass(frozen=True)
class RankingPage:
    rows: list[Row]
    page: Page
    groups: list[str]
    group: str
    zero: float


def ranking_page(snapshot: ModelSnapshot, group: str = "", number: int = 1) -> RankingPage:
    """One page of the ranking, of one group or of all; the pictures of all pages share one axis."""
    scores = snapshot.scores.select_related("item").order_by("rank")
    groups = sorted(set(scores.values_list("item__group", flat=True)) - {""})
    extremes = [(mean - Z_95 * sd, mean + Z_95 * sd) for mean, sd in scores.values_list("mean", "sd")]
    low, high = min(e[0] for e in extremes), max(e[1] for e in extremes)
    place = _Axis(low, high)
    page = Paginator(scores.filter(item__group=group) if group else scores, PER_PAGE).get_page(number)
    rows = [Row(score, place.interval(score.mean, score.sd)) for score in page]
    return RankingPage(rows, page, groups, group, place(0.0))


class _Axis:
    """Turns scores into positions of a picture."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.span = low, max(high - low, 1e-9)

    def __call__(self, value: float) -> float:
        return round(WIDTH * (value - self.low) / self.span, 2)

    def interval(self, mean: float, sd: float) -> Interval:
        return Interval(self(mean - Z_95 * sd), self(mean), self(mean + Z_95 * sd))
