"""The report of one version: the facts of the pages in one self-contained document."""
