"""Held-out log loss of crowdGPPL and simpler models on simulated and real studies, stability, components."""
