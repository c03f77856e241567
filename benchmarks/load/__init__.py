"""A real Concord server under simulated load: clients that log every send, and a check of that log against the rows."""
