"""Assess workers: whether their answers look careless, different from the crowd, or ordinary."""
