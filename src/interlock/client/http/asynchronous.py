"""Carrying out operations on an event loop, with aiohttp, which is imported on first use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.client.http.exchange import (
    Failure,
    Iteration,
    Open,
    Operation,
    Pause,
    Policy,
    Read,
    Request,
    Response,
    Tell,
    closed,
)
from interlock.model.error import InterlockError

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")


class _Attempt:
    """What is known of one request besides its answer."""

    reused = False


class AsyncTransport:
    """Belongs to the loop it is first used on. A request that is made alone is not counted in the pool."""

    def __init__(self, policy: Policy, token: str | None) -> None:
        address = self._address = policy.address
        host = f"[{address.host}]" if ":" in address.host else address.host
        where = "localhost" if address.path is not None else f"{host}:{address.port}"
        self._base = f"{'https' if address.secure else 'http'}://{where}{address.prefix}"
        self._timeout = policy.timeout
        self._headers = {"User-Agent": "interlock", "Accept-Encoding": "identity"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._places = asyncio.Semaphore(policy.connections)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def close(self) -> None:
        """End everything; what waits in another task is woken and told."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform(self, operation: Operation[T]) -> T:
        answer: Response | Failure | None = None
        try:
            while True:
                step = operation.send(answer)
                answer = None
                if isinstance(step, Request):
                    answer = await self._ask(step)
                else:
                    await self._pause(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # what the generator returns is a T

    async def iterate(self, iteration: Iteration) -> AsyncIterator[Any]:
        """What the operation tells, until it ends or the caller leaves."""
        answer: Any = None
        stream: aiohttp.ClientResponse | None = None
        async with AsyncExitStack() as open_streams:
            while True:
                try:
                    step = iteration.send(answer)
                except StopIteration:
                    return
                answer = None
                match step:
                    case Tell(value):
                        yield value
                    case Request():
                        answer = await self._ask(step)
                    case Open(request):
                        await open_streams.aclose()
                        stream, answer = await self._open(request)
                        if stream is not None:
                            open_streams.callback(stream.close)
                    case Read() if stream is not None:
                        answer = await self._read(stream)
                    case _:
                        await self._pause(step)

    async def _pause(self, step: object) -> None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        if self._closed:
            raise closed()

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: Request) -> Response | Failure:
        if request.alone:
            return await self._exchange(request)
        async with self._places:
            return await self._exchange(request)

    async def _exchange(self, request: Request) -> Response | Failure:
        import aiohttp

        attempt = _Attempt()
        try:
            async with await self._send(request, attempt) as response:
                return _answer(response, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            return _failure(error, attempt.reused)

    async def _open(self, request: Request) -> "tuple[aiohttp.ClientResponse | None, Response | Failure]":
        import aiohttp

        attempt = _Attempt()
        try:
            response = await self._send(request, attempt)
            if response.status == 200:
                return response, _answer(response)
            async with response:
                return None, _answer(response, await response.read())
        except (aiohttp.ClientError, OSError) as error:
            return None, _failure(error, attempt.reused)

    async def _read(self, stream: "aiohttp.ClientResponse") -> bytes | Failure:
        import aiohttp

        try:
            return await stream.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            return _failure(error)

    async def _send(self, request: Request, attempt: _Attempt) -> "aiohttp.ClientResponse":
        import aiohttp
        from yarl import URL

        session = self._ready()
        headers = (
            {**request.headers, "Content-Type": "application/json"} if request.body is not None else request.headers
        )
        return await session.request(
            request.method,
            URL(self._base + request.path, encoded=True),
            data=request.body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(sock_connect=self._timeout, sock_read=request.within or self._timeout),
            trace_request_ctx=attempt,
        )

    def _ready(self) -> "aiohttp.ClientSession":
        """The session, made on first use, when the loop that it will belong to runs."""
        if self._closed:
            raise closed()
        loop = asyncio.get_running_loop()
        if self._session is None:
            self._session, self._loop = self._make_session(), loop
        if self._loop is not loop:
            raise InterlockError("client: it belongs to another event loop; make one for each")
        return self._session

    def _make_session(self) -> "aiohttp.ClientSession":
        import aiohttp

        async def reused(session: aiohttp.ClientSession, context: Any, parameters: Any) -> None:
            context.trace_request_ctx.reused = True

        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(reused)
        path = self._address.path
        # How many there are at once is limited above, where it is known which of them only wait.
        connector = aiohttp.TCPConnector(limit=0) if path is None else aiohttp.UnixConnector(path, limit=0)
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[trace],
        )


def _answer(response: "aiohttp.ClientResponse", body: bytes = b"") -> Response:
    return Response(response.status, {name.lower(): value for name, value in response.headers.items()}, body)


def _failure(error: "aiohttp.ClientError | OSError", reused: bool = False) -> Failure:
    import aiohttp

    match error:
        case aiohttp.ClientSSLError():
            return Failure("insecure", error)
        case aiohttp.ClientConnectorError(os_error=PermissionError()):
            return Failure("denied", error)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return Failure("unreachable", error)
        case TimeoutError():
            return Failure("silent", error)
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            # The error itself has the request, and so the token.
            return Failure("garbled", ValueError(str(error)))
        case _:
            return Failure("lost", error, reused)
