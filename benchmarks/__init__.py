"""Measurements of speed, memory and model quality. Each module prints one JSON object; see README.md."""
