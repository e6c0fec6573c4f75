"""The link between a host and its executor process."""

import asyncio

import uvloop

from interlock.wire.message import Stop
from interlock.worker.pool import ExecutorOptions, ProcessPool
from tests.helpers.places import until


def test_what_is_sent_to_a_process_whose_link_has_just_closed_is_no_fault() -> None:
    async def body() -> list[str]:
        found: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context["message"]))
        child = ProcessPool(ExecutorOptions(), 1)._spawn(False)
        await until(lambda: child._transport is not None, "it is connected")
        assert child._transport is not None
        child._transport.abort()
        child.send(Stop("r", 1, "cancel"))
        async with asyncio.timeout(30):
            await child.gone
        return found

    assert uvloop.run(body()) == []
