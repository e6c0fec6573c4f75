"""Adapters of the store and lease ports."""
