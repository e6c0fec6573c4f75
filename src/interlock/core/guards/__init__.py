"""Constraints of jobs, and what happens when one is violated."""
