"""Forms and field validation for researchers' and workers' input."""
