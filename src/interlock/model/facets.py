"""Facets: properties of some runs. A new one is a struct and a field here; no table, store or interface changes."""

from typing import Any

import msgspec


class Hold(msgspec.Struct, frozen=True):
    """A run that waits until a person releases it."""

    by: str
    at: float


class Facets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facets of a run by name, None where it has none. Stored as one value in one column."""

    hold: Hold | None = None
    labels: dict[str, str] | None = None


def shown(facets: Facets | None) -> dict[str, dict[str, Any]]:
    """Return the fields of each facet of a run, by its name."""
    found: dict[str, dict[str, Any]] = {} if facets is None else msgspec.to_builtins(facets)
    return found
