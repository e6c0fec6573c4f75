"""The streams of runs."""
