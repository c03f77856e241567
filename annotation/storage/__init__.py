"""Writes that survive a crash: SQL of the judging path, files, and fault injection to test both."""
