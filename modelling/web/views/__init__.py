"""Views of the model's pages."""
