"""Adapters of the bus port."""
