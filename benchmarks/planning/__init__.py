"""Benchmarks of planning: suggested pairs, the stop rule, claims, and checks of workers and reliability."""
