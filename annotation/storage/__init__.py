"""Crash-safe writes: SQL for the judging path, files, and fault injection to test both."""
