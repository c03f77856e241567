"""Verify event logs: their hash chains, the triggers that protect them, and signed checkpoints."""

from annotation.services.verification.events import find_problems, find_trigger_problems, find_unprotected_projects

__all__ = ["find_problems", "find_trigger_problems", "find_unprotected_projects"]
