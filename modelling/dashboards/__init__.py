"""What each researcher page shows: one module per page, a frozen dataclass of facts and its figures."""
