"""What a project may choose about its model: names, defaults, legal ranges, and the kernel behind each name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from modelling.crowdgppl import Linear, SquaredExponential, WeightedSum
from modelling.features import default_item_kernel, item_kernels

Blocks = Mapping[str, tuple[int, int]]

LIMITS: dict[str, tuple[float, float]] = {
    "n_components": (0, 50),
    "n_inducing_items": (10, 500),
    "personal_variance": (0.01, 10),
    "consensus_variance": (0.01, 10),
    "consensus_certainty": (0.5, 100_000),
    "refit_growth": (1.1, 2),  # the estimator itself starts again when its labels have doubled
    "seed": (0, 2**31 - 1),
}
SWITCHES = ("traits", "reliability", "refine")
TEXTS, NEAR, SURFACE, VECTORS, NUMERIC, NONE = KERNELS = (
    "texts", "near texts", "surface", "vectors", "numeric", "none"
)  # fmt: skip


class Unusable(ValueError):
    """What was chosen cannot be used; the message says why, in words for the people who run a study."""


@dataclass(frozen=True)
class ModelSettings:
    """`personal_variance` None: chosen on held-out judgements at each fit from scratch."""

    n_components: int = 10
    n_inducing_items: int = 100
    kernel: str = TEXTS
    personal_variance: float | None = None
    consensus_variance: float = 1.0
    consensus_certainty: float = 1.0
    traits: bool = True
    reliability: bool = False
    refit_growth: float = 2.0
    refine: bool = False
    seed: int = 0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "ModelSettings":
        """The defaults with what is given in their place; Unusable for what is not legal."""
        if not isinstance(given, Mapping):
            raise Unusable(f"The model settings must be values under their names, not {given!r}.")
        known = {field.name for field in fields(cls)}
        chosen = {name: value for name, value in given.items() if name in known}
        for name, value in chosen.items():
            _refuse_the_illegal(name, value)
        return cls(**chosen)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def chosen(self) -> dict[str, Any]:
        """Only what differs from the defaults: what a project's row holds."""
        usual = ModelSettings().as_dict()
        return {name: value for name, value in self.as_dict().items() if value != usual[name]}

    @property
    def consensus_prior(self) -> tuple[float, float]:
        """Shape and rate of the prior on the consensus's scale: its expected variance is rate / shape."""
        return self.consensus_certainty, self.consensus_certainty * self.consensus_variance


def _refuse_the_illegal(name: str, value: Any) -> None:
    if name == "kernel":
        if value not in KERNELS:
            raise Unusable(f"The model setting “kernel” must be one of {', '.join(KERNELS)}, not {value!r}.")
        return
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise Unusable(f"The model setting “{name}” must be true or false, not {value!r}.")
        return
    low, high = LIMITS[name]
    if name == "personal_variance" and value is None:
        return
    whole = isinstance(getattr(ModelSettings, name), int)
    kind, words = (int, "a whole number") if whole else (int | float, "a number")
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        raise Unusable(f"The model setting “{name}” must be {words} from {low:,} to {high:,}, not {value!r}.")


def item_kernel(name: str, blocks: Blocks) -> WeightedSum | None:
    """How alike two items are before anybody has judged them; None where every item stands alone."""
    if name == NONE:
        return None
    if name == TEXTS:
        return default_item_kernel(blocks)
    if name == NEAR:
        return item_kernels(blocks)["near surface, words, vectors"]
    if name == SURFACE:
        return item_kernels({**blocks, "numeric": (0, 0)})["surface"]
    return _over(blocks, name)


def _over(blocks: Blocks, name: str) -> WeightedSum:
    """Linear and smooth over one block of columns."""
    start, stop = blocks[name]
    if start == stop:
        raise Unusable(
            "The model looks only at the items' own numbers, but not every item has them. "
            "Add them to every item, or choose another kernel in the model's settings."
        )
    columns = (start, stop)
    return WeightedSum(((0.5, Linear(columns=columns)), (0.5, SquaredExponential(columns=columns))))
