"""The commands of the annotation app."""
