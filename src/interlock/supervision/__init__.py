"""Keeping processes alive."""
