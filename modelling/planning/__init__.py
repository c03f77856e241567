"""Plan judgements: which pairs to suggest, when to stop, and what a study of some design would find."""
