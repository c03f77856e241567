"""Pages for paid studies: recruitment settings, preparation, completion, and endpoints for platforms."""
