"""Write types.ts and operations.ts of the dashboard from the table of operations, and listings.ts from the listings of
the command line: `python -m tools.dashboard_types`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from interlock.api.openapi import JOB_BODIES, REFERENCE, as_in_json, document
from interlock.interface.operation import Operation
from interlock.interface.operations import OPERATIONS
from interlock.interface.run_view import EVENT_NAMES
from interlock.model.access import Permission
from interlock.model.facets import Facets
from interlock.model.state import TERMINAL, State
from tools import dashboard_listings

FOLDER = Path("dashboard") / "src"
HEAD = "// Written by `python -m tools.dashboard_types`; do not edit it by hand.\n"
NAMES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
SHAPED = {"facets": Facets}  # fields of any view that are mappings with the fields of a struct
ROW = """/** How to ask for one; its path is relative to the server. */
export interface Row<K extends keyof Operations = keyof Operations> {
  name: K
  method: string
  path: string
  permission: Permission | null
  /** Whether only callers who see every tenant may ask. */
  everyTenant: boolean
}
""".splitlines()
JSON = """/** Any value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
"""


def texts() -> dict[str, str]:
    """Return the files by name."""
    return {
        "types.ts": "\n".join(_lines()),
        "operations.ts": "\n".join(_operations()) + "\n",
        "listings.ts": f"{HEAD}\n{dashboard_listings.text()}",
    }


def _lines() -> Iterator[str]:
    described = document(secured=True)
    _, shapes = msgspec.json.schema_components(SHAPED.values(), ref_template=REFERENCE)
    schemas = as_in_json(shapes) | described["components"]["schemas"]
    whole = _always_whole()
    yield HEAD
    yield JSON
    for name, schema in schemas.items():
        yield from _comment(schema.get("description"), "")
        if "properties" in schema:
            yield f"export interface {name} {_object(schema, '', name in whole)}\n"
        else:
            yield f"export type {name} = {_type(schema, '')};\n"
    yield from _constants()
    yield "/** The events of the stream, by name. */\nexport interface Events {"
    yield from (f"  {name}: {kind.__name__};" for kind, name in EVENT_NAMES.items())
    yield "}\n\n/** Every operation: what it takes, and what it answers. */\nexport interface Operations {"
    for operation in OPERATIONS:
        yield from _operation(operation, described["paths"][operation.path][operation.method.lower()])
    yield "}\n"


def _operations() -> Iterator[str]:
    """Each is a constant of its own: the bundle has those it asks for, and does not change with others."""
    yield f"{HEAD}\nimport type {{ Operations, Permission }} from './types'\n"
    yield from ROW
    for operation in OPERATIONS:
        yield f"export const {operation.name}: Row<{json.dumps(operation.name)}> = {_row(operation)}"


def _constants() -> Iterator[str]:
    for name, values in (("STATES", State), ("TERMINAL", sorted(TERMINAL, key=list(State).index))):
        yield f"export const {name} = {json.dumps([str(one) for one in values])} as const;"
    yield f"export type Permission = {_type({'enum': list(Permission)}, '')};\n"


def _operation(operation: Operation[Any], described: dict[str, Any]) -> Iterator[str]:
    yield from _comment(operation.text, "  ")
    yield f"  {operation.name}: {{"
    for place in ("path", "query"):
        found = {one["name"]: one for one in described["parameters"] if one["in"] == place}
        schema = {
            "properties": {name: one["schema"] | {"description": one["description"]} for name, one in found.items()},
            "required": [name for name, one in found.items() if one["required"]],
        }
        yield f"    {place}: {_object(schema, '    ', False) if found else 'Record<string, never>'};"
    body = JOB_BODIES.get(operation.name) or getattr(operation.body, "__name__", None)
    yield f"    body: {body or 'undefined'}{'' if operation.http.body_required else ' | undefined'};"
    answer = operation.answer
    named = hasattr(answer, "__struct_fields__")
    yield f"    answer: {answer.__name__ if named else 'string' if answer is str else 'Json'};\n  }};"


def _row(operation: Operation[Any]) -> str:
    row = {
        "name": operation.name,
        "method": operation.method,
        "path": operation.path[1:],
        "permission": operation.needs and operation.needs.value,
        "everyTenant": bool(operation.http.every_tenant),
    }
    return json.dumps(row)


def _object(schema: dict[str, Any], indent: str, is_whole: bool) -> str:
    lines = ["{"]
    for name, found in schema["properties"].items():
        lines += _comment(found.get("description"), f"{indent}  ")
        mark = "" if is_whole or name in schema.get("required", ()) else "?"
        key = name if name.isidentifier() else json.dumps(name)
        kind = SHAPED[name].__name__ if name in SHAPED else _type(found, f"{indent}  ")
        lines.append(f"{indent}  {key}{mark}: {kind};")
    return "\n".join([*lines, f"{indent}}}"])


def _type(schema: dict[str, Any], indent: str) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")]))
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_type(one, indent) for one in choices if one.keys() != {"required"})) or "Json"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}, indent) for one in kind)
    if kind == "array":
        items = _type(schema.get("items") or {}, indent)
        return f"({items})[]" if " " in items else f"{items}[]"
    if kind == "object":
        if schema.get("properties"):
            return _object(schema, indent, False)
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values, indent) if isinstance(values, dict) else 'Json'}>"
    return NAMES.get(kind or "", "Json")


def _comment(said: str | None, indent: str) -> Iterator[str]:
    if said:
        yield f"{indent}/** {said.replace('*/', '* /')} */"


def _always_whole() -> set[str]:
    """Return the names of the answers whose fields are always sent, those with a default too."""
    seen: set[type[msgspec.Struct]] = set()

    def walk(found: Any) -> None:
        if isinstance(found, inspect.StructType):
            if found.cls in seen:
                return
            seen.add(found.cls)
        if isinstance(found, msgspec.Struct):
            for name in found.__struct_fields__:
                walk(getattr(found, name))
        elif isinstance(found, tuple):
            for one in found:
                walk(one)

    answers = [operation.answer for operation in OPERATIONS if hasattr(operation.answer, "__struct_fields__")]
    for found in inspect.multi_type_info([*answers, *EVENT_NAMES]):
        walk(found)
    return {kind.__name__ for kind in seen if not kind.__struct_config__.omit_defaults}


def main() -> None:
    for name, text in texts().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
