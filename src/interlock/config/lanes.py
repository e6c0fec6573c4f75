"""Limits of lanes, from the settings file, flags and the environment."""

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.state import DEFAULT_LANES
from interlock.error import BadValue
from interlock.fields.field_types import FieldPath, Kind, Schema
from interlock.model.job import NAME
from interlock.model.lane import LIMIT, LaneSpec, with_limits

LANE_PREFIX = "INTERLOCK_LANE_"


class LaneSettings(Kind):
    """Names of lanes and their limits."""

    metavar = "NAME=LIMIT"

    def check(self, value: Any, place: FieldPath) -> dict[str, int]:
        if not isinstance(value, dict):
            raise BadValue(str(place), value, "a mapping of lanes to their limits")
        return {self.name(name, place): LIMIT.check(limit, place.at(name)) for name, limit in value.items()}

    @staticmethod
    def name(name: object, place: FieldPath) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadValue(str(place), name, "a lane's name")
        return name

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{NAME.pattern}$"},
            "additionalProperties": LIMIT.schema(),
        }

    def show(self, value: dict[str, int]) -> str:
        return ", ".join(f"{name} {limit}" for name, limit in value.items())


def lanes(environment: Mapping[str, str], declared: Mapping[str, LaneSpec] = {}) -> dict[str, LaneSpec]:
    """Return every lane. The limits of the environment override those declared, and these override the defaults."""
    return with_limits(from_environment(environment), with_limits(DEFAULT_LANES) | dict(declared))


def from_environment(environment: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for name, value in sorted(environment.items()):
        if name.startswith(LANE_PREFIX):
            place = FieldPath(name)
            lane = LaneSettings.name(name.removeprefix(LANE_PREFIX).lower(), place)
            found[lane] = LIMIT.read(value, place)
    return found


def from_flags(flags: Sequence[str]) -> dict[str, int]:
    found = {}
    for flag in flags:
        name, separator, value = flag.partition("=")
        if not separator:
            raise BadValue("--lane", flag, "of the form NAME=LIMIT")
        found[LaneSettings.name(name, FieldPath("--lane"))] = LIMIT.read(value, FieldPath(f"--lane {name}"))
    return found
