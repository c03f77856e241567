"""The components of a version: stable numbers, names, and the words and items at both ends."""
