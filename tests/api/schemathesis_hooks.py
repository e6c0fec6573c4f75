"""How the generated requests are adjusted: the description cannot know which jobs there are and what they take, nor
that of two fields only one may be given. Every mistake that it does know of is left in."""

import re
from typing import Any

import schemathesis

from interlock.api.bodies import DurationText
from interlock.api.openapi import WAIT

JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
WORKER = "w1"
DURATION = re.compile(DurationText.__metadata__[0].pattern)  # type: ignore[attr-defined]


@schemathesis.hook
def before_call(context: Any, case: Any, **options: Any) -> None:
    if isinstance(wait := (case.query or {}).get("wait"), str) and re.fullmatch(WAIT, wait):
        case.query["wait"] = "1ms"
    if (case.path_parameters or {}).get("name") == WORKER:
        # Found in the tree; once it is stopped there is nobody left to do the work of other tests.
        case.path_parameters["name"] = "nobody"
    if case.operation.definition.raw.get("operationId") in ("submit", "submit_many") and isinstance(case.body, dict):
        runs = case.body.get("runs")
        for body in runs if isinstance(runs, list) else [case.body]:
            if isinstance(body, dict):
                _adjust(body, "Idempotency-Key" in (case.headers or {}))


def _adjust(body: dict[str, Any], has_key: bool) -> None:
    if isinstance(body.get("job"), str) and JOB.fullmatch(body["job"]):
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
    return type(value) in (int, float) and 0 <= value < 1e11  # type: ignore[operator]
