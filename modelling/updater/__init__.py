"""The background process: leases, the loop, one update, and queued jobs."""
