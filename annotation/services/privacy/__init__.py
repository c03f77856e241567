"""Personal data of workers: erase it, keep it only for a time, and give each worker a copy of their own."""
