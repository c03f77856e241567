"""Pages about workers: the list with its map, one worker, and what workers see about themselves."""
