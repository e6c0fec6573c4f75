"""Tenants and their limits."""
