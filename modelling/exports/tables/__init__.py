"""The export tables, and how their rows are read page by page."""
