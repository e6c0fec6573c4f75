"""Choose the value of each setting, and remember its source."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from interlock.config import settings as s
from interlock.config.plain_yaml import SETTINGS_NAME, parts_of, read_text
from interlock.core.state import DEFAULT_LANES
from interlock.error import BadConfig, shown
from interlock.fields.field_types import FieldPath, Optional, did_you_mean

CONFIG_VARIABLE = "INTERLOCK_CONFIG"
HANDED_OVER = ("INTERLOCK_RESUME_ID", "INTERLOCK_PREV_EXIT", "INTERLOCK_PREV_SIGNAL", "INTERLOCK_CHILD")
"""variables that a supervisor gives a service, which may call `interlock`"""
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "INTERLOCK_BENCH_DIR", *HANDED_OVER})
NOT_OURS = re.compile(
    r"INTERLOCK_(TEST_.*|(.+_)?(SERVICE_(HOST|PORT(_.+)?)=.*|PORT(=|_[0-9]+_[A-Z]+=)[a-z]+://.*|PORT_[0-9]+_[A-Z]+_.+))",
    re.DOTALL,
)
"""variables of tests, and those that Kubernetes sets in each container for a service interlock or interlock-…"""

FOREIGN = {
    re.compile("GOCLAW_LANE_(.+)"): rf"set {s.LANE_PREFIX}\1",
    re.compile("OUTPUT_POLICY_ENABLED"): "write output: into the document 'kind: Policy' instead",
}
"""variables of other programs that people carry over and Interlock does not read, each with its own setting"""

DEFAULT = "default"


class File(msgspec.Struct, frozen=True):
    """The values of a settings file, and the line of each."""

    name: str
    values: dict[str, Any]
    lines: dict[str, int]  # path of a field → its line: `slots`, `lanes.main`, `tokens[0].role`


class Resolved(msgspec.Struct, frozen=True):
    """The settings in effect, and the source of each: `flag --slots`, `INTERLOCK_SLOTS`, `interlock.yaml:7`,
    `default`. Each lane has a source, as `lanes.main`."""

    settings: s.Settings
    client: s.ClientSettings
    sources: dict[str, str]
    file: str | None  # the settings file, if any
    unread: dict[str, str] = {}  # variable of another program → what to do instead


def defaults() -> Resolved:
    """Return the settings if nothing is set."""
    return _resolve({}, {}, None)


def resolve(
    flags: Mapping[str, Any] | None = None, config: str | None = None, environment: Mapping[str, str] | None = None
) -> Resolved:
    """Resolve all settings. `flags` maps the name of a setting to text as typed, a list of texts for one that may
    be repeated, or True for a flag without a value; None means not given."""
    environment = os.environ if environment is None else environment
    given = {name: value for name, value in (flags or {}).items() if value not in (None, [])}
    return _resolve(given, environment, _file(config, environment))


def _resolve(given: Mapping[str, Any], environment: Mapping[str, str], found: File | None) -> Resolved:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, setting in (s.SETTINGS | s.CLIENT_SETTINGS).items():
        if name == "lanes":
            continue
        values[name], sources[name] = _one(name, setting, given, environment, found)
    _check_variables(environment, values["tokens"])
    values["lanes"] = {}
    for source, lane, limit in _lanes(given.get("lanes") or [], environment, found):
        if source != DEFAULT:
            values["lanes"][lane] = limit
        sources[f"lanes.{lane}"] = source
    return Resolved(
        s.Settings(**{name: values[name] for name in s.SETTINGS}),
        s.ClientSettings(**{name: values[name] for name in s.CLIENT_SETTINGS}),
        sources,
        found.name if found else None,
        {
            name: match.expand(instead)
            for name in sorted(environment)
            for pattern, instead in FOREIGN.items()
            if (match := pattern.fullmatch(name)) is not None
        },
    )


def read_settings(name: str) -> File:
    """Read a file with one document of plain YAML."""
    parts = parts_of(read_text(name, name), name)
    first = next(parts, None)
    if first is None:
        return File(name, {}, {})
    if not isinstance(first.value, dict):
        raise BadConfig(f"{name}:{first.lines['']}: settings are written as 'name: value'")
    if (second := next(parts, None)) is not None:
        raise BadConfig(f"{name}:{second.begins}: a second document ('---'); a settings file has one")
    return File(name, first.value, first.lines)


def _file(config: str | None, environment: Mapping[str, str]) -> File | None:
    name = config if config is not None else environment.get(CONFIG_VARIABLE) or None
    if name is None:
        if not os.path.lexists(SETTINGS_NAME):
            return None
        name = SETTINGS_NAME
    found = read_settings(name)
    for key in found.values:
        if key not in s.SETTINGS:
            hint = did_you_mean(s.setting_of(key), s.SETTINGS)
            raise BadConfig(f"{name}:{found.lines[key]}: {shown(key)} is not a setting{hint}")
    return found


def _one(
    name: str, setting: s.Setting, flags: Mapping[str, Any], environment: Mapping[str, str], found: File | None
) -> tuple[Any, str]:
    variable = setting.variable if environment.get(setting.variable) else s.variable_of(name)
    if name in flags:
        given, flag = flags[name], s.flag_of(name)
        if isinstance(given, list):
            return setting.kind.read_each(given, FieldPath(flag)), f"{'flag' if flag[0] == '-' else 'argument'} {flag}"
        if isinstance(given, bool):
            return given, f"flag {flag}"
        return setting.kind.read(given, FieldPath(flag)), f"flag {flag}"
    text = environment.get(variable) if setting.in_environment else None
    if text or (text is not None and not isinstance(setting.kind, Optional)):
        return setting.kind.read(text, FieldPath(variable)), variable
    if found is not None and name in found.values:
        place = FieldPath(name, found.name, found.lines)
        return setting.kind.check(found.values[name], place), place.source()
    return s.DEFAULTS[name], DEFAULT


def _lanes(flags: list[str], environment: Mapping[str, str], found: File | None) -> Iterator[tuple[str, str, int]]:
    """Return every lane with its source, the weakest source first."""
    for lane, limit in DEFAULT_LANES.items():
        yield DEFAULT, lane, limit
    if found is not None and found.values.get("lanes") is not None:
        place = FieldPath("lanes", found.name, found.lines)
        for lane, limit in s.LANES.check(found.values["lanes"], place).items():
            yield place.at(lane).source(), lane, limit
    for lane, limit in s.from_environment(environment).items():
        yield s.LANE_PREFIX + lane.upper(), lane, limit
    for lane, limit in s.from_flags(flags).items():
        yield f"flag --lane {lane}", lane, limit


def _check_variables(environment: Mapping[str, str], tokens: list[Any]) -> None:
    """Refuse unknown variables: a mistyped one would silently have no effect."""
    known = {
        s.variable_of(name) for name, setting in (s.SETTINGS | s.CLIENT_SETTINGS).items() if setting.in_environment
    }
    known = (known - {s.variable_of("lanes")}) | OTHER_VARIABLES | {token.env for token in tokens}
    for name in sorted(environment):
        if not name.startswith(s.PREFIX) or name in known or name.startswith(s.LANE_PREFIX):
            continue
        if not NOT_OURS.fullmatch(f"{name}={environment[name]}"):
            each = f"; each lane has its own: {s.LANE_PREFIX}<NAME>"
            meant = s.setting_of(name.removeprefix(s.PREFIX).lower())
            hint = each if meant == "lanes" else did_you_mean(s.variable_of(meant), known)
            raise BadConfig(f"{name}: unknown setting{hint}")
