"""Database backends that fail fast: Django's own, with checks that keep answers safe and requests short."""
