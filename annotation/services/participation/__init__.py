"""How a participation begins and ends: arrival from a platform, outcomes and completion."""
