"""A transport on an event loop, with aiohttp. Only `AsyncClient` imports it."""

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext

import aiohttp
from yarl import URL

from interlock.client.http.exchange import AnswerStream, ClientPolicy, FailedExchange, HttpRequest, Response, closed
from interlock.error import InterlockError


class AsyncTransport:
    """Belongs to the loop on which it is first used."""

    def __init__(self, policy: ClientPolicy, token: str | None) -> None:
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
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._closed:
            raise closed()

    async def ask(self, request: HttpRequest) -> Response | FailedExchange:
        async with nullcontext() if request.alone else self._places:
            opened = await self.open(request)
            return await opened.whole() if isinstance(opened, _AioAnswerStream) else opened

    async def open(self, request: HttpRequest) -> "_AioAnswerStream | Response | FailedExchange":
        session = self._ready()
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = await session.request(
                request.method,
                URL(self._base + request.path, encoded=True),
                data=request.body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=self._timeout, sock_read=request.within or self._timeout),
            )
        except (aiohttp.ClientError, OSError) as error:
            return _failure(error)
        stream = _AioAnswerStream(response)
        return stream if response.status == 200 else await stream.whole()

    def _ready(self) -> aiohttp.ClientSession:
        """Return the session, which is made when its loop runs."""
        if self._closed:
            raise closed()
        loop = asyncio.get_running_loop()
        if self._session is None:
            path = self._address.path
            # `ask` limits the number of connections: only there is it known which requests merely wait.
            connector = aiohttp.TCPConnector(limit=0) if path is None else aiohttp.UnixConnector(path, limit=0)
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        if self._loop is not loop:
            raise InterlockError("client: it belongs to another event loop; make one for each")
        return self._session


class _AioAnswerStream(AnswerStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes | FailedExchange:
        return await self._bytes(self._response.content.readany())

    async def close(self) -> None:
        self._response.close()

    async def whole(self) -> Response | FailedExchange:
        """Read the rest of the answer, and give the connection back."""
        async with self._response:
            body = await self._bytes(self._response.read())
        return body if isinstance(body, FailedExchange) else Response(self._response.status, self.headers, body)

    async def _bytes(self, reading: Awaitable[bytes]) -> bytes | FailedExchange:
        try:
            return await reading
        except (aiohttp.ClientError, OSError) as error:
            return _failure(error)


def _failure(error: aiohttp.ClientError | OSError) -> FailedExchange:
    match error:
        case aiohttp.ClientSSLError():
            return FailedExchange("insecure", error)
        case aiohttp.ClientConnectorError(os_error=PermissionError()):
            return FailedExchange("denied", error)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return FailedExchange("unreachable", error)
        case TimeoutError():
            return FailedExchange("silent", error)
        case aiohttp.ClientResponseError() | aiohttp.InvalidURL():
            # The error itself has the request, and so the token.
            return FailedExchange("garbled", ValueError(str(error)))
        case _:
            return FailedExchange("lost", error)
