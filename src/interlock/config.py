"""Settings: what a flag says, else the environment, else the default."""

from collections.abc import Mapping, Sequence

from interlock.core.state import DEFAULT_LANES
from interlock.model.error import BadValue
from interlock.model.job import NAME

LANE_PREFIX = "INTERLOCK_LANE_"


def lanes(environment: Mapping[str, str], flags: Sequence[str] = ()) -> dict[str, int]:
    """Every lane and how many runs may execute in it at once."""
    found = dict(DEFAULT_LANES)
    for name, value in sorted(environment.items()):
        if name.startswith(LANE_PREFIX):
            found[_lane_name(name, name.removeprefix(LANE_PREFIX).lower())] = _limit(name, value)
    for flag in flags:
        name, separator, value = flag.partition("=")
        if not separator:
            raise BadValue("--lane", flag, "of the form NAME=LIMIT")
        found[_lane_name("--lane", name)] = _limit(f"--lane {name}", value)
    return found


def check_numbers(settings: object, **ranges: tuple[int, int]) -> None:
    """Raise for the first field that is not a whole number in its range."""
    for field, (least, most) in ranges.items():
        value = getattr(settings, field)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise BadValue(field, value, f"a whole number from {least:,} to {most:,}")


def check_lane(field: str, name: str, limit: object) -> None:
    """Raise unless this is a lane's name and a limit for it."""
    _lane_name(field, name)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadValue(f"{field}.{name}", limit, "a whole number of 1 or more")


def _lane_name(field: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadValue(field, name, "a lane's name")
    return name


def _limit(field: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) < 1:
        raise BadValue(field, value, "a whole number of 1 or more, of 9 digits at the most")
    return int(value)
