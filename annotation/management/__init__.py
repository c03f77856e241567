"""Management commands and their base classes."""
