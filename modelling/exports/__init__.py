"""Exports: catalogue, tables, formats, archive, background jobs and backup; `service` is the entry point."""
