"""Fault drills: a real server under load, faults injected, and the clients' own log compared with the database."""
