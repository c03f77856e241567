"""Helpers of the tests: commands, threads, servers and databases."""
