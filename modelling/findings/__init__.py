"""Findings about a version: simultaneous claims, items that bridge opinions, and assessments of workers."""
