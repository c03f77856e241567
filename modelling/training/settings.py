"""The model settings of a project: names, defaults, limits, kernels, labels and help texts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from modelling.crowdgppl import Linear, SquaredExponential, WeightedSum
from modelling.engines import CROWDGPPL, ENGINES, PAPER_SVI
from modelling.features.item_kernels import default_item_kernel, item_kernels

if TYPE_CHECKING:  # the benchmarks import this module without Django settings
    from annotation.models import Project

Blocks = Mapping[str, tuple[int, int]]

LIMITS: dict[str, tuple[float, float]] = {
    "n_components": (0, 50),
    "refit_growth": (1.1, 2),
    "seed": (0, 2**31 - 1),
}
SWITCHES = ("traits", "reliability")
TEXTS, SENTENCES, NEAR, SURFACE, VECTORS, NUMERIC, NONE = KERNELS = (
    "texts", "sentences", "near texts", "surface", "vectors", "numeric", "none"
)  # fmt: skip

CHOICES = {"engine": ENGINES, "kernel": KERNELS}


class InvalidSettings(ValueError):
    """A setting has an invalid value. The message is shown to researchers."""


@dataclass(frozen=True)
class ModelSettings:
    """The settings that researchers choose; all other model parameters are learned from the judgements."""

    engine: str = CROWDGPPL
    n_components: int = 20
    kernel: str = TEXTS
    traits: bool = True
    reliability: bool = False
    refit_growth: float = 1.2
    scoreboard_methods: list[str] = field(default_factory=list)  # besides those of every study
    seed: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelSettings":
        """The defaults updated with `values`; unknown names are ignored. Raises InvalidSettings."""
        if not isinstance(values, Mapping):
            raise InvalidSettings(f"The model settings must be a mapping of names to values, not {values!r}.")
        known = {field.name for field in fields(cls)}
        chosen = {name: value for name, value in values.items() if name in known}
        for name, value in chosen.items():
            _validate(name, value)
        settings = cls(**chosen)
        if settings.engine == PAPER_SVI and settings.reliability:
            raise InvalidSettings(
                "The engine “paper_svi” does not weight workers by consistency: set “reliability” to false, or choose "
                "the engine “crowdgppl”."
            )
        return settings

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def non_defaults(self) -> dict[str, Any]:
        """The values that differ from the defaults, as stored in a project's row."""
        defaults = ModelSettings().as_dict()
        return {name: value for name, value in self.as_dict().items() if value != defaults[name]}


DEFAULTS = ModelSettings()


def get_valid_settings(project: "Project") -> ModelSettings:
    """The project's settings, or the defaults if a stored value is invalid, so that the form can correct it."""
    try:
        return ModelSettings.from_dict(project.model_settings)
    except InvalidSettings:
        return DEFAULTS


def _validate(name: str, value: Any) -> None:
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise InvalidSettings(
                f"The model setting “{name}” must be one of {', '.join(CHOICES[name])}, not {value!r}."
            )
        return
    if name == "scoreboard_methods":
        _validate_methods(value)
        return
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise InvalidSettings(f"The model setting “{name}” must be true or false, not {value!r}.")
        return
    low, high = LIMITS[name]
    is_integer = isinstance(getattr(ModelSettings, name), int)
    kind, description = (int, "a whole number") if is_integer else (int | float, "a number")
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        message = f"The model setting “{name}” must be {description} from {low:,} to {high:,}, not {value!r}."
        raise InvalidSettings(message)


def _validate_methods(value: Any) -> None:
    if not isinstance(value, list) or any(name not in METHOD_LABELS for name in value):
        known = ", ".join(METHOD_LABELS)
        raise InvalidSettings(f"The model setting “scoreboard_methods” must be a list, some of {known}, not {value!r}.")


def item_kernel(name: str, blocks: Blocks) -> WeightedSum | None:
    """The prior similarity of items; None if items are independent."""
    if name == NONE:
        return None
    if name == TEXTS:
        return default_item_kernel(blocks)
    if name == SENTENCES:
        return item_kernels(blocks)["surface, words, vectors, sentences"]
    if name == NEAR:
        return item_kernels(blocks)["near surface, words, vectors"]
    if name == SURFACE:
        return item_kernels({**blocks, "numeric": (0, 0)})["surface"]
    return _block_kernel(blocks, name)


def _block_kernel(blocks: Blocks, name: str) -> WeightedSum:
    """Linear plus squared exponential over one block of columns."""
    start, stop = blocks[name]
    if start == stop:
        raise InvalidSettings(
            "The model settings use only imported features, but not every item has them. "
            "Add them to every item, or choose another item similarity in the model settings."
        )
    columns = (start, stop)
    return WeightedSum(((0.5, Linear(columns=columns)), (0.5, SquaredExponential(columns=columns))))


# Texts for forms and pages ------------------------------------------------------------------------------------------

LABELS = {
    "engine": gettext_lazy("engine"),
    "n_components": gettext_lazy("number of components"),
    "kernel": gettext_lazy("item similarity"),
    "traits": gettext_lazy("use questionnaire answers"),
    "reliability": gettext_lazy("weight workers by consistency"),
    "refit_growth": gettext_lazy("refit when the number of judgements has grown by this factor"),
    "scoreboard_methods": gettext_lazy("other methods on the scoreboard"),
    "seed": gettext_lazy("random seed"),
}
HELP = {
    "engine": gettext_lazy(
        "crowdGPPL is Concord's own inference. The other engine is the algorithm published by Simpson and Gurevych "
        "(2020): use it to compare with the paper. It gives no worker assessments and no lower bound, does not weight "
        "workers by consistency, counts a tie as half a win for each text, and shows all components instead of those "
        "that the judgements support."
    ),
    "n_components": gettext_lazy(
        "The largest number of components, that is, ways in which workers differ. The model shows as many as the "
        "judgements support; 0 gives one ranking for everyone."
    ),
    "kernel": gettext_lazy(
        "Similar items are expected to have similar scores, which helps where judgements are few; judgements always "
        "count more. Form is length, punctuation and readability; meaning is word vectors; imported features are the "
        "feature:… columns of the import."
    ),
    "traits": gettext_lazy(
        "New workers are expected to judge like workers with similar questionnaire answers, as far as the judgements "
        "support this. Uninformative answers have no effect."
    ),
    "reliability": gettext_lazy(
        "Workers who answer at random count less. Disagreeing with others does not lower a worker's weight; what "
        "matters is whether the model can predict their answers, for example from their other answers."
    ),
    "refit_growth": gettext_lazy(
        "Between refits the model learns incrementally. A smaller factor refits more often, which is slower and "
        "more exact."
    ),
    "scoreboard_methods": gettext_lazy(
        "They are fitted whenever the model is fitted from scratch, and predict new judgements alongside it. Each one "
        "makes these updates slower. They are left out in studies with more than 20,000 judgements or 2,000 items. "
        "Hold Ctrl or ⌘ to choose several or none."
    ),
    "seed": gettext_lazy("The same judgements, settings and seed give exactly the same ranking."),
}
ENGINE_LABELS = {
    CROWDGPPL: gettext_lazy("crowdGPPL"),
    PAPER_SVI: gettext_lazy("crowdGPPL as published (stochastic variational inference)"),
}
KERNEL_LABELS = {
    TEXTS: gettext_lazy("texts: form, words and meaning"),
    SENTENCES: gettext_lazy("texts, also by the meaning of whole sentences (English)"),
    NEAR: gettext_lazy("texts, compared only between items of similar form"),
    SURFACE: gettext_lazy("only the form of the texts"),
    VECTORS: gettext_lazy("only the meaning of the texts"),
    NUMERIC: gettext_lazy("only the imported features"),
    NONE: gettext_lazy("none: items are independent"),
}
# crowdGPPL, GPPL and Bradley-Terry are on every scoreboard.
METHOD_LABELS = {
    "crowdgppl_no_user": gettext_lazy("crowdGPPL without questionnaire answers"),
    "crowdgppl_no_features": gettext_lazy("crowdGPPL without texts and questionnaire answers"),
    "crowdgppl_no_consensus": gettext_lazy("crowdGPPL without consensus"),
    "gppl_per_user": gettext_lazy("GPPL for each worker alone"),
    "paper_svi": gettext_lazy("crowdGPPL as published (stochastic variational inference)"),
    "paper_svi_no_inducing": gettext_lazy("crowdGPPL as published, without inducing points"),
    "paper_svi_no_user": gettext_lazy("crowdGPPL as published, without questionnaire answers"),
    "paper_svi_no_features": gettext_lazy("crowdGPPL as published, without texts and questionnaire answers"),
    "paper_svi_no_consensus": gettext_lazy("crowdGPPL as published, without consensus"),
    "crowd_bt": gettext_lazy("crowdBT: Bradley-Terry with worker accuracies"),
    "crowd_bt_gp": gettext_lazy("crowdBT-GP: crowdBT and texts"),
    "collab_gp": gettext_lazy("collabGP"),
    "collab_gp_no_user": gettext_lazy("collabGP without questionnaire answers"),
    "gpvu": gettext_lazy("GPVU"),
    "thurstone_mosteller": gettext_lazy("Thurstone-Mosteller"),
    "linear": gettext_lazy("linear in the features"),
}


@dataclass(frozen=True)
class SettingRow:
    """One setting as shown on a page; `previous` is its value in the settings that it is compared with."""

    label: str
    value: str
    is_default: bool
    previous: str = ""


def setting_rows(settings: ModelSettings, previous: ModelSettings = DEFAULTS) -> list[SettingRow]:
    """All settings in the order of the form."""
    now, before, default = settings.as_dict(), previous.as_dict(), DEFAULTS.as_dict()
    return [
        SettingRow(
            label=str(label),
            value=format_setting(name, now[name]),
            is_default=now[name] == default[name],
            previous=format_setting(name, before[name]),
        )
        for name, label in LABELS.items()
    ]


def format_setting(name: str, value: Any) -> str:
    if name in CHOICES:
        return str((ENGINE_LABELS if name == "engine" else KERNEL_LABELS)[value])
    if name == "scoreboard_methods":
        return ", ".join(str(METHOD_LABELS[method]) for method in value) or _("none")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return number_format(f"{value:g}" if isinstance(value, float) else value)
