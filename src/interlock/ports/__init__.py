"""Ports: what the shell needs from outside, one a file. The docstrings are the contract of every adapter."""
