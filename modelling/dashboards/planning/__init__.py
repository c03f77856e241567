"""Pages about what to judge next, when to stop, and what a study would find."""
