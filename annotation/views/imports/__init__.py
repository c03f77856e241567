"""Pages that import items and past judgements from a file."""
