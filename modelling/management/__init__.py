"""Management commands of the modelling app."""
