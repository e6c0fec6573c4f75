"""Routes for runs: submit, look, wait, cancel."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.params import PathParameter, QueryParameter

from interlock.api import problems
from interlock.api.auth import asked_by
from interlock.api.backend import Backend
from interlock.api.protocol import connection_of
from interlock.model import request as r
from interlock.model.access import Caller, Permission
from interlock.model.bodies import (
    ActedOn,
    ActionBody,
    BatchBody,
    BulkBody,
    NewRunBody,
    Submitted,
    SubmittedBatch,
)
from interlock.model.duration import seconds
from interlock.model.error import BadDuration, BadValue, ConnectionLost, Unauthorized, UnsupportedMediaType
from interlock.model.request import LONGEST_KEY
from interlock.model.run_action import RunAction
from interlock.model.run_view import BulkInfo, History, LogPage, RunDetail, RunPage
from interlock.model.state import State
from interlock.ports.store import RunFilter

LONGEST_WAIT = 300.0
LONGEST_BATCH_KEY = LONGEST_KEY - len("/999")

Asked = Request[Any, Any, Any]
T = TypeVar("T")

_new_run = msgspec.json.Decoder(NewRunBody)
_batch = msgspec.json.Decoder(BatchBody)
_action = msgspec.json.Decoder(ActionBody)
_bulk = msgspec.json.Decoder(BulkBody)

_WAIT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?(ms|s|m|h|d)")
_KEY = re.compile(r"[ -~]+")

Wait = Annotated[
    str | None, QueryParameter(description="How long to wait for the end, as in `30s`; 5 minutes at the most.")
]
RunId = Annotated[str, PathParameter(description="The id of the run.", max_length=256)]
Text = Annotated[str | None, QueryParameter(max_length=256)]
Moment = Annotated[float | None, QueryParameter(ge=0, lt=1e11)]
Limit = Annotated[int, QueryParameter(ge=1, le=1000)]
Cursor = Annotated[str | None, QueryParameter(description="The `next` of the page before; leave it out for the first.")]


def backend_of(request: Asked) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def caller_of(request: Asked, permission: Permission) -> Caller:
    caller = asked_by(request.scope)
    if caller is None:
        raise Unauthorized
    caller.need(permission)
    return caller


async def read_body(request: Asked, decoder: msgspec.json.Decoder[Any], kind: type) -> Any:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType(f"content-type: {content_type[:80]!r} is not application/json")
    body = await request.body()
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = problems.unreadable(body, error, kind)
    # Out here, without what it came from: a chain of errors would keep the body in memory until it is collected.
    raise problem


def seconds_of(wait: str | None) -> float:
    if wait is None:
        return 0.0
    if not _WAIT.fullmatch(wait):
        raise BadDuration("wait", wait)
    limit = seconds(wait, "wait")
    if limit > LONGEST_WAIT:
        raise BadValue("wait", wait, "300s at the most")
    return limit


def key_of(request: Asked, longest: int = LONGEST_KEY) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (len(key) <= longest and _KEY.fullmatch(key)):
        raise BadValue("Idempotency-Key", key, f"a text of 1 to {longest} printable ASCII characters")
    return key


async def while_wanted(request: Asked, answering: Coroutine[Any, Any, T]) -> T:
    """The answer, worked on only for as long as somebody waits for it."""
    task = asyncio.get_running_loop().create_task(answering)
    connection_of(request.scope).when_lost(task.cancel)
    await asyncio.wait([task])
    if task.cancelled():
        raise ConnectionLost("the question")
    return task.result()


async def look(request: Asked, run_id: str, caller: Caller, wait: float) -> RunDetail:
    looking = backend_of(request).run(run_id, caller, wait)
    return await (while_wanted(request, looking) if wait else looking)


@post("/api/v1/runs", status_code=201, summary="Submit a run", operation_id="submit", tags=["runs"])
async def submit(request: Asked, wait: Wait = None) -> Response[Submitted | RunDetail]:
    """Create a run. The answer comes once it is durable; with `wait`, once it has ended, if that is in time."""
    caller = caller_of(request, Permission.SUBMIT)
    limit = seconds_of(wait)
    body = await read_body(request, _new_run, NewRunBody)
    (run_id,) = await backend_of(request).submit([body], [key_of(request)], caller)
    headers = {"location": f"/api/v1/runs/{run_id}"}
    if wait is None:
        return Response(Submitted(id=run_id), status_code=201, headers=headers)
    found = await look(request, run_id, caller, limit)
    return Response(found, status_code=200, headers=headers)


@post("/api/v1/runs/batch", status_code=201, summary="Submit many runs", operation_id="submit_many", tags=["runs"])
async def submit_many(request: Asked) -> SubmittedBatch:
    """Create up to 1,000 runs, all or none. With an `Idempotency-Key` K, run number i (from 0) gets the key `K/i`."""
    caller = caller_of(request, Permission.SUBMIT)
    body = await read_body(request, _batch, BatchBody)
    key = key_of(request, LONGEST_BATCH_KEY)
    keys = [
        None if key is None or run.idempotency_key is not None else f"{key}/{place}"
        for place, run in enumerate(body.runs)
    ]
    return SubmittedBatch(ids=await backend_of(request).submit(body.runs, keys, caller))


@get("/api/v1/runs", summary="List runs", operation_id="runs", tags=["runs"])
async def runs(
    request: Asked,
    states: Annotated[list[State] | None, QueryParameter(name="state")] = None,
    job: Text = None,
    tenant: Text = None,
    session: Text = None,
    lane: Text = None,
    since: Moment = None,
    until: Moment = None,
    live: Annotated[bool | None, QueryParameter()] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> RunPage:
    """Runs, the newest first. A page may be short though more follow: go on while `next` is not null."""
    caller = caller_of(request, Permission.READ)
    wanted = RunFilter(
        states=frozenset(states or ()),
        job_id=job,
        tenant=tenant,
        session=session,
        lane=lane,
        since=since,
        until=until,
        live=live,
    )
    connection = connection_of(request.scope)
    return await backend_of(request).runs(wanted, cursor, limit, caller, lambda: connection.lost)


@get("/api/v1/runs/{run_id:str}", summary="A run", operation_id="run", tags=["runs"])
async def run(request: Asked, run_id: RunId, wait: Wait = None) -> RunDetail:
    """A run as it stands; with `wait`, once it has ended, if that is in time."""
    caller = caller_of(request, Permission.READ)
    return await look(request, run_id, caller, seconds_of(wait))


def _act(action: RunAction) -> Any:
    async def act(request: Asked, run_id: RunId) -> ActedOn:
        caller = caller_of(request, r.ActOnRun.permission)
        # Without a body there is no reason given, and no type of it either.
        body = await read_body(request, _action, ActionBody) if await request.body() else ActionBody()
        message = r.ActOnRun(0, action, run_id, body.reason, caller.name)
        return ActedOn(id=run_id, state=(await backend_of(request).change(message, caller)).state)

    act.__doc__ = f"{action.meaning} May be repeated."
    path = f"/api/v1/runs/{{run_id:str}}/{action}"
    return post(path, status_code=200, summary=f"{action.capitalize()} a run", operation_id=action, tags=["runs"])(act)


def _act_on_many(action: RunAction) -> Any:
    async def act(request: Asked) -> Response[BulkInfo]:
        caller = caller_of(request, r.StartBulk.permission)
        body = await read_body(request, _bulk, BulkBody)
        found = await backend_of(request).act_on_many(action, body, key_of(request), caller)
        return Response(found, status_code=202, headers={"location": f"/api/v1/bulk/{found.id}"})

    act.__doc__ = f"""{action.capitalize()} the runs that have not ended and fit every field that is given. The answer
    comes once the request is durable; the scheduler then carries it out, a part at a time, and finishes it after a
    restart. Runs that are created later are not touched. `state` is compared when a run's turn comes."""
    name, summary = f"{action}_many", f"{action.capitalize()} many runs"
    return post(f"/api/v1/runs/{action}", status_code=202, summary=summary, operation_id=name, tags=["runs"])(act)


@get("/api/v1/bulk/{bulk_id:str}", summary="Progress of a bulk request", operation_id="bulk", tags=["runs"])
async def bulk(
    request: Asked, bulk_id: Annotated[str, PathParameter(description="The id of the request.", max_length=256)]
) -> BulkInfo:
    """The filter and the progress of a bulk request. The newest 1,000 are kept."""
    return await backend_of(request).bulk(bulk_id, caller_of(request, Permission.READ))


@get("/api/v1/runs/{run_id:str}/history", summary="History of a run", operation_id="history", tags=["runs"])
async def history(request: Asked, run_id: RunId) -> History:
    """Every transition, in order."""
    return await backend_of(request).history(run_id, caller_of(request, Permission.READ))


@get("/api/v1/runs/{run_id:str}/logs", summary="Log of a run", operation_id="logs", tags=["runs"])
async def logs(
    request: Asked, run_id: RunId, limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000, cursor: Cursor = None
) -> LogPage:
    """What the run's attempts logged, the oldest first."""
    return await backend_of(request).logs(run_id, cursor, limit, caller_of(request, Permission.READ))


HANDLERS = [
    submit, submit_many, runs, run, bulk, history, logs,
    *(make(action) for action in RunAction for make in (_act, _act_on_many)),
]  # fmt: skip
