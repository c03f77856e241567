"""Signed notifications to other servers."""
