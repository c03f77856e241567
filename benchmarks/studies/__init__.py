"""Held-out log loss of crowdGPPL and simpler models on simulated and real studies, and the number of components."""
