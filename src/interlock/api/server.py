"""The application, and the server that offers it on the sockets it is given."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get
from litestar.exceptions import (
    ClientException,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.openapi.config import OpenAPIConfig

from interlock.api import events, health, job_routes, problems, runs, service_routes
from interlock.api.auth import Door
from interlock.api.backend import Backend
from interlock.api.openapi import document
from interlock.api.protocol import SWEEP, Limits, connection_of, limited
from interlock.api.settings import GatewaySettings
from interlock.model.error import (
    BadRequest,
    BadValue,
    BodyTooLarge,
    ConnectionLost,
    InterlockError,
    MethodNotAllowed,
    NotFound,
    UnknownField,
)

logger = logging.getLogger("interlock.http")

ALIASES = {"kind": "type", "states": "state", "span": "for"}
"""parameters that are called otherwise in the code"""
KEEP_ALIVE = 60
GOODBYE = 2.0
"""seconds that requests under way have to be answered when the server stops"""


def _problem(request: Request[Any, Any, Any], error: InterlockError) -> Response[Any]:
    found = problems.details(error, of_path="job_id" in request.path_params)
    if found.status >= 500 and found.code == "internal":
        logger.error("%s %r: %s", request.method, request.scope["path"], error)
    headers = {name.decode(): value.decode() for name, value in problems.headers(found.status)}
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = _allowed(request)
    del headers["content-type"]
    return Response(found, status_code=found.status, media_type=problems.MEDIA_TYPE, headers=headers)


def _allowed(request: Request[Any, Any, Any]) -> str:
    """The methods of a path; the router knows them, but separately for each of its handlers."""
    parts = [part for part in request.scope["path"].split("/") if part]
    methods: dict[tuple[str, ...], list[str]] = request.app.state.methods
    for pattern, found in methods.items():
        if len(pattern) == len(parts) and all(known in ("", part) for known, part in zip(pattern, parts, strict=True)):
            return ", ".join(found)
    return "OPTIONS"


def _refused(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """What the framework refuses, in our words."""
    return _problem(request, _translated(request, error))


def _translated(request: Request[Any, Any, Any], error: HTTPException) -> InterlockError:
    if isinstance(error, ValidationException):
        for one in error.extra if isinstance(error.extra, list) else ():
            field = str(one.get("key", "")) if isinstance(one, dict) else ""
            field = ALIASES.get(field, field.partition(".")[0])
            given = request.query_params.get(field, request.path_params.get(field))
            return problems.not_valid(field, given, str(one.get("message", "")))
    if isinstance(error, NotFoundException):
        return NotFound(f"path: {request.scope['path'][:120]!r} does not exist; see /openapi.json")
    if isinstance(error, MethodNotAllowedException):
        return MethodNotAllowed(f"method: {request.method} is not one for {request.scope['path'][:120]!r}")
    if error.status_code == 413:
        return BodyTooLarge(request.app.state.max_body)
    if connection_of(request.scope).lost:
        return ConnectionLost("the request")
    if isinstance(error, ClientException):
        return BadRequest(f"request: {error.detail}")
    return InterlockError(f"internal error: {error.detail}")


def _broken(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    logger.exception("%s %r", request.method, request.scope["path"], exc_info=error)
    return _problem(request, InterlockError("internal error; the server's log says more"))


def _before(request: Request[Any, Any, Any]) -> Response[None] | None:
    """Answer or refuse what is the same for every path."""
    if request.method == "OPTIONS":
        return Response(None, status_code=204, headers={"allow": _allowed(request)})
    if request.scope["query_string"]:
        _check_query(request, request.app.state.parameters.get(request.route_handler.operation_id, {}))
    return None


def _check_query(request: Request[Any, Any, Any], known: dict[str, str]) -> None:
    """A filter that is mistyped, or of which only a part is used, must not be taken for no filter, or half of it."""
    for name in request.query_params:
        kind = known.get(name)
        if kind is None:
            close = get_close_matches(name, known, 1)
            raise UnknownField(name, close[0] if close else None)
        values = request.query_params.getall(name)
        if kind != "array" and len(values) > 1:
            raise BadValue(name, len(values), "a number of times that it may be given, which is once")
        if kind not in ("array", "string") and values[0].lower() == "null":
            # The framework would take it for nothing given.
            raise BadValue(name, values[0], f"valid: expected {kind}")


def application(backend: Backend, settings: GatewaySettings) -> Any:
    app, _ = routes(settings)
    app.state.backend = backend
    return Door(app, settings.grants, settings.hosts, settings.origins)


def routes(settings: GatewaySettings) -> tuple[Litestar, dict[str, Any]]:
    """All of them, and the description that they serve."""
    described: bytes = b""

    @get("/openapi.json", operation_id="openapi", summary="This description", tags=["health"])
    async def openapi() -> Response[bytes]:
        return Response(described, media_type="application/json")

    handlers = [
        *runs.HANDLERS,
        *job_routes.HANDLERS,
        *service_routes.HANDLERS,
        *events.HANDLERS,
        *health.HANDLERS,
        openapi,
    ]
    app = Litestar(
        handlers,
        exception_handlers={
            InterlockError: _problem,
            HTTPException: _refused,
            Exception: _broken,
        },
        before_request=_before,
        openapi_config=OpenAPIConfig(title="Interlock", version="1", use_handler_docstrings=True, render_plugins=[]),
        request_max_body_size=settings.max_body,
        logging_config=None,
    )
    app.state.max_body = settings.max_body
    description = document(app, bool(settings.grants))
    app.state.parameters = {
        operation["operationId"]: {
            one["name"]: one["schema"]["type"] for one in operation.get("parameters", ()) if one["in"] == "query"
        }
        for path in description["paths"].values()
        for operation in path.values()
    }
    app.state.methods = _methods(description)
    described = msgspec.json.encode(description)
    return app, description


def _methods(description: dict[str, Any]) -> dict[tuple[str, ...], list[str]]:
    """Paths in parts, an empty one for whatever may stand there, and their methods; plain paths first."""
    found = {
        tuple("" if part.startswith("{") else part for part in path.split("/") if part): sorted(
            {"OPTIONS", *(method.upper() for method in operations)}
        )
        for path, operations in description["paths"].items()
    }
    return dict(sorted(found.items(), key=lambda one: "" in one[0]))


class HttpServer:
    """Serves an application on listening sockets, TCP and Unix alike."""

    def __init__(self, app: Any, settings: GatewaySettings) -> None:
        limits = Limits(connections=settings.max_connections, request=settings.request_timeout)
        self._config = uvicorn.Config(
            app,
            http=limited(limits, looks_for_owner=not settings.grants),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._config.load()
        self._state = uvicorn.server.ServerState()
        self._servers: list[asyncio.AbstractServer] = []
        self._sweeping: asyncio.Task[None] | None = None

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.Protocol:
            protocol: Any = self._config.http_protocol_class
            made: asyncio.Protocol = protocol(config=self._config, server_state=self._state, app_state={}, _loop=loop)
            return made

        for sock in sockets:
            listen = loop.create_unix_server if sock.family == socket.AF_UNIX else loop.create_server
            self._servers.append(await listen(connection, sock=sock, backlog=4096))
        self._sweeping = loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP)
            for connection in list(self._state.connections):
                connection.sweep(loop.time())  # type: ignore[union-attr]

    async def stop(self) -> None:
        """Take no more, let what is under way be answered, hang up."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=GOODBYE)
        for connection in list(self._state.connections):
            connection.transport.abort()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=GOODBYE)
        await asyncio.sleep(0)
