"""A share of judgements with its uncertainty."""

from dataclasses import dataclass

from modelling.training.reliability import wilson_interval


@dataclass(frozen=True)
class Share:
    """`k` of `n`, with its 95% Wilson interval."""

    k: int
    n: int

    @property
    def value(self) -> float | None:
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.value or 0.0, self.n)

    @property
    def low(self) -> float:
        return self.interval[0]

    @property
    def high(self) -> float:
        return self.interval[1]

    @property
    def differs_from_chance(self) -> bool:
        """Whether the interval excludes one half, the share expected by chance."""
        return self.low > 0.5 or self.high < 0.5


NO_SHARE = Share(0, 0)
