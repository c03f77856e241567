"""The drills themselves, and the participants, readers and updater processes they use."""
