"""The slower pass on small data: is it exact, is it better than the fit, and what does it cost?

    python -m benchmarks.refining [--repeats 3] [--first 0]

Tiny crowds are compared with a long Gibbs run, scales held. Small crowds are fitted as the app does it, and the refined
model is compared with the plain one: mean log loss over all users and pairs (expected over answers, the truth being
known), coverage of 95 % intervals of differences, errors of the means, CPU seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from benchmarks.coverage import inside, pair_sd
from benchmarks.harness import arguments, paired, publish, tell, timed
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.intervals import Contrast
from modelling.model_settings import ModelSettings
from modelling.simulation import SimulatedCrowd, draw_crowd
from tests.modelling.crowdgppl.crowds import (
    OTHER_TINY_CROWDS,
    TINY_CROWDS,
    consensus_over_pairs,
    personal_over_pairs,
    tiny_crowd,
    tiny_model,
)
from tests.modelling.crowdgppl.gibbs import Drawn, gibbs

NAME = "refining"
TARGETS = {"offset": 0.1, "sd_ratio": [0.9, 1.1], "oracle_error": 0.1 / 3, "refine_cpu_seconds": 5.0}
SIZES = ((5, 8, 50), (10, 12, 150), (30, 30, 400))  # users, items, labels
STRANGE = ((20, 20, 300, 0, 1.0), (10, 12, 150, 1, 8.0), (20, 20, 300, 3, 3.0))
CELLS = tuple((*size, tastes, 1.0) for size in SIZES for tastes in (1, 3)) + STRANGE  # tastes, variance of each
GIBBS_DRAWS = 3000


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Every tiny crowd, then every cell of small ones."""
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first repeat: other ones are other crowds")
    options = parser.parse_args(argv)
    tiny = TINY_CROWDS[:1] if options.quick else sorted([*TINY_CROWDS, *OTHER_TINY_CROWDS], key=lambda size: size[-1])
    crowds = [against_gibbs(size, 50 if options.quick else GIBBS_DRAWS) for size in tiny]
    repeats = range(options.first, options.first + (1 if options.quick else options.repeats))
    rows: list[dict[str, dict[str, float]]] = []
    cells = {}
    for cell in CELLS[:1] if options.quick else CELLS:
        found = [each for repeat in repeats if (each := both(repeat, *cell))]
        users, items, labels, tastes, variance = cell
        name = f"{users} users, {items} items, {labels} labels, {tastes} tastes of variance {variance:g}"
        cells[name] = {"crowds": len(repeats), "mixed": len(found), **summary(found)}
        tell(f"{name}: {cells[name]}")
        rows += found
    result = {"targets": TARGETS, "repeats": [repeats.start, repeats.stop - 1], "tiny_crowds": crowds}
    return publish(NAME, {**result, "small_crowds": cells, "all": summary(rows)}, options)


def against_gibbs(size: tuple[int, ...], draws: int) -> dict[str, Any]:
    """One tiny crowd: how far the fit and the refined model are from the oracle, and the oracle from itself."""
    seed, users, items, per_user, tastes = size
    crowd = tiny_crowd(seed, users, items, per_user, tastes)
    truth, oracle = timed(lambda: gibbs(crowd.labels, items, users, tastes, s_t=1.0, s_v=1.0, draws=draws))
    model = tiny_model(crowd, tastes)
    fit = apart(model, truth.consensus, truth.personal, items)
    _, seconds = timed(model.refine)
    row = {
        "crowd": {"seed": seed, "users": users, "items": items, "labels": len(crowd.labels), "tastes": tastes},
        "oracle_error": {
            name: {
                "mean": float(np.max(drawn.mean_error / drawn.sd)),
                "sd": float(np.max(drawn.sd_error / drawn.sd)),
            }
            for name, drawn in (("consensus", truth.consensus), ("personal", truth.personal))
        },
        "fit": fit,
        "refined": apart(model, truth.consensus, truth.personal, items) if model.refined_ else None,
        "cpu_seconds": {"oracle": oracle, "refine": seconds},
    }
    tell(str(row))
    return row


def apart(model: CrowdGPPL, consensus: Drawn, personal: Drawn, n_items: int) -> dict[str, Any]:
    """The worst offset of a mean in posterior deviations, and the range of the ratio of deviations."""
    both = {
        "consensus": (consensus, consensus_over_pairs(model, n_items)),
        "personal": (personal, personal_over_pairs(model, n_items)),
    }
    return {
        name: {
            "worst_offset": float(np.max(np.abs(mean - truth.mean) / truth.sd)),
            "sd_ratio": [float((sd / truth.sd).min()), float((sd / truth.sd).max())],
        }
        for name, (truth, (mean, sd)) in both.items()
    }


def both(
    repeat: int, users: int, items: int, labels: int, tastes: int, variance: float
) -> dict[str, dict[str, float]] | None:
    """One small crowd, plain and refined; every second one has items with features. None where draws did not mix."""
    rng = np.random.default_rng([repeat, users, items, labels, tastes])
    X = rng.uniform(size=(items, 2)) if repeat % 2 else None
    sizes = {"n_users": users, "n_items": items}
    crowd = draw_crowd(rng, n_labels=labels, n_components=tastes, X_items=X, s_v=1.0 / variance, **sizes)
    given, settings = crowd.labels, ModelSettings()
    model = CrowdGPPL(min(settings.n_components, users), settings.n_inducing_items, t_prior=settings.consensus_prior)
    judged = PairwiseLabels(given.u, given.a, given.b, given.y)
    _, fit = timed(lambda: model.fit(judged, X_items=X, **sizes))
    plain = scores(model, crowd, fit)
    _, refine = timed(model.refine)
    return {"plain": plain, "refined": scores(model, crowd, refine)} if model.refined_ else None


def scores(model: CrowdGPPL, crowd: SimulatedCrowd, seconds: float) -> dict[str, float]:
    """Over all pairs of items, of the consensus and of every user."""
    N, U = crowd.F.shape
    i, j = np.triu_indices(N, 1)
    z, dt = crowd.F[i] - crowd.F[j], crowd.t[i] - crowd.t[j]
    p = model.predict_proba(np.tile(np.arange(U), len(i)), np.repeat(i, U), np.repeat(j, U)).reshape(z.shape)
    p = np.clip(p, 1e-9, 1.0 - 1e-9)
    mean, cov = model.predict_consensus(return_cov=True)
    F, view = model.predict_utilities(), model._view(None)
    personal, sd = F[i] - F[j], model._sd_at(Contrast(view.rows(i) - view.rows(j), view.rest(i, j)), np.arange(U))
    loss = -(ndtr(z) * np.log(p) + ndtr(-z) * np.log1p(-p))
    best = -(ndtr(z) * log_ndtr(z) + ndtr(-z) * log_ndtr(-z))
    return {
        "log_loss": float(loss.mean()),
        "log_loss_beyond_the_truths": float((loss - best).mean()),
        "consensus_coverage": inside(mean[i] - mean[j] - dt, pair_sd(cov, i, j)),
        "personal_coverage": inside(personal - z, sd),
        "consensus_error": float(np.sqrt(np.mean((mean[i] - mean[j] - dt) ** 2))),
        "personal_error": float(np.sqrt(np.mean((personal - z) ** 2))),
        "cpu_seconds": seconds,
    }


def summary(rows: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Means of both, and the paired gain in loss (positive: refined is better)."""
    if not rows:
        return {}
    means = {kind: {key: float(np.mean([row[kind][key] for row in rows])) for key in rows[0][kind]} for kind in rows[0]}
    losses = [[row[kind]["log_loss"] for row in rows] for kind in ("plain", "refined")]
    return {**means, "gain_in_log_loss": paired(*losses)}


if __name__ == "__main__":
    main()
