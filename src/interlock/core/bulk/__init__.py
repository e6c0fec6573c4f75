"""Requests for many runs, and retries of ended ones."""
