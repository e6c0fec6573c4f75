"""The ASGI application: finds the operation of a request, lets the caller in, and sends the answer or the problem."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from msgspec.structs import asdict

from interlock.api import pages, problems
from interlock.api.auth import Door, FindCaller, Scope
from interlock.api.call import BodyReader, Handlers, HttpCall, HttpHandler, QueryReader, Receive, Reply, Send
from interlock.api.compression import ENCODED, LEAST, VARIES, accepts_gzip, zipped
from interlock.api.dashboard import built, is_page
from interlock.api.events import EventAnswer
from interlock.api.openapi import document
from interlock.api.settings import GatewaySettings
from interlock.api.sign_in import SECRET
from interlock.error import BadValue, Forbidden, InterlockError, MethodNotAllowed, NotFound, Unauthorized
from interlock.fields.json_form import encode
from interlock.interface.operation import PATH_PARAMETERS, Operation, operation_of
from interlock.interface.server_operations import ReadDescription
from interlock.interface.sign_in_operations import SignIn
from interlock.model.access import Caller
from interlock.model.session import check_key

logger = logging.getLogger("interlock.http")
SIGN_IN = operation_of(SignIn)
NO_GUESSING = (b"x-content-type-options", b"nosniff")
LARGE = 256 * 1024  # bytes of an answer that is compressed beside the loop
OnRefused = Callable[[InterlockError, Caller | None, Scope], None]


class Route(NamedTuple):
    operation: Operation[Any]
    handler: HttpHandler
    query: QueryReader
    body: BodyReader | None
    content_type: tuple[bytes, bytes]

    def call(
        self, scope: Scope, caller: Caller, headers: Mapping[bytes, bytes], given: Any, body: Any
    ) -> HttpCall[Any]:
        """Return the call of a handler: the parameters of path and query, and the body, as a request."""
        operation = self.operation
        if operation.in_body:
            given |= asdict(body)
        elif "body" in operation.kind.__struct_fields__:
            given["body"] = body
        return HttpCall(operation, scope, caller, headers, operation.request(**given), body)


class RouteNode:
    """A part of a path, and what may follow it."""

    def __init__(self) -> None:
        self.below: dict[str | None, RouteNode] = {}  # None for a parameter
        self.routes: dict[str, Route] = {}  # by method

    @property
    def allow(self) -> bytes:
        return ", ".join(sorted({"OPTIONS", *self.routes})).encode()


class Application:
    def __init__(
        self, handlers: Handlers, session: FindCaller, settings: GatewaySettings, on_refused: OnRefused
    ) -> None:
        """`on_refused` gets every request whose token is unknown or may not do it."""
        self._has_tokens, self._on_refused = bool(settings.grants), on_refused
        self._door = Door(settings.grants, settings.hosts, settings.origins, session)
        self._top = RouteNode()
        self._dashboard = built()
        described = encode(document(bool(settings.grants)))

        async def openapi(call: HttpCall[Any]) -> bytes:
            return described

        for operation, handler in [
            *handlers.items(),
            *pages.HANDLERS.items(),
            (operation_of(ReadDescription), openapi),
        ]:
            self._add(operation, handler, settings.max_body)

    def _add(self, operation: Operation[Any], handler: HttpHandler, max_body: int) -> None:
        node = self._top
        for part in operation.path.split("/")[1:]:
            node = node.below.setdefault(None if part.startswith("{") else part, RouteNode())
        body = None if operation.body is None else BodyReader(operation, max_body)
        content_type = (b"content-type", operation.http.media_type.encode())
        route = Route(operation, handler, QueryReader(operation.query), body, content_type)
        node.routes[operation.method] = route
        if operation.method == "GET" and operation.needs is None:
            # Probes ask with HEAD; the server leaves the body out.
            node.routes["HEAD"] = route

    def _find(self, path: str, raw: bytes) -> tuple[RouteNode, list[str]]:
        """Return the node of a path, and the values of its parameters, which may have a slash written as `%2F`."""
        node, values = self._top, []
        try:
            parts = path.split("/") if b"%" not in raw else [unquote(one, errors="strict") for one in _split(raw)]
        except UnicodeDecodeError:
            raise NotFound(f"path: {path[:120]!r} is not text in UTF-8") from None
        for part in parts[1:]:
            below = node.below.get(part)
            if below is None:
                below = node.below.get(None) if part else None
                values.append(part)
            if below is None:
                break
            node = below
        else:
            if node.routes:
                return node, values
        raise NotFound(f"path: {path[:120]!r} does not exist; see /openapi.json")

    def _note_refusal(
        self, error: InterlockError, caller: Caller | None, scope: Scope, headers: Mapping[bytes, bytes]
    ) -> None:
        # Where tokens are needed, a request without any is not the use of one.
        shows_token = not self._has_tokens or any(name in headers for name in (b"authorization", SECRET))
        shows_token = shows_token or scope["path"] == SIGN_IN.path
        if isinstance(error, Forbidden) or (isinstance(error, Unauthorized) and shows_token):
            self._on_refused(error, caller, scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        node = route = caller = None
        headers = dict(scope["headers"])
        try:
            caller = await self._door.admit(scope, headers)
            if is_page(scope["path"]):
                await _send(send, *self._dashboard.answer(scope["method"], scope["raw_path"], headers))
                return
            node, values = self._find(scope["path"], scope["raw_path"])
            route = node.routes.get(scope["method"])
            if route is None:
                if scope["method"] != "OPTIONS":
                    raise MethodNotAllowed(f"method: {scope['method']} is not one for {scope['path'][:120]!r}")
                await _send(send, 204, [(b"allow", node.allow)])
                return
            answer = await _ask(route, values, scope, caller, headers, receive)
        except InterlockError as error:
            problem = error
            self._note_refusal(error, caller, scope, headers)
        except Exception:
            logger.exception("%s %r", scope["method"], scope["path"])
            problem = InterlockError("internal error; the server's log says more")
        else:
            await _reply(scope, send, route, answer)
            return
        found = problems.details(problem, of_path=route is not None and "job_id" in route.operation.parameters)
        if found.code == InterlockError.code:
            logger.error("%s %r: %s", scope["method"], scope["path"], problem)
        allow = [(b"allow", node.allow)] if node is not None and isinstance(problem, MethodNotAllowed) else []
        await _send(send, found.status, [*problems.headers(problem), *allow], encode(found))


async def _ask(
    route: Route, values: list[str], scope: Scope, caller: Caller, headers: Mapping[bytes, bytes], receive: Receive
) -> Any:
    operation = route.operation
    given = {name: _checked(name, value) for name, value in zip(operation.parameters, values, strict=True)}
    given |= asdict(route.query.read(scope["query_string"]))
    if operation.needs is not None:
        caller.need(operation.needs)
    if operation.http.every_tenant:
        caller.need_every_tenant(operation.http.every_tenant)
    body = None if route.body is None else await route.body.read(headers, receive)
    return await route.handler(route.call(scope, caller, headers, given, body))


def _split(raw: bytes) -> list[str]:
    return raw.decode("ascii").split("/")


def _checked(name: str, value: str) -> str:
    if name == "session":
        return check_key(name, value)
    longest = PATH_PARAMETERS[name].longest
    if len(value) > longest:
        raise BadValue(name, value, f"a text of at most {longest} characters")
    return value


async def _reply(scope: Scope, send: Send, route: Route, answer: Any) -> None:
    if isinstance(answer, EventAnswer):
        await answer.send_to(scope, send)
        return
    reply = answer if isinstance(answer, Reply) else Reply(answer)
    data = reply.answer if isinstance(reply.answer, bytes) else encode(reply.answer)
    headers = [route.content_type, *reply.headers]
    if len(data) > LEAST and route.content_type[1] == b"application/json":
        headers.append(VARIES)
        if accepts_gzip(dict(scope["headers"])):
            headers.append(ENCODED)
            # A large one in a thread, so that nobody waits behind it.
            data = await asyncio.to_thread(zipped, data) if len(data) > LARGE else zipped(data)
    await _send(send, reply.status or route.operation.http.status, headers, data)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    length = [] if status in (204, 304) else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, NO_GUESSING, *length]})
    await send({"type": "http.response.body", "body": body})
