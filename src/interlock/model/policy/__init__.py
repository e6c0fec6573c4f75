"""Policies as documents and verdicts: what may start, and what may come out."""
