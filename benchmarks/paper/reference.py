"""The numbers that the paper prints, by its LaTeX labels, and its settings."""

from __future__ import annotations

from typing import Any

from modelling.crowdgppl import Matern32

# tab:sushi, accuracy / cross entropy / tau on A-small, A and B; None is printed as a dash or n/a.
SUSHI: dict[str, dict[str, tuple[float | None, ...]]] = {
    "crowdgppl": {"A-small": (0.71, 0.56, 0.48), "A": (0.84, 0.33, 0.79), "B": (0.76, 0.50, 0.54)},
    "crowdgppl_no_inducing": {"A-small": (0.70, 0.60, 0.45), "A": (0.84, 0.34, 0.78)},
    "crowdgppl_no_user": {"A-small": (0.70, 0.58, 0.46), "A": (0.85, 0.31, 0.80), "B": (0.78, 0.50, 0.57)},
    "crowdgppl_no_features": {"A-small": (0.71, 0.57, 0.49), "A": (0.85, 0.33, 0.80), "B": (0.77, 0.49, 0.56)},
    "crowdgppl_no_consensus": {"A-small": (0.68, 0.60, 0.43), "A": (0.84, 0.33, 0.80), "B": (0.76, 0.51, 0.58)},
    "gppl": {"A-small": (0.65, 0.62, 0.31), "A": (0.65, 0.62, 0.31), "B": (0.65, 0.62, 0.31)},
    "gppl_per_user": {"A-small": (0.67, 0.64, 0.42), "A": (0.83, 0.40, 0.79), "B": (0.75, 0.60, 0.60)},
    "collab_gp": {"A-small": (0.69, 0.58, None), "A": (0.83, 0.35, None), "B": (0.76, 0.49, None)},
    "collab_gp_no_user": {"A-small": (0.69, 0.59, None), "A": (0.84, 0.33, None), "B": (0.76, 0.50, None)},
    "gpvu": {"A-small": (0.70, 0.67, 0.43), "A": (0.72, 0.67, 0.42), "B": (0.73, 0.59, 0.52)},
}

# tab:convarg, accuracy / cross entropy / tau: consensus, personal, personal with more than 50 training pairs.
CONVINCINGNESS: dict[str, dict[str, tuple[float | None, ...]]] = {
    "gppl": {"consensus": (0.77, 0.51, 0.50), "personal": (0.71, 0.56, 0.31), "personal_many": (0.72, 0.55, 0.25)},
    "crowdgppl": {"consensus": (0.79, 0.52, 0.53), "personal": (0.72, 0.58, 0.33), "personal_many": (0.74, 0.55, 0.27)},
    "crowdgppl_no_consensus": {"personal": (0.68, 0.63, 0.23), "personal_many": (0.74, 0.57, 0.27)},
    "crowd_bt_gp": {
        "consensus": (0.75, 0.53, 0.45), "personal": (0.69, 0.58, 0.30), "personal_many": (0.71, 0.56, 0.23)
    },
}  # fmt: skip


def paper_row(table: dict[str, Any], method: str, column: str) -> tuple[float | None, ...]:
    """The paper's three numbers for a method; its crowdGPPL rows serve both for our engine and for `paper_svi`."""
    name = method.replace("paper_svi", "crowdgppl")
    return tuple(table.get(name, {}).get(column, (None, None, None)))


# Settings of the experiments; Gamma priors are (shape, rate).
SIMULATIONS: dict[str, Any] = {
    "n_components": 20, "batch_size": 1000, "forgetting_rate": 0.9, "delay": 1.0, "t_prior": (1.0, 100.0),
    "v_prior": (1.0, 100.0), "w_prior": (1.0, 100.0), "n_inducing_items": None, "n_iterations": 100,
}  # fmt: skip
SUSHI_SETTINGS: dict[str, dict[str, Any]] = {
    "A-small": {"batch_size": 200, "n_iterations": 200, "n_inducing_items": 25},
    "A": {"batch_size": 200, "n_iterations": 200, "n_inducing_items": 25},
    "B": {"batch_size": 2000, "n_iterations": 300, "n_inducing_items": 500, "n_inducing_users": 200},
}
CONVINCINGNESS_SETTINGS: dict[str, Any] = {
    "n_components": 50, "n_inducing_items": 500, "batch_size": 200, "n_iterations": 200, "delay": 10.0,
    "t_prior": (2.0, 200.0), "v_prior": (2.0, 200.0), "w_prior": (1.0, 10.0),
}  # fmt: skip


def scaled_kernel(n_features: int, factor: float = 20.0) -> Matern32:
    """l = factor sqrt(D) l_MH; the kernel's own median already has sqrt(D) beyond 200 features."""
    return Matern32(scale=factor * (1.0 if n_features > 200 else n_features**0.5))
