"""Both clients against a real server: what they submit is run, and what they follow survives the server."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import interlock as il
from interlock.interface.run_view import HelloEvent, LogEvent, ProgressEvent, RunEvent
from soak.simulation.history import replay
from tests.client.faces import KINDS, Face, face
from tests.helpers.http import position_of
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["tcp", "unix"])
def client(request: pytest.FixtureRequest, kind: str, server: Server) -> Iterator[Face]:
    url = server.url if request.param == "tcp" else f"unix:{server.http_socket}"
    with face(kind, url) as one:
        yield one


def test_a_run_from_submit_to_end(client: Face) -> None:
    run = client("submit", "add", {"left": 1, "right": 2})
    assert run("result", "30s") == 3
    assert client("result", run.id) == 3
    assert run("wait") is run("state") is il.State.SUCCEEDED
    found = client("get", run.id)
    assert (found.id, found.payload, found.result, found.stats.attempts) == (run.id, {"left": 1, "right": 2}, 3, 1)
    assert run("info") == found
    assert run("history") == client("history", run.id)
    assert replay(run("history")) is il.State.SUCCEEDED
    assert run("stats").attempts == 1
    assert run("cancel") is client("cancel", run.id) is il.State.SUCCEEDED


def test_a_batch_is_all_or_none(client: Face) -> None:
    runs = client(
        "submit_many", [("add", {"left": number}) for number in range(999)] + [il.run("echo", {"value": "☃"})]
    )
    assert len({run.id for run in runs}) == 1000
    assert [run("result", 30) for run in runs[:3]] == [1, 2, 3]
    assert runs[-1]("result", 30) == "☃"
    session = str(uuid4())
    with pytest.raises(il.InterlockError, match="'left' is missing"):
        client("submit_many", [il.run("echo", session=session), ("add", None)])
    assert list(client("runs", session=session)) == []


def test_readiness_and_metrics(client: Face) -> None:
    assert client("ready").ready is True
    assert "# TYPE interlock_" in client("metrics")


@pytest.mark.behaviour("RUN-20")
def test_logs_and_progress_are_seen_as_they_come(client: Face, server: Server) -> None:
    name = f"progress-{uuid4()}"
    with_all = client("events", job="progress")
    assert isinstance(next(with_all)[1], HelloEvent)
    run = client("submit", "progress", {"folder": str(server.folder), "name": name})
    seen: dict[type, Any] = {}
    while not {LogEvent, ProgressEvent} <= seen.keys():
        position, event = next(with_all)
        assert (position is None) == isinstance(event, ProgressEvent)
        seen[type(event)] = event
    assert seen[LogEvent].text == "a line"
    assert seen[ProgressEvent].percent == 42
    assert run("info").progress.text == "under way"
    tell_to_go(server.folder, name)
    assert next(event for _, event in with_all if isinstance(event, RunEvent) and event.state is il.State.SUCCEEDED)
    with_all.close()
    assert [line.text for line in run("logs")] == ["a line"]
    assert [event for _, event in client("events", run=run.id, types=["log"])][1:] == [seen[LogEvent]]


def test_events_of_a_run_begin_with_its_first_and_end_with_it(client: Face, server: Server) -> None:
    name = f"events-{uuid4()}"
    run = client("submit", "progress", {"folder": str(server.folder), "name": name})
    wait_until(lambda: run("info").progress is not None, "it has begun")
    live = client("events", run=run.id)
    seen = [next(live) for _ in range(3)]
    tell_to_go(server.folder, name)
    seen += live
    assert isinstance(seen[0][1], HelloEvent)
    told = [(cursor, event) for cursor, event in seen[1:] if cursor is not None]
    assert [*itertools.chain(*(event.transitions for _, event in told if isinstance(event, RunEvent)))] == run(
        "history"
    )
    assert told[-1][1].state is il.State.SUCCEEDED
    later = client("submit", "echo")
    newer = [cursor for cursor, _ in client("events", run=later.id)][-1]
    for after, rest in [(None, told), ("start", told), (told[1][0], told[2:]), (told[-1][0], []), (newer, [])]:
        assert list(client("events", run=run.id, after=after))[1:] == rest, after
    logs = [one for one in told if isinstance(one[1], LogEvent)]
    assert list(client("events", run=run.id, types="log"))[1:] == logs
    assert list(client("events", run=run.id, types=("log", "progress"), after=logs[-1][0]))[1:] == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"run": "nothing"}, "unknown_run"), ({"run": ""}, "unknown_run"), ({"run": "a/b"}, "unknown_run")],
)
def test_events_of_an_unknown_run_are_refused(client: Face, asked: dict[str, Any], code: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        list(client("events", **asked))
    assert caught.value.code == code


@pytest.mark.parametrize("after", ["e", "x5", "5", "eight"])
def test_events_after_something_else_than_an_event_are_refused(client: Face, after: str) -> None:
    ended = client("submit", "echo")
    ended("wait", 30)
    for run in (ended, client("submit", "echo", delay="1d")):
        with pytest.raises(il.InterlockError) as caught:
            list(client("events", run=run.id, after=after))
        assert caught.value.code == "bad_value"
    run("cancel")


def test_many_threads_share_a_client(server: Server) -> None:
    """More of them than connections, and all wait at once."""
    with il.Client(server.url, connections=3) as client, ThreadPoolExecutor(24) as threads:

        def one(number: int) -> int:
            return int(client.submit("add", {"left": number}).result("60s"))

        assert list(threads.map(one, range(240))) == list(range(1, 241))


async def test_many_tasks_share_a_client(server: Server) -> None:
    """More of them wait than may have a connection each."""
    async with il.AsyncClient(server.url) as client:
        runs = await asyncio.gather(*(client.submit("add", {"left": number}) for number in range(400)))
        assert all(isinstance(run, il.RunHandle) for run in runs)
        assert await asyncio.gather(*(run.result("60s") for run in runs)) == list(range(1, 401))


# ── through a crash ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-17")
def test_events_and_results_survive_a_crash_of_the_server(kind: str, folder: Path) -> None:
    with Server(folder, "--http", "local", "--drain", "1s") as server:
        with face(kind, f"unix:{server.http_socket}") as client:
            run = client("submit", "hold", {"folder": str(folder), "name": "work"})
            told = client("events", run=run.id, after="start", complete=True)
            assert isinstance(next(told)[1], HelloEvent)
            first = next(told)
            wait_until(lambda: lines_of(folder / "work.started"), "the work has begun")
            server.kill()
            restart = threading.Thread(target=server.start)
            restart.start()
            # Asked while nobody is there: it is answered once somebody is.
            assert client("get", run.id).id == run.id
            restart.join()
            tell_to_go(folder, "work")
            assert run("result", "30s") >= 1
            events = [(position_of(cursor), event) for cursor, event in (first, *told) if cursor is not None]
            positions = [position for position, _ in events]
            assert positions == sorted(set(positions))
            entries = list(itertools.chain.from_iterable(event.transitions for _, event in events))
            assert entries == run("history")
        server.wait_for_strays()


@pytest.mark.behaviour("RUN-6", "RUN-17")
def test_submits_during_a_crash_are_each_made_once(folder: Path) -> None:
    with Server(folder, "--http", "local", "--drain", "1s") as server:
        with il.Client(f"unix:{server.http_socket}") as client, ThreadPoolExecutor(16) as threads:
            submits = [threads.submit(client.submit, "add", {"left": number}) for number in range(600)]
            wait_until(lambda: sum(one.done() for one in submits) > 100, "some are in")
            server.kill()
            server.start()
            runs = [one.result(60) for one in submits]
            assert len({run.id for run in runs}) == 600
            assert [run.result("60s") for run in runs] == list(range(1, 601))
            assert sorted(run.id for run in client.runs()) == sorted(run.id for run in runs)
        server.wait_for_strays()


def test_ctrl_c_is_not_lost_while_an_answer_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops whatever is raised in the finalizer of an answer that nobody has closed. No signal could be sent at
    exactly that moment, so the standard library raises here."""

    def interrupted(answer: HTTPResponse) -> None:
        monkeypatch.undo()
        answer.close()
        raise KeyboardInterrupt

    with il.Client(server.url) as client:
        monkeypatch.setattr(HTTPResponse, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.ready()
        assert client.ready().ready
