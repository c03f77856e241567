"""Reliability of pairwise judgements, as reported in comparative judgement studies; numpy and scipy only."""

from .agreement import krippendorff_alpha, self_consistency
from .answers import Answers
from .effects import order_effect, tie_rates_by_gap
from .estimates import Estimate, share, wilson_interval
from .random_share import random_share_reliability
from .scale import Fit, Scale, fit_scale, fit_statistics, separation, separation_reliability
from .split_half import spearman_brown, split_half

__all__ = [
    "Answers",
    "Estimate",
    "Fit",
    "Scale",
    "fit_scale",
    "fit_statistics",
    "krippendorff_alpha",
    "order_effect",
    "random_share_reliability",
    "self_consistency",
    "separation",
    "separation_reliability",
    "share",
    "spearman_brown",
    "split_half",
    "tie_rates_by_gap",
    "wilson_interval",
]
