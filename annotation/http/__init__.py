"""HTTP helpers: access control, JSON bodies, error pages, throttling and upload limits."""
