"""Pages of paid studies: recruitment settings, preparation, completion, and what platforms call."""
