"""Sessions from Python: both clients and the app, against a real server."""

from pathlib import Path

import pytest

import interlock as il
from tests.helpers.jobs import app
from tests.helpers.places import until_running
from tests.helpers.server import Server

QUIET: il.SessionFields = {"debounce": "0s"}


@pytest.mark.behaviour("SES-5")
async def test_sessions_of_the_app(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit(
            "hold", {"folder": str(folder), "name": "a"}, session="a/é", session_options=QUIET, tenant="app"
        )
        await until_running(run)
        waiting = await app.submit("echo", session="a/é", tenant="app")
        other = await app.submit("echo", session="b", delay="1h", tenant="app")
        found = [(one.key, one.active, one.waiting) async for one in app.sessions("app")]
        assert found == [("a/é", 1, 1), ("b", 0, 0)]
        assert (await app.act_on_session("a/é", "stop", "app")).acted
        with pytest.raises(il.RunCancelled, match="stopped"):
            await run.result(30)
        assert await waiting.result(30) is None
        await other.cancel()
        assert not (await app.act_on_session("a/é", "stop", "app")).acted
        assert (await app.session("a/é", "app")).active == 0
        for arguments in (("", "stop"), ("x" * 513, "stop"), ("a", "halt"), ("a", "stop", "a b")):
            with pytest.raises(il.BadValue):
                await app.act_on_session(*arguments)
