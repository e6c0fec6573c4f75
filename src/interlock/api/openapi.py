"""The OpenAPI description, made from the table of operations and the types in it."""

import json
import re
from collections import defaultdict
from typing import Any

import msgspec

from interlock import error as e
from interlock.api.cursors import cursor_form
from interlock.api.problems import MEDIA_TYPE
from interlock.fields.field import definitions, object_schema
from interlock.interface.bodies import MOST_JOBS, ProblemDetails
from interlock.interface.operation import PATH_PARAMETERS, Operation
from interlock.interface.operations import OPERATIONS
from interlock.interface.run_view import EVENT_NAMES, RunInfo
from interlock.interface.server_operations import EVENT_ID
from interlock.model.job import JOB_FIELDS
from interlock.model.state import State
from interlock.wire.operation import Key

REFERENCE = "#/components/schemas/{name}"
PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="ProblemDetails")}}}
JOB_BODIES = {"put_job": "JobBody", "put_jobs": "JobsBody"}  # jobs, which are read by the same code as documents

ANYWHERE: tuple[type[e.InterlockError], ...] = (
    e.BadRequest, e.BadValue, e.UnknownField, e.Unauthorized, e.Forbidden, e.WrongOrigin, e.RequestTimeout,
    e.HeadTooLarge, e.InterlockError, e.StoreUnavailable, e.OutcomeUnknown, e.Draining, e.NotRunning, e.ConnectionLost,
    e.Overloaded,
)  # fmt: skip
"""errors that any operation may answer with"""
WITH_BODY: tuple[type[e.InterlockError], ...] = (
    e.BadJson, e.MissingField, e.BadDuration, e.BodyTooLarge, e.UnsupportedMediaType,
)  # fmt: skip
LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Id of the last event known; every event stored after it is sent first.",
    "schema": {"type": "string", "pattern": f"^({EVENT_ID})$"},
}


def document(secured: bool) -> dict[str, Any]:
    """The description of a server that asks for tokens, or does not."""
    queries = {operation.query for operation in OPERATIONS}
    bodies = {operation.body for operation in OPERATIONS if operation.name not in JOB_BODIES}
    types = bodies | {operation.answer for operation in OPERATIONS}
    named = sorted((kind for kind in types if hasattr(kind, "__struct_fields__")), key=lambda one: one.__name__)
    _, schemas = msgspec.json.schema_components(
        [ProblemDetails, *named, *EVENT_NAMES, *queries], ref_template=REFERENCE
    )
    of_jobs = job_schemas()
    assert not schemas.keys() & of_jobs.keys() - {"JobsBody"}, "a body has the name of a part of a job"
    schemas = as_in_json(schemas) | of_jobs
    schemas["State"]["enum"] = list(State)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for operation in OPERATIONS:
        found = _operation(operation, schemas[operation.query.__name__]["properties"])
        if secured and operation.needs is not None:
            found["security"] = [{"bearer": []}]
        paths[operation.path][operation.method.lower()] = found
    for query in queries:
        del schemas[query.__name__]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "version": "1",
            "description": "Submit runs, watch them, stop them; run jobs on time; keep services up. Errors are problem "
            "details (RFC 9457) with a stable `code`. Answers have times in RFC 3339 and durations in seconds; "
            "requests take times in RFC 3339 or in seconds since 1970.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def job_schemas() -> dict[str, Any]:
    """Return the components JobBody, NamedJobBody, JobsBody, and those of the parts of a job."""
    fields = JOB_FIELDS.values()
    found: dict[str, Any] = {
        "JobBody": {"description": "A job.", **object_schema(field for field in fields if field.name != "id")},
        "NamedJobBody": {"description": "A job with its id.", **object_schema(fields)},
        **{f"{name}Body": schema for name, schema in definitions(fields).items()},
    }
    text = re.sub(r"#/\$defs/(\w+)", r"#/components/schemas/\1Body", json.dumps(found))
    jobs = {"type": "array", "items": {"$ref": "#/components/schemas/NamedJobBody"}, "minItems": 1}
    described = {"description": "Jobs, each with its `id`.", **jobs, "maxItems": MOST_JOBS}
    listed = {"type": "object", "properties": {"jobs": described}, "required": ["jobs"], "additionalProperties": False}
    return {"JobsBody": listed, **json.loads(text)}


def as_in_json(schema: Any) -> Any:
    """Describe as a text what is a number in Python and a time in JSON. Name the items of an array, whatever they are:
    makers of clients refuse one without."""
    if isinstance(schema, dict):
        found = {name: as_in_json(part) for name, part in schema.items()}
        if found.get("type") == "array":
            found.setdefault("items", {})
        return found | {"type": "string"} if found.get("format") == "date-time" else found
    return [as_in_json(part) for part in schema] if isinstance(schema, list) else schema


def _operation(operation: Operation[Any], query: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.summary,
        "parameters": [*_path(operation), *(_parameter(operation, name, schema) for name, schema in query.items())],
        "responses": _responses(operation),
    }
    if operation.description:
        found["description"] = operation.description
    if operation.http.key is not None:
        found["parameters"].append(_key(operation.http.key))
    if operation.name == "events":
        found["parameters"].append(LAST_EVENT)
    if operation.body is not None:
        name = JOB_BODIES.get(operation.name) or operation.body.__name__
        schema = {"$ref": REFERENCE.format(name=name)}
        content = {"application/json": {"schema": schema}}
        found["requestBody"] = {"required": operation.http.body_required, "content": content}
    return found


def _path(operation: Operation[Any]) -> list[dict[str, Any]]:
    found = []
    for name in operation.parameters:
        one = PATH_PARAMETERS[name]
        schema: dict[str, Any] = {"type": "string", "maxLength": one.longest}
        if one.pattern:
            schema["pattern"] = one.pattern
        found.append({"name": name, "in": "path", "required": True, "schema": schema, "description": one.description})
    return found


def _parameter(operation: Operation[Any], name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter of the query, without the alternative of being null, which a query cannot express."""
    schema = dict(schema)
    kinds = [one for one in schema.pop("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) > 1:
        schema["anyOf"] = kinds
    elif kinds:
        schema = kinds[0] | schema
    if name == "cursor" and (letter := getattr(operation.kind, "cursors", "")):
        schema["pattern"] = f"^{cursor_form(letter)}$"
    if schema.get("default") in (None, []):
        schema.pop("default", None)
    description = schema.pop("description")
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _key(key: Key) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": key.longest, "pattern": "^[!-~]([ -~]*[!-~])?$"}
    return {"name": "Idempotency-Key", "in": "header", "description": key.description, "schema": schema}


def _responses(operation: Operation[Any]) -> dict[str, Any]:
    unknown = [error for name in operation.parameters for error in PATH_PARAMETERS[name].unknown]
    errors = [*ANYWHERE, *(WITH_BODY if operation.body is not None else ()), *operation.raises]
    texts: dict[int, list[str]] = defaultdict(list)
    for error in dict.fromkeys([*unknown, *errors]):
        status = 404 if error is e.UnknownJob and error in unknown else error.status
        texts[status].append(f"`{error.code}`: {error.meaning}")
    responses: dict[str, Any] = {
        str(status): {"description": "\n".join(found), "content": dict(PROBLEM)} for status, found in texts.items()
    }
    media_type = operation.http.media_type.partition(";")[0]
    schema = {"type": "string"} if operation.answer is str else {"type": "object"}
    if hasattr(operation.answer, "__struct_fields__"):
        schema = {"$ref": REFERENCE.format(name=operation.answer.__name__)}
    answer = {media_type: {"schema": schema}}
    success: dict[str, Any] = {"description": "Success.", "content": answer}
    if operation.answer is RunInfo:
        success["headers"] = {"Location": {"schema": {"type": "string"}}}
        success["links"] = {
            one.name: {"operationId": one.name, "parameters": {"run_id": "$response.body#/id"}}
            for one in OPERATIONS
            if "run_id" in one.parameters
        }
    responses[str(operation.http.status)] = success
    if operation.name == "readyz":
        responses["503"] = {"description": "A check failed.", "content": answer | PROBLEM}
    return dict(sorted(responses.items()))
