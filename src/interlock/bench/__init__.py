"""Measurements: Interlock beside raw SQLite and a peer, in one run on one machine."""
