"""Upgrades from the databases of earlier releases."""
