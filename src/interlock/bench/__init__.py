"""Measurements: Interlock beside raw SQLite and its peers, in one run on one machine."""
