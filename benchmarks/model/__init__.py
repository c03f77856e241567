"""The model alone: speed, coverage, stability, streaming, worker traits and reliability."""
