"""Version 1 of the REST API for scripts, bots and other front ends; it calls the same services as the pages."""
