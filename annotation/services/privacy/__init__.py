"""Workers' personal data: erase it, limit how long it is kept, and give each worker a copy of their own."""
