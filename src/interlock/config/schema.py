"""The JSON Schema of the settings file."""

from typing import Any

from interlock.config.settings import DEFAULTS, SETTINGS
from interlock.core.state import DEFAULT_LANES


def json_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        default = DEFAULT_LANES if name == "lanes" else DEFAULTS[name]
        properties[name] = {"description": setting.help, **setting.kind.schema(), "default": default}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:interlock:settings",
        "title": "interlock.yaml",
        "description": "Settings of Interlock. Flags and INTERLOCK_* variables override what the file says.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
