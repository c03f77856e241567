"""Import items and past judgements from files; a file is checked completely before anything is written."""
