"""Read the settings file: one document of plain YAML, each field with its line."""

from pathlib import Path
from typing import Any

import msgspec

from interlock.config.plain_yaml import LARGEST, parts_of, read_text
from interlock.error import BadConfig

__all__ = ["DEFAULT_NAME", "LARGEST", "File", "read"]

DEFAULT_NAME = "interlock.yaml"


class File(msgspec.Struct, frozen=True):
    """The values of a settings file, and the line of each."""

    name: str
    values: dict[str, Any]
    lines: dict[str, int]  # path of a field → its line: `slots`, `lanes.main`, `tokens[0].role`


def read(path: Path, name: str) -> File:
    """Read the file, which messages call `name`."""
    parts = parts_of(read_text(str(path), name), name)
    first = next(parts, None)
    if first is None:
        return File(name, {}, {})
    if not isinstance(first.value, dict):
        raise BadConfig(f"{name}:{first.lines['']}: settings are written as 'name: value'")
    second = next(parts, None)
    if second is not None:
        raise BadConfig(f"{name}:{second.begins}: a second document ('---'); a settings file has one")
    return File(name, first.value, first.lines)
