"""Workers' personal data: erase it, limit how long it is stored, and let workers download it."""
