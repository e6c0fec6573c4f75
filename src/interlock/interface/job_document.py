"""The definition of a job as a program writes it, with its schedule and its function, as a document for the server."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

import msgspec

from interlock.error import BadUse, BadValue
from interlock.fields import payload as payloads
from interlock.fields.duration import Duration
from interlock.fields.value import plain
from interlock.model.guard import Actions, Constraints
from interlock.model.job import JOB_ID, KeyLimitFields, Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionFields
from interlock.model.work import FUNCTION, Limits

RUNS = (
    "a job of the app or its id, a function that workers can import, its name as module:name, or a mapping such as "
    "{'process': ['true']}"
)


class JobFields(TypedDict, total=False):
    """The fields of a document `kind: Job`, with values of Python."""

    schedule: Schedule | Mapping[str, Any]
    run: Callable[..., Any] | str | Mapping[str, Any]
    payload: Mapping[str, Any]
    lane: str
    priority: Literal["critical", "interactive", "batch"]
    rate: str | float
    burst: int
    limit: KeyLimitFields
    sessions: SessionFields
    retry: Retry | Mapping[str, Any]
    deadline: Duration
    max_runtime: Duration
    max_runtime_per_attempt: bool
    start_timeout: Duration
    max_crashes: int
    grace: Duration
    constraints: Constraints | Mapping[str, Any]
    on_constraint_violation: Actions | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    on_failure: Actions | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    on_success: Actions | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    on_late: Actions | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    topic: str
    capabilities: Sequence[str]
    risk_tags: Sequence[str]
    requires: Sequence[str]
    labels: Mapping[str, str]
    sensitivity: Literal["public", "internal", "confidential", "secret"]
    env: Mapping[str, str | None]
    cwd: str
    stdin: bool
    limits: Limits | Mapping[str, Any]


def document_of(definition: Mapping[str, Any] | None, fields: JobFields, where: str = "definition") -> bytes:
    """Return a definition as JSON."""
    if definition is not None and not isinstance(definition, Mapping):
        raise BadValue(where, type(definition).__name__, "a mapping of the fields of a job")
    given = {**(definition or {}), **fields}
    if twice := (definition or {}).keys() & fields.keys():
        raise BadUse(min(twice), "given twice; allowed once")
    return payloads.encode({name: _value(name, value, where) for name, value in given.items()}, where)


def _value(name: str, value: Any, where: str) -> Any:
    if name == "run" and not isinstance(value, Mapping):
        return _work(value) if callable(value) or isinstance(value, str) else value
    if name == "payload":
        return plain(value, f"{where}.payload")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {field: _value("", item, where) for field, item in value.items()}
    if isinstance(value, list | tuple) and name != "run":
        return [_value("", item, where) for item in value]
    if isinstance(value, msgspec.Struct):
        return {field: item for field, item in msgspec.to_builtins(value).items() if item is not None}
    return value


def _work(run: Callable[..., Any] | str) -> dict[str, str]:
    """Return what a job runs: the function of a job of the app by its id, or a function by its name."""
    if isinstance(run, str):
        for kind, form in (("function", FUNCTION), ("job", JOB_ID)):
            if form.fullmatch(run) is not None:
                return {kind: run}
        raise BadValue("run", run, RUNS)
    job_id = getattr(run, "id", None)
    return {"job": job_id} if isinstance(job_id, str) else {"function": function_name(run)}


def function_name(function: Callable[..., Any]) -> str:
    """Return the name by which a worker imports a function: `module:name`."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    if module == "__main__":  # a worker imports it by another name, or from its file
        main = sys.modules[module]
        file = getattr(main, "__file__", None)
        specification = getattr(main, "__spec__", None)
        module = specification.name if specification is not None else file and os.path.abspath(file)
    if not module or "<" in name:
        raise BadValue("run", function, RUNS)
    return f"{module}:{name}"
