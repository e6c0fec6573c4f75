"""The event stream: live, filtered, and resumed after anything without a loss or a repetition."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.api.feed import Wish
from interlock.api.sse import Whose, whose
from interlock.model.job_info import JobEvent
from interlock.ports.store import ServiceEntry
from tests.api.conftest import sound
from tests.helpers.http import EventStream, Http, Told, ends, position_of
from tests.helpers.places import tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS = "/api/v1/runs"
BATCH = "/api/v1/runs/batch"
CROWD = 100
"""readers for whom a batch of 1,000 is more than is told at once"""


def stored(told: list[Told]) -> list[Told]:
    """Those that have a place in the store."""
    return [one for one in told if one.id is not None]


def everything(http: Http, run_ids: list[str], **query: object) -> list[Told]:
    """Everything that the store has, up to the end of the last of these runs."""
    with http.events(after=0, **query) as stream:
        return stored(stream.until(ends(run_ids)))


def submit_many(http: Http, count: int, **fields: Any) -> list[str]:
    ids: list[str] = http.post(BATCH, {"runs": [{"job": "echo", **fields}] * count}).json["ids"]
    return ids


# ── live ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-20")
def test_what_happens_is_told_as_it_happens(server: Server) -> None:
    http = server.http
    with http.events() as stream:
        assert stream.headers["cache-control"] == "no-store"
        run_id = http.submit("progress", {"folder": str(server.folder), "name": "live"})
        told = stream.until(lambda one: one.name == "progress")
        # The run goes on only now: what was told was told while it ran.
        tell_to_go(server.folder, "live")
        told += stream.until(ends([run_id]))
    assert {one.data["run_id"] for one in told} == {run_id}
    assert {(one.data["job_id"], one.data["tenant"]) for one in told} == {("progress", "default")}
    (progress,) = [one for one in told if one.name == "progress"]
    assert (progress.id, progress.data["percent"], progress.data["text"]) == (None, 42.0, "under way")
    (line,) = [one for one in told if one.name == "log"]
    assert (line.data["level"], line.data["text"], line.data["attempt"]) == ("warning", "a line", 1)
    entries = [entry for one in told if one.name == "run" for entry in one.data["transitions"]]
    assert entries == http.get(f"{RUNS}/{run_id}/history").json["entries"]
    states = [one.data["state"] for one in told if one.name == "run"]
    assert states[-1] == "succeeded"
    positions = [one.id for one in told if one.id is not None]
    assert positions == sorted(set(positions))
    assert positions[0] > stream.position


@pytest.mark.behaviour("RUN-20")
def test_the_last_progress_and_line_come_before_the_end(server: Server) -> None:
    http = server.http
    with http.events() as stream:
        for _ in range(5):
            run_id = http.submit("last-words")
            told = [
                one for one in stream.until(ends([run_id])) if one.name != "run" or one.data["state"] == "succeeded"
            ]
            # The end closes the stretch of the stream, so both came before it.
            assert {(one.name, one.data.get("text")) for one in told} == {
                ("log", "the last line"), ("progress", "done"), ("run", None),
            }  # fmt: skip
            assert http.ended(run_id)["progress"] == {"percent": 100.0, "text": "done"}


def test_filters(server: Server) -> None:
    http = server.http

    def told_of(stream: EventStream) -> list[Told]:
        return stream.until(lambda one: one.data.get("text") == "the end" or one.data.get("run_id") == last)

    with ExitStack() as stack:

        def opened(**query: object) -> EventStream:
            return stack.enter_context(http.events(**query))

        chatty = http.submit("chatter", {"lines": 2}, delay="1h", tenant="told")
        streams = {
            "job": opened(job="chatter", tenant="told"),
            "tenant": opened(tenant="told"),
            "run": opened(run=chatty),
            "log": opened(type="log", tenant="told"),
            "both": opened(type=["run", "log"], tenant="told"),
        }
        other = http.submit("echo", tenant="told")
        second = http.submit("chatter", {"lines": 2}, tenant="told")
        http.submit("chatter", {"lines": 2}, tenant="told-2")
        http.ended(other)
        http.ended(second)
        http.post(f"{RUNS}/{chatty}/cancel")
        last = http.submit("chatter", {"lines": 1}, tenant="told")
        told = {name: told_of(stream) for name, stream in streams.items() if name != "run"}
        told["run"] = streams["run"].until(ends([chatty]))
    runs = {name: {one.data["run_id"] for one in found} for name, found in told.items()}
    assert runs["job"] == {chatty, second, last}
    assert runs["tenant"] == {other, chatty, second, last}
    assert runs["run"] == {chatty}
    assert runs["log"] == {second, last}
    assert runs["both"] == runs["tenant"]
    assert {one.name for one in told["log"]} == {"log"}
    assert {one.name for one in told["both"]} == {"run", "log"}


@pytest.mark.behaviour("CON-1", "OBS-4")
def test_violations_are_events_of_their_run_and_of_their_job(server: Server) -> None:
    http, given = server.http, {"folder": str(server.folder), "name": "alone"}
    first, second = (http.submit("alone", given, tenant="crowd") for _ in range(2))
    assert http.ended(second)["state"] == "skipped"
    tell_to_go(server.folder, "alone")
    http.ended(first)
    wishes: list[dict[str, Any]] = [
        {"type": "violation"}, {"job": "alone"}, {"run": second}, {"tenant": "crowd", "job": "alone"},
        {"run": second, "type": ["violation", "log"]}, {"tenant": "crowd", "type": "violation"},
    ]  # fmt: skip
    with ExitStack() as stack:
        live = [stack.enter_context(http.events(**wish)) for wish in wishes if "run" not in wish]
        stored = [stack.enter_context(http.events(after="start", **wish)) for wish in wishes]
        third, fourth = (http.submit("alone", given | {"name": "more"}, tenant="crowd") for _ in range(2))
        http.ended(fourth)
        tell_to_go(server.folder, "more")
        for stream, run_id in [*((one, fourth) for one in live), *((one, second) for one in stored)]:
            told = stream.until(lambda one: one.name == "violation")[-1].data
            assert (told["run_id"], told["job_id"], told["tenant"]) == (run_id, "alone", "crowd")
            assert told["constraint"] == "max_concurrent_runs"
        http.ended(third)


@pytest.mark.behaviour("OBS-4")
def test_changes_of_a_job_are_events_of_it() -> None:
    def of(count: int, *jobs: str) -> Whose:
        event = JobEvent(at=1.0, action="paused", actor="ann", jobs=list(jobs), count=count)
        return whose(ServiceEntry(1, "@jobs", 1.0, "event", msgspec.json.encode(event).decode(), None))

    assert Wish(job="alone").wants(of(2, "other", "alone"))
    assert Wish(job="alone", types=frozenset({"job"})).wants(of(1, "alone"))
    assert not Wish(job="alone").wants(of(1, "other"))
    assert Wish(job="alone").wants(of(101, "other")), "it may be one of those that the event does not name"
    assert not Wish(run="alone").wants(of(1, "alone"))


def test_a_stream_of_what_does_not_exist_is_silent(http: Http) -> None:
    with http.events(run="nope") as silent, http.events() as witness:
        witness.until(ends([http.submit("echo")]))
        silent.raw.sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.next()


# ── resuming ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_header_goes_before_the_parameter(http: Http) -> None:
    """A browser repeats the address that it was given, and adds how far it is."""
    with http.events() as stream:
        run_id = http.submit("echo")
        told = stored(stream.until(ends([run_id])))
    with http.events(last=told[-2].id, after=0) as resumed:
        assert resumed.next() == told[-1]


def test_resuming_while_it_goes_on(server: Server) -> None:
    """From the store to live without a seam, whatever is stored meanwhile."""
    http = server.http
    with http.events() as stream:
        start = stream.position
        ids: list[str] = []
        for _ in range(10):
            ids += submit_many(http, 30)
            with http.events(after=start) as resumed:
                ids += submit_many(http, 30)
                told = stored(resumed.until(ends(ids)))
                positions = [one.id for one in told]
                assert positions == sorted(set(positions))  # type: ignore[type-var]
                entries: dict[str, int] = {}
                for one in told:
                    for entry in one.data["transitions"]:
                        assert entry["seq"] == entries.get(one.data["run_id"], 0) + 1
                        entries[one.data["run_id"]] = entry["seq"]
                assert set(ids) <= set(entries)


def test_a_position_that_was_never_given_out(http: Http) -> None:
    """As after the database was replaced: the stream begins with what is new."""
    with http.events(last=10**17) as stream:
        assert stream.position < 10**17
        run_id = http.submit("echo")
        assert {one.data["run_id"] for one in stream.until(ends([run_id]))} == {run_id}


@pytest.mark.behaviour("OBS-4")
def test_resuming_over_a_crash(folder: Path) -> None:
    """Three readers, interrupted at different places by a kill -9, miss nothing and hear nothing twice."""
    server = Server(folder, "--http", "local")
    with sound(server):
        http = server.local
        ids = submit_many(http, 50)
        held = http.submit("hold", {"folder": str(folder), "name": "over"})
        heard: list[list[Told]] = []
        with ExitStack() as stack:
            streams = [stack.enter_context(http.events(after=0)) for _ in range(3)]
            for share, stream in enumerate(streams):
                heard.append([stream.next() for _ in range(10 + 20 * share)])
            wait_until(lambda: http.get(f"{RUNS}/{held}").json["state"] == "running", "it runs")
            server.kill()
        server.start()
        ids += submit_many(http, 50)
        tell_to_go(folder, "over")
        ids.append(held)
        for told in heard:
            with http.events(last=told[-1].id) as resumed:
                told += stored(resumed.until(ends(ids)))
        whole = everything(http, ids)
        for told in heard:
            assert told == whole[: len(told)]
            assert {one.data["run_id"] for one in told} == set(ids)


# ── too much ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gap_can_be_read_again(http: Http) -> None:
    """More happens than can be told to everybody in time: it is left out, said so, and complete when gone back for."""
    with ExitStack() as stack:
        crowd = [stack.enter_context(http.events(job="echo")) for _ in range(CROWD)]
        ids = submit_many(http, 1000, payload={"value": 1})
        told = crowd[0].until(lambda one: one.name == "gap")
    gap = told[-1]
    assert gap.id is None
    assert position_of(gap.data["after"]) >= max([one.id or 0 for one in told], default=0)
    for run_id in ids[-3:]:
        http.ended(run_id)
    # Tests before this one, on the same server, may have left runs that wait.
    wait_until(lambda: not {one["id"] for one in http.runs(live="true", job="echo", limit=1000)} & set(ids), "all end")
    with http.events(after=gap.data["after"], job="echo") as stream:
        whole = stored(stream.until(ends(ids)))
    left_out = [one for one in whole if one.id is not None and one.id <= position_of(gap.data["until"])]
    assert left_out
    entries = dict.fromkeys(ids, 0)
    # What was told before the gap is not told again.
    for one in [*stored(told), *whole]:
        for entry in one.data["transitions"]:
            assert entry["seq"] == entries[one.data["run_id"]] + 1, "a hole in what was read again"
            entries[one.data["run_id"]] = entry["seq"]
    assert set(entries.values()) == {6}


def test_a_reader_of_one_run_never_has_a_gap(http: Http) -> None:
    with ExitStack() as stack:
        watched = http.submit("chatter", {"lines": 20}, delay="300ms")
        single = stack.enter_context(http.events(run=watched))
        crowd = [stack.enter_context(http.events(job="echo")) for _ in range(CROWD)]
        submit_many(http, 1000)
        crowd[0].until(lambda one: one.name == "gap")
        http.ended(watched)
        with http.events(run=watched, after=single.position) as stream:
            # What is logged at the very end is told behind it, so it is the lines that are counted.
            whole = stream.until(lambda one: one.name == "log" and one.data["text"].startswith("19"))
        assert [single.next() for _ in whole] == whole
    assert {one.name for one in whole} == {"run", "log"}


def test_a_reader_that_does_not_read_is_cut_off_and_the_others_go_on(server: Server) -> None:
    """It can come again, and resume where it was."""
    http = server.local
    before = cut(http)
    with http.events(type="log") as lazy, http.events(type="log") as busy:
        lazy.raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ids: list[str] = []
        heard: list[Told] = []
        while cut(http) == before:
            ids.append(http.submit("chatter", {"lines": 50, "size": 8000}))
            http.ended(ids[-1])
            heard += [busy.next() for _ in range(50)]
            assert len(ids) < 100, "it is waited for"
        some = read_what_is_left(lazy)
    assert {one.data["run_id"] for one in heard} == set(ids)
    assert some == heard[: len(some)]
    assert len(some) < len(heard)
    last = some[-1].id if some else lazy.position
    with http.events(last=last, type="log") as resumed:
        assert [resumed.next() for _ in heard[len(some) :]] == heard[len(some) :]


def cut(http: Http) -> float:
    for line in http.get("/metrics").body.decode().splitlines():
        if line.startswith("interlock_event_readers_cut_total "):
            return float(line.split()[1])
    raise AssertionError("there is no such metric")


def read_what_is_left(stream: EventStream) -> list[Told]:
    """What had been sent before the end, which comes in the middle of something."""
    found = []
    try:
        while True:
            found.append(stream.next())
    except (EOFError, ConnectionResetError, ValueError):
        return found
