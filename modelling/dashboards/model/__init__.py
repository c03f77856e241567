"""Data for the model pages: settings, versions, scoreboard, and the model compared with the votes."""
