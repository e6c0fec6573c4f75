"""Write docs/reference/http.md from the OpenAPI description: `python -m tools.http_reference`."""

import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from interlock import error as errors
from interlock.api.openapi import document as described

DOCUMENT = Path("docs") / "reference" / "http.md"

HEAD = """# HTTP: routes, types, errors

Written by `python -m tools.http_reference`; do not edit it by hand. [HTTP](../http.md) shows how to use it.
"""

INSIDE = {
    "AuditKind", "ResolveBody", "Ruling",
    "SubmittedBatch", "BatchBody", "ReasonBody", "ActedOn", "Health", "State", "Status", "CatchUp",
    "TriggerBody", "BackfillBody", "JobsBody", "Defined", "FireTimes", "BulkBody", "RunAction",
    "Priority", "LaneStatus", "OverLimit", "ReasonKind", "Obstacle",
    "Mode", "Drop", "SessionAction", "ActedOnSession", "DeliveryState", "Sensitivity", "WorkerState", "PoolStatus",
    "LetterCode", "Dropped", "WorkflowStatus", "Role", "NeedKind", "SignInBody",
}  # fmt: skip
"""types described where they are used"""
WORDS = {
    "State": "A run's `state`",
    "NeedKind": "The `kind` of a need",
    "Role": "The `role` of a token",
    "Ruling": "The `decision` of a verdict",
    "AuditKind": "The `kind` of an audit entry",
    "Status": "A service's `status`",
    "CatchUp": "A schedule's `catch_up`",
    "RunAction": "A bulk request's `action`",
    "Priority": "A run's `priority`",
    "LaneStatus": "A lane's `status`",
    "OverLimit": "A tenant's `over_limit`",
    "ReasonKind": "The `kind` of a reason",
    "Obstacle": "The `obstacle` of a worker",
    "Mode": "A session's `mode`",
    "Drop": "A session's `drop`",
    "SessionAction": "The `action` on a session",
    "DeliveryState": "A delivery's `state`",
    "Sensitivity": "A job's `sensitivity`",
    "WorkerState": "A worker's `state`",
    "PoolStatus": "A pool's `status`",
    "LetterCode": "A dead letter's `code`",
    "WorkflowStatus": "A workflow run's `status`",
}
"""types with a few values"""
BASES = {
    "RunDetail": "RunInfo",
    "ApprovalDetail": "ApprovalInfo",
    "NamedJobBody": "JobBody",
    "LetterDetail": "LetterInfo",
}  # types that extend another


def document() -> str:
    return "\n".join(_lines(described(secured=False))) + "\n"


def _lines(description: dict[str, Any]) -> Iterator[str]:
    schemas = description["components"]["schemas"]
    yield HEAD
    yield "## Routes\n"
    common = _common_statuses(description)
    listed = ", ".join(str(status) for status in sorted(common))
    yield f"Every route may answer {listed}; each route lists its further ones. [Errors](#errors) lists the codes.\n"
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            yield from _operation(method.upper(), path, operation, schemas, common)
    yield "## Types\n"
    for name, what in WORDS.items():
        yield f"{what} is one of {', '.join(f'`{one}`' for one in schemas[name]['enum'])}.\n"
    for name, schema in schemas.items():
        if name not in INSIDE:
            yield f"### {name}\n"
            if "description" in schema:
                yield f"{_text(schema['description'])}\n"
            known: dict[str, Any] = {}
            if name in BASES:
                yield f"The fields of [{BASES[name]}](#{BASES[name].lower()}), and:\n"
                known = schemas[BASES[name]]["properties"]
            yield from _fields(schema, known)
    yield from _errors()


def _common_statuses(description: dict[str, Any]) -> set[int]:
    """Return the error statuses that every route shares."""
    found = [set(one["responses"]) for operations in description["paths"].values() for one in operations.values()]
    return {int(status) for status in set.intersection(*found) if int(status) >= 400}


def _operation(
    method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any], common: set[int]
) -> Iterator[str]:
    yield f"### {method} {path}\n"
    yield f"{operation['summary']}. {_text(operation.get('description', ''))}".strip() + "\n"
    if operation.get("parameters"):
        yield "| parameter | | |\n|---|---|---|"
        for one in operation["parameters"]:
            default = f", default {str(one['schema']['default']).lower()}" if "default" in one["schema"] else ""
            yield f"| `{one['name']}` | {one['in']}, {_kind(one['schema'])}{default} | {_text(one['description'])} |"
        yield ""
    if "requestBody" in operation:
        name = _name(operation["requestBody"]["content"]["application/json"]["schema"])
        needed = "" if operation["requestBody"]["required"] else ", which may be left out"
        if name in INSIDE:
            yield f"The body{needed}:\n"
            yield from _fields(schemas[name])
        else:
            yield f"The body{needed}: [{name}](#{name.lower()}).\n"
    yield "| answer | |\n|---|---|"
    for status, answer in operation["responses"].items():
        if int(status) not in common or "application/json" in answer["content"]:
            yield f"| {status} | {_text(answer['description'])}{_answer(answer, schemas)} |"
    yield ""


def _answer(answer: dict[str, Any], schemas: dict[str, Any]) -> str:
    for media_type, content in answer["content"].items():
        if media_type == "application/json" and "$ref" in content["schema"]:
            name = _name(content["schema"])
            if name not in INSIDE:
                return f" [{name}](#{name.lower()})"
            fields = schemas[name]["properties"]
            inside = ", ".join(f'"{field}": {_kind(found)}' for field, found in fields.items())
            return f" `{{{inside}}}`".replace("[State](#types)", "state")
    return ""


def _fields(schema: dict[str, Any], without: Container[str] = ()) -> Iterator[str]:
    yield "| field | | |\n|---|---|---|"
    closed = schema.get("additionalProperties") is False
    for name, found in schema["properties"].items():
        if name in without:
            continue
        kind, default = _kind(found), found.get("default")
        if closed and "default" in found:
            # In a request, null means the same as leaving the field out.
            kind = kind.replace(" or null", "") + (", optional" if default is None else f", default `{default}`")
        yield f"| `{name}` | {kind} | {_text(found.get('description', ''))} |"
    yield ""


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _kind(schema: dict[str, Any]) -> str:
    """Return the type in words."""
    if "$ref" in schema:
        name = _name(schema)
        return f"[{name}](#{'types' if name in WORDS else name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}" + _limits(schema, "minItems", "maxItems")
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"object of {_kind(schema['additionalProperties'])}"
    if schema.get("format") == "date-time":
        return "time"
    if "pattern" in schema and "(ms|s" in schema["pattern"]:
        return "duration"
    names = schema.get("type", "any JSON")
    return (" or ".join(names) if isinstance(names, list) else str(names)) + _limits(schema, "minimum", "maximum")


def _limits(schema: dict[str, Any], least: str, most: str) -> str:
    if schema.get(least) and schema.get(most):
        first = f"{schema[least]:,.0f}" if schema[least] >= 1 else f"{schema[least]:.2g}"
        return f", {first} to {schema[most]:,.0f}"
    return ""


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield (
        "Errors are [ProblemDetails](#problemdetails) of the type `application/problem+json`. `Retry-After` of a 429 "
        "or 503 says when to try again.\n"
    )
    yield "| status | code | |\n|---|---|---|"
    for kind in sorted(errors.ERRORS.values(), key=lambda one: one.status):
        # Errors of the command line, if it happens to be loaded, never leave over HTTP.
        if kind.__module__.startswith(errors.__name__) and (kind.status != 500 or "status" in kind.__dict__):
            yield f"| {kind.status} | `{kind.code}` | {_text(kind.meaning)} |"


def _text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT}\n")
