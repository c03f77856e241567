"""Forms of the model's pages."""
