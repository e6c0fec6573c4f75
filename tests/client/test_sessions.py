"""Sessions from Python: both clients and the app, against a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.model.session import SessionAction
from interlock.model.session_info import SessionInfo
from tests.client.faces import KINDS, Face, face
from tests.helpers.jobs import app
from tests.helpers.places import until_running
from tests.helpers.server import Server

KEYS = ["chat:1", "a/b", "..", ".", "é ☃?#%2F"]
QUIET: il.SessionFields = {"debounce": "0s"}


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Face]:
    with face(request.param, server.url) as one:
        yield one


@pytest.mark.behaviour("SES-5", "SES-7", "SES-10")
@pytest.mark.parametrize("key", KEYS)
def test_the_acts_on_a_session(client: Face, key: str) -> None:
    before = client("session", key).generation
    assert client("act_on_session", key, "stop").acted is False
    assert client("act_on_session", key, SessionAction.PAUSE).acted is True
    runs = [client("submit", "echo", {"value": one}, session=key, session_options=QUIET) for one in range(2)]
    assert {one.key: one.waiting for one in client("sessions")}[key] == 2
    acted = client("act_on_session", key, "reset")
    assert (acted.acted, acted.session.waiting, acted.session.generation) == (True, 0, before + 1)
    assert key not in [one.key for one in client("sessions", tenant="default")]
    for run in runs:
        with pytest.raises(il.RunCancelled, match="lane_cleared"):
            run("result", timeout="30s")
    assert client("act_on_session", key, "stopall").session.cutoff is not None
    assert client("act_on_session", key, "resume").acted is True
    shown: SessionInfo = client("session", key)
    assert (shown.key, shown.tenant, shown.active, shown.paused) == (key, "default", 0, False)


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


@pytest.mark.behaviour("SES-11")
async def test_whoever_waits_for_a_run_sees_its_end_when_it_is_cancelled(server: Server, folder: Path) -> None:
    """By a later run, by a full queue, and by a stop: the stream of the run ends, and so does the wait for it."""

    async def body(client: il.AsyncClient) -> None:
        async def ends(run: il.RunHandle[Any]) -> tuple[str, str]:
            events = [event async for _, event in client.events(run=run.id, types=["run"])]
            last = events[-1]
            assert isinstance(last, il.RunEvent)
            return last.state, last.transitions[-1].reason

        def submit(name: str, **options: Any) -> Any:
            given: Any = {**QUIET, "cap": 1, **options}
            payload = {"folder": str(folder), "name": name}
            return client.submit("hold", payload, session="ends", session_options=given)

        active = await submit("active")
        await until_running(active)
        dropped, waiting = await submit("dropped"), await submit("waiting")
        asked = [asyncio.create_task(ends(one)) for one in (active, dropped, waiting)]
        results = [asyncio.create_task(one.result(60)) for one in (active, dropped, waiting)]
        last = await submit("last", mode="interrupt")
        later = "interrupted by a later run"
        assert [await one for one in asked] == [
            ("cancelled", later), ("cancelled", "queue_dropped"), ("cancelled", later)
        ]  # fmt: skip
        for result in results:
            with pytest.raises(il.RunCancelled):
                await result
        await until_running(last)
        await client.act_on_session("ends", "stopall")
        assert await ends(last) == ("cancelled", "stopped")

    async with il.AsyncClient(server.url) as client:
        await body(client)
