"""Read a table from a CSV, TSV, JSON or Excel file: encoding, header and rows."""
