"""Files become rows: items and past judgements from CSV, checked whole before anything is written."""
