"""Which pair a worker gets next, and the leases that reserve it for them."""
