"""Clients over HTTP: what they ask is written once, without input or output, and carried out blocking or async."""
