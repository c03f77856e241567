"""Baselines with CrowdGPPL's estimator interface; `catalogue` lists them. GPPL is CrowdGPPL(n_components=0)."""

from .bradley_terry import BradleyTerry
from .collab_gp import CollabGP
from .crowd_bt import CrowdBT, CrowdBTGP
from .gppl_per_user import GPPLPerUser
from .gpvu import GPVU
from .linear import LinearPreference
from .paper_svi import PaperSVI
from .thurstone_mosteller import ThurstoneMosteller

__all__ = [
    "GPVU",
    "BradleyTerry",
    "CollabGP",
    "CrowdBT",
    "CrowdBTGP",
    "GPPLPerUser",
    "LinearPreference",
    "PaperSVI",
    "ThurstoneMosteller",
]
