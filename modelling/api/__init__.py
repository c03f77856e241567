"""Version 1 of the API: what the pages do, for scripts, bots and other front ends. Rows are written by the services."""
