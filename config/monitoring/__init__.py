"""Monitoring of a running server: health checks, metrics and log records."""
