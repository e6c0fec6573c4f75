"""Lanes, and the gates that their runs pass."""
