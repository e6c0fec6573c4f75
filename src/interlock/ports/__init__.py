"""Ports: the needs of the shell from outside, one per file. The docstrings are the contract of every adapter."""
