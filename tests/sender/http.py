"""Real servers on loopback, and requests to them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from aiohttp import web

from interlock import runtime
from interlock.model.delivery import Outgoing
from interlock.sender.http_transport import HttpTransport
from interlock.sender.transport import ReceivedAnswer

NOW = 1_700_000_000.5

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def outgoing(url: str | None, **fields: Any) -> Outgoing:
    common: dict[str, Any] = {"timeout": 20.0, "content_type": "application/cloudevents+json", "body": b'{"n": 1}'}
    names = dict.fromkeys(("url_env", "secret_env", "token_env"))
    return Outgoing(**(common | names | {"url": url} | fields))


async def never() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def post(request: Outgoing, transport: HttpTransport | None = None) -> ReceivedAnswer:
    """Make one request where nothing listens that the test needs."""

    async def body() -> ReceivedAnswer:
        return await in_turn(transport or HttpTransport(), request)

    return runtime.run(body())


async def in_turn(transport: HttpTransport, *requests: Outgoing) -> ReceivedAnswer:
    """Make the requests one after another, close the transport, and return the last answer."""
    try:
        for one in requests[:-1]:
            await transport.post("d1", one, NOW)
        return await transport.post("d1", requests[-1], NOW)
    finally:
        await transport.close()


@asynccontextmanager
async def receiver(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on loopback; yield the port."""
    server = web.Server(handler)
    runner = web.ServerRunner(server, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def exchange(
    handler: Handler, request: Callable[[int], Outgoing], transport: HttpTransport | None = None
) -> ReceivedAnswer:
    async def body() -> ReceivedAnswer:
        async with receiver(handler) as port:
            return await in_turn(transport or HttpTransport(), request(port))

    return runtime.run(body())


def at(port: int, path: str = "/", **options: Any) -> Outgoing:
    return outgoing(f"http://127.0.0.1:{port}{path}", **options)
