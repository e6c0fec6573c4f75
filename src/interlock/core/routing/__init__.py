"""Routing: the workers, and which of them takes a run."""
