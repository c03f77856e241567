"""Fault drills: a real server, a crowd that keeps its own books, faults in between, and the books compared."""
