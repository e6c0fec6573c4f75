"""The whole sender on real sockets: link, store, HTTP."""

import asyncio
from pathlib import Path
from typing import cast

from aiohttp import web

from interlock import runtime
from interlock.buses.socket import SocketBus
from interlock.model.delivery import Delivery
from interlock.ports.store import Reader
from interlock.wire.delivery_request import HookAnswered
from interlock.wiring.sender import SenderOptions, send
from tests.sender.http import at, receiver
from tests.sender.stage import Outbox, Scheduler, hook

COUNT = 300


def test_deliveries_and_hooks_go_out_over_real_sockets(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["webhook-id"])
        return web.Response()

    async def body() -> None:
        outbox = Outbox()
        scheduler, bus = Scheduler(outbox), SocketBus(tmp_path / "s")
        await bus.listen(scheduler)
        async with receiver(handler) as port:
            request = at(port)
            for name in (f"d{n}" for n in range(COUNT)):
                outbox.rows[name] = Delivery(name, "r", "j", "t", "run.failed", request.host, None, 0, 9e9, request)
            options = SenderOptions(
                database="", socket=str(tmp_path / "s"), webhook_allow=[], log_level="info", log_format="text"
            )
            sending = asyncio.ensure_future(send(cast(Reader, outbox), options))
            await scheduler.until(lambda: scheduler.registered)
            scheduler.send(hook("r", host=request.host))
            await scheduler.until(lambda: scheduler.answers and not outbox.pending())
            sending.cancel()
            await asyncio.wait([sending])
        await bus.close()
        assert scheduler.answers == [HookAnswered("r", 1, 200, "")]

    runtime.run(body())
    assert sorted(seen) == sorted([*(f"d{n}" for n in range(COUNT)), "r-1"])
