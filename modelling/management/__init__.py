"""The modelling app's management commands."""
