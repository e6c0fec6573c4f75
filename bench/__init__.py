"""Interlock beside raw SQLite and its peers, in one run on one machine: `python -m bench`."""

import importlib.util


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in packages)
