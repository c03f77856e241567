"""The commands of the modelling app."""
