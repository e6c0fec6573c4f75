"""Workflows that are functions: an order that is undone, and an agent that asks."""
