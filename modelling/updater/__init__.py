"""The background process: leases, the loop, one update, queued jobs and webhooks."""
