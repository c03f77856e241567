"""Planning: which pairs to suggest, when to stop, and what a planned study would find."""
