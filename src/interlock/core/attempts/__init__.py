"""Attempts: their signs of life, their end, and requests to stop them."""
