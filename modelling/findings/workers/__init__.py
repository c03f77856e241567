"""Wrong or different: whether each worker's answers look careless, different from the crowd, or ordinary."""
