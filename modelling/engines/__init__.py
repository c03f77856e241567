"""The engines that can fit a study's model, and the interface that pages, exports and the updater use."""

from .interface import CROWDGPPL, ENGINES, PAPER_SVI, Engine, restore_engine
from .paper_svi import PaperSVIEngine

__all__ = ["CROWDGPPL", "ENGINES", "PAPER_SVI", "Engine", "PaperSVIEngine", "restore_engine"]
