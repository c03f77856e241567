"""Baselines with the same estimator interface as CrowdGPPL. GPPL is CrowdGPPL(n_components=0)."""

from .bradley_terry import BradleyTerry
from .gppl_per_user import GPPLPerUser
from .linear import LinearPreference
from .paper_svi import PaperSVI

__all__ = ["BradleyTerry", "GPPLPerUser", "LinearPreference", "PaperSVI"]
