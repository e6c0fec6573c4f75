"""Lanes and their limits, from flags and the environment."""

from collections.abc import Mapping, Sequence

from interlock.config.setting_types import Lanes, Place
from interlock.core.state import DEFAULT_LANES
from interlock.model.error import BadValue

LANE_PREFIX = "INTERLOCK_LANE_"


def lanes(environment: Mapping[str, str]) -> dict[str, int]:
    """Every lane and how many runs may execute in it at once."""
    return dict(DEFAULT_LANES) | from_environment(environment)


def from_environment(environment: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for name, value in sorted(environment.items()):
        if name.startswith(LANE_PREFIX):
            place = Place(name)
            lane = Lanes.name(name.removeprefix(LANE_PREFIX).lower(), place)
            found[lane] = Lanes.LIMIT.read(value, place)
    return found


def from_flags(flags: Sequence[str]) -> dict[str, int]:
    found = {}
    for flag in flags:
        name, separator, value = flag.partition("=")
        if not separator:
            raise BadValue("--lane", flag, "of the form NAME=LIMIT")
        found[Lanes.name(name, Place("--lane"))] = Lanes.LIMIT.read(value, Place(f"--lane {name}"))
    return found
