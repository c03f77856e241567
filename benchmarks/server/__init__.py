"""Benchmarks of the running server, the updater, imports and exports."""
