"""The JSON Schemas of the settings file and of documents, made from the declarations of their fields."""

import json
import sys
from typing import Any

from interlock.config.settings import DEFAULTS, SETTINGS
from interlock.config.sources import KINDS
from interlock.core.state import DEFAULT_LANES
from interlock.fields.field import definitions, object_schema
from interlock.fields.field_types import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    properties: Schema = {}
    for name, setting in SETTINGS.items():
        default = DEFAULT_LANES if name == "lanes" else DEFAULTS[name]
        properties[name] = {"description": setting.help, **setting.kind.schema(), "default": default}
    return {
        "$schema": DIALECT,
        "$id": "urn:interlock:settings",
        "title": "interlock.yaml",
        "description": "Settings of Interlock. Flags and INTERLOCK_* variables override the file.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def documents_schema() -> Schema:
    """Return the schema of one document of any kind."""
    kinds = []
    parts: dict[str, Any] = {}
    for kind, (fields, _) in KINDS.items():
        schema = object_schema(fields.values())
        schema["properties"] = {"kind": {"const": kind}} | schema["properties"]
        kinds.append({"title": kind, **schema, "required": ["kind", *schema["required"]]})
        parts |= definitions(fields.values())
    return {
        "$schema": DIALECT,
        "$id": "urn:interlock:documents",
        "title": "Documents of Interlock",
        "description": "A file for 'interlock up' holds any number of these documents.",
        "oneOf": kinds,
        "$defs": parts,
    }


def written() -> str:
    """Return the schema of documents as JSON, with one line for each kind and definition."""
    schema = documents_schema()
    kinds = ",\n".join(json.dumps(kind) for kind in schema.pop("oneOf"))
    parts = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in schema.pop("$defs").items())
    head = json.dumps(schema).removesuffix("}")
    return f'{head},\n"oneOf": [\n{kinds}\n],\n"$defs": {{\n{parts}\n}}}}\n'


if __name__ == "__main__":
    sys.stdout.write(written())
