"""What reading the files again has changed."""

import msgspec


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the things of one kind, by their names."""

    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    unchanged: list[str] = []


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Difference
    services: Difference
    """and groups of them"""
