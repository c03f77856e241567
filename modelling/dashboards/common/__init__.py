"""Building blocks shared by several dashboard pages."""
