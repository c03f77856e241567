"""Pages of a project: list, overview, settings, state, members, questions, copy, archive and delete."""
