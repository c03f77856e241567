"""Settings: base, and the profiles embedded, server and test."""
