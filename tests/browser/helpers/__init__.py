"""Servers and page checks of the browser tests."""
