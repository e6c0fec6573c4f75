"""Workflows: runs whose steps are runs."""
