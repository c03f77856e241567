"""Twelve fault drills: a server judges under load, a part of it fails and heals, and no answer is lost or doubled.

`python -m tests.drills.faults` runs them (`make drills`); docs/reliability.md lists them.
"""
