"""Simulated workers over HTTP, and the demo study with its crowd."""
