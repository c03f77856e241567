"""Template tags used by the pages of both apps."""
