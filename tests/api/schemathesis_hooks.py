"""How the generated requests are adjusted: the description cannot know which jobs there are and what they take, nor
that of two fields only one may be given. Every mistake that it does know of is left in."""

import re
from datetime import datetime
from typing import Any

import jsonschema_rs
import msgspec
import schemathesis

from interlock.api.openapi import job_schemas
from interlock.core.state import DEFAULT_LANES
from interlock.fields.field_types import Span
from interlock.interface.operations import OPERATIONS
from interlock.interface.run_operations import WAIT
from interlock.model.bulk import RunAction
from interlock.wire.new_run import DurationText
from tests.helpers import jobs

JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
WORKER = "w1"
SCHEDULES = {"cron": 256, "tz": 64, "every": 64, "wait": 64, "at": 64}
"""what says when, and how long it may be"""
TIMES = ("at", "occurrence", "since", "until", "after", "from", "to", "stamp")
LETTERS = ("drop_letters", "replay_many")
BULK = (*(f"{action}_many" for action in RunAction), *LETTERS)
BODIES = {operation.name: operation.body for operation in OPERATIONS}
JOBS = {"put_job": "JobBody", "put_jobs": "JobsBody"}
ONLY_WORKFLOWS = {"retry": ("from",), "cancel": ("compensate",), "send_workflow_event": ("or_start", "payload")}
"""operation → fields that only a workflow takes: no job of these tests is one"""
DURATION = re.compile(DurationText.__metadata__[0].pattern)  # type: ignore[attr-defined]

SPAN = re.compile(Span().schema()["anyOf"][0]["pattern"])


@schemathesis.hook
def before_call(context: Any, case: Any, **options: Any) -> None:
    if isinstance(wait := (case.query or {}).get("wait"), str) and re.fullmatch(WAIT, wait):
        case.query["wait"] = "1ms"
    _adjust_path(case.path_parameters or {})
    operation = case.operation.definition.raw.get("operationId")
    for values in (case.query, case.body):
        _keep_in_range(values)
    _adjust_jobs(case, operation)
    if operation in ("create_lane", "set_lane") and isinstance(case.body, dict):
        _have_whole_numbers(case.body, "limit", "burst")
    if isinstance(case.body, dict):
        for field in ONLY_WORKFLOWS.get(operation, ()):
            case.body.pop(field, None)
    if operation in BULK:
        case.body = _harmless(operation, case.body)
    if operation in ("submit", "submit_many") and isinstance(case.body, dict):
        runs = case.body.get("runs")
        for body in runs if isinstance(runs, list) else [case.body]:
            if isinstance(body, dict):
                _adjust(body, "Idempotency-Key" in (case.headers or {}))


def _adjust_path(path: dict[str, Any]) -> None:
    if path.get("name") == WORKER:
        # Found in the tree; once it is stopped there is nobody left to do the work of other tests.
        path["name"] = "nobody"
    if str(path.get("worker_id")).startswith(f"{WORKER}-"):
        # Found in the list of workers; the same.
        path["worker_id"] = "nobody"
    if path.get("lane") in DEFAULT_LANES:
        # Found in the list of lanes; runs of other tests need them.
        path["lane"] = "nobody"
    if isinstance(session := path.get("session"), dict) or _is_too_long(session):
        # A whole session comes from the answer to an act on it.
        path["session"] = "s"


def _is_too_long(session: object) -> bool:
    """Whether it has too many bytes, though not too many characters, which a description counts."""
    return isinstance(session, str) and len(session) <= 512 < len(session.encode(errors="replace"))


def _adjust_jobs(case: Any, operation: str) -> None:
    if operation in ("put_job", "put_jobs"):
        case.body = _harmless(operation, case.body)
    if operation == "schedule_times":
        _have_one_kind(case.query)
    if operation == "trigger":
        if case.path_parameters.get("job_id") in jobs.app.definitions:
            # Found in the list of jobs, in which there are some that do harm.
            case.path_parameters["job_id"] = "echo"
        if isinstance(case.body, dict):
            _adjust(case.body, "Idempotency-Key" in (case.headers or {}), case.path_parameters.get("job_id"))
    if operation == "backfill" and isinstance(case.body, dict):
        _have_a_past_range(case.body)


def _adjust(body: dict[str, Any], has_key: bool, job: str | None = None) -> None:
    named = isinstance(body.get("job"), str) and JOB.fullmatch(body["job"])
    if named or job is not None:
        if named:
            body["job"] = "echo"
        if isinstance(body.get("payload"), dict):
            body["payload"] = {"value": _fitting(body["payload"])}
    times = [name for name in ("at", "delay", "occurrence") if body.get(name) is not None]
    if times and all(_is_time(name, body[name]) for name in times):
        for name in times[1:]:
            del body[name]
        if _is_time("deadline", body.get("deadline")):
            del body["deadline"]
    if has_key and isinstance(body.get("idempotency_key"), str) and 1 <= len(body["idempotency_key"]) <= 256:
        del body["idempotency_key"]
    if body.get("unique") is not None and not has_key and body.get("idempotency_key") is None:
        del body["unique"]
    _adjust_session(body)


def _adjust_session(body: dict[str, Any]) -> None:
    session = body.get("session")
    alone = session is None and (body.get("session_options") is not None or body.get("stamp") is not None)
    if _is_too_long(session) or alone:
        body["session"] = "s"
    options = body.get("session_options")
    if not isinstance(options, dict):
        return
    if SPAN.fullmatch(str(options.get("debounce"))):
        options["debounce"] = "1s"  # a description cannot say how long a duration may be
    for name, value in options.items():
        if name in ("max_concurrent", "cap", "burst") and isinstance(value, float) and value.is_integer():
            options[name] = int(value)  # a whole number to a description


def _fitting(value: Any) -> Any:
    """With whole numbers that every reader of JSON can read."""
    if isinstance(value, dict):
        return {key: _fitting(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fitting(item) for item in value]
    return max(-(2**63), min(value, 2**63)) if type(value) is int else value


def _is_time(name: str, value: object) -> bool:
    if name in ("delay", "deadline"):
        if isinstance(value, str):
            return DURATION.fullmatch(value) is not None
        return type(value) in (int, float) and 0 <= value <= 1e10  # type: ignore[operator]
    if isinstance(value, str):
        return _is_moment(value)
    return type(value) in (int, float) and 0 <= value < 1e11  # type: ignore[operator]


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        # A second that is inserted is a time to the description.
        return re.fullmatch(r"....-..-..[Tt]..:..:60.*", text) is not None


def _keep_in_range(values: Any) -> None:
    """A description cannot say that times begin in 1970, nor which of two is the earlier one."""
    runs = values.get("runs") if isinstance(values, dict) else None
    for one in runs if isinstance(runs, list) else [values]:
        for name in TIMES if isinstance(one, dict) else ():
            if isinstance(one.get(name), str) and _is_moment(one[name]):
                one[name] = "2030-01-31T02:00:00Z"


def _harmless(operation: str, body: Any) -> Any:
    """A job, or a filter, that is as described, but does nothing. The other way round, what is read though it is not
    described, such as a number for a text, is made something that cannot be read."""
    if not isinstance(body, dict):
        return body
    if not _fits(operation, body):
        return body | {"nonsense": 1}
    if operation in BULK:
        return {"tenant": "of-nobody"} if operation in LETTERS else {"session": "of nobody"}
    harmless = {"run": {"process": ["true"]}}
    return harmless if operation == "put_job" else {"jobs": [harmless | {"id": "harmless"}]}


def _fits(operation: str, body: dict[str, Any]) -> bool:
    if operation in JOBS:
        schema = {"$ref": f"#/components/schemas/{JOBS[operation]}", "components": {"schemas": job_schemas()}}
        return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(body))
    try:
        msgspec.convert(body, BODIES[operation])
    except msgspec.ValidationError:
        return False
    return True


def _have_one_kind(query: dict[str, Any] | None) -> None:
    """Of the kinds of schedules exactly one, and one that is well."""
    if query is None:
        return
    for name, longest in SCHEDULES.items():
        if isinstance(query.get(name), str) and len(query[name]) <= longest:
            del query[name]
    if not SCHEDULES.keys() & query.keys():
        query["every"] = "10m"


def _have_whole_numbers(body: dict[str, Any], *names: str) -> None:
    """Turn 5.0 into 5, which is the same to a description."""
    for name in names:
        if isinstance(body.get(name), float) and body[name].is_integer():
            body[name] = int(body[name])


def _have_a_past_range(body: dict[str, Any]) -> None:
    _have_whole_numbers(body, "max_parallel")
    if isinstance(body.get("payload"), dict):
        body["payload"] = _fitting(body["payload"])
    if all(_is_time("at", body.get(name)) for name in ("from", "to")):
        body |= {"from": 1.0, "to": "1970-01-01T00:00:02Z"}
