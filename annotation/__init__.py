"""Annotation: studies, items, workers and their judgements of pairs, and the pages for workers and owners."""
