"""Training: read rows into arrays, fit a model to them, and store it as a snapshot."""
