"""What a page shows, as frozen facts. One module per page; each reads one snapshot and only that one."""
