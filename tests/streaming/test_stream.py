"""Streams from a handler to the readers of its run: order, values, limits, attempts, secrets."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock as il
from tests.cli.terminal import Terminal
from tests.helpers.http import connect, head
from tests.helpers.places import clean_folder, run_async, tell_to_go
from tests.helpers.server import Server, interlock
from tests.streaming.conftest import APP

VALUES = ["Hel", "lo, ", "wörld\n", {"tool": "search", "arguments": [1, 2.5, None]}, [], "", True, 7]
pytestmark = pytest.mark.behaviour("RUN-27")


@pytest.fixture
def client(server: Server) -> Iterator[il.Client]:
    with il.Client(f"unix:{server.http_socket}") as client:
        yield client


@pytest.mark.parametrize("job", ["emit", "emit.blocking"])
def test_chunks_arrive_in_order_as_they_were_emitted(client: il.Client, job: str) -> None:
    run = client.submit(job, {"chunks": [*VALUES, *range(3000)]})
    chunks = list(run.stream())
    assert [chunk.value for chunk in chunks] == [*VALUES, *range(3000)]
    assert {chunk.attempt for chunk in chunks} == {1}
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    assert run.result(10) == len(chunks)
    assert list(run.stream()) == chunks, "the stream of a run that has ended is the same"
    assert [line.text for line in run.logs()] == (["a line of the log"] if job == "emit" else []), "chunks are no lines"


def test_a_forked_process_emits_to_the_stream_of_its_run(client: il.Client) -> None:
    run = client.submit("emit.isolated", {"chunks": ["a", "b"]})
    values = [chunk.value for chunk in run.stream()]
    assert sorted(values) == ["a", "b", "forked"], "it has an order of its own"
    assert values.index("a") < values.index("b")


def test_no_message_of_a_forked_process_hinders_the_end_of_its_run(client: il.Client) -> None:
    for _ in range(2):  # the second is reported by the same process
        run = client.submit("emit.forked", {"password": "abcd"})
        assert run.result(10) == "done"
        assert sorted((chunk.value[:5], len(chunk.value)) for chunk in run.stream()) == [
            ("after", 5),
            ("•••••", 3 * 8191),
        ]


def test_a_chunk_is_read_while_the_handler_works(client: il.Client, server: Server) -> None:
    payload = {"chunks": ["first", "second"], "folder": str(server.folder), "name": "at-work"}
    run = client.submit("emit.and.wait", payload)
    stream = run.stream()
    assert [next(stream).value, next(stream).value] == ["first", "second"]
    assert run.state() is il.State.RUNNING
    tell_to_go(server.folder, "at-work")
    assert next(stream, None) is None, "it ends with the run"


def test_a_reader_resumes_after_any_chunk(client: il.Client) -> None:
    run = client.submit("emit", {"chunks": list(range(40))})
    chunks = list(run.stream())
    for index, chunk in enumerate(chunks):
        assert list(run.stream(after=chunk.id)) == chunks[index + 1 :]
    for wrong in ("soon", "e0.1", "e5.", "e1.-1", "e٣", f"e{'9' * 5000}"):
        with pytest.raises(il.BadValue, match=r"after: .* is not the id of a chunk"):
            next(run.stream(after=wrong))


async def test_both_clients_and_the_app_read_the_same(client: il.Client, server: Server) -> None:
    run = client.submit("emit", {"chunks": VALUES})
    chunks = list(run.stream())
    from tests.helpers.streaming_jobs import app

    async with il.AsyncClient(f"unix:{server.http_socket}") as other, app.connected(str(server.socket)):
        assert [chunk async for chunk in other.handle(run.id).stream()] == chunks
        assert [chunk async for chunk in (await app.handle(run.id)).stream(after=chunks[2].id)] == chunks[3:]


def test_a_retry_begins_the_stream_again_as_the_next_attempt(client: il.Client) -> None:
    run = client.submit("emit.again")
    found = [(chunk.attempt, chunk.value) for chunk in run.stream()]
    assert found == [(1, "attempt 1"), (1, "and more"), (2, "attempt 2"), (2, "and more")]


def test_a_run_without_chunks_and_an_unknown_run(client: il.Client) -> None:
    run = client.submit("emit", {"chunks": []})
    assert list(run.stream()) == []
    with pytest.raises(il.UnknownRun, match="nobody"):
        next(client.handle("nobody").stream())


def test_what_cannot_be_a_chunk_is_refused_in_the_handler(client: il.Client) -> None:
    run = client.submit("emit.wrong")
    assert run.result(10) == [
        "NotJson: chunk: a set is not JSON",
        "NotJson: chunk.deep[0]: a object is not JSON",
        "NotJson: chunk: nan is not JSON (not a finite number)",
        "PayloadTooLarge: chunk: 32,770 bytes as JSON; the limit is 32,768",
    ]
    assert [len(chunk.value) for chunk in run.stream()] == [32_766], "one of exactly the limit is taken"


@pytest.mark.behaviour("SEC-5")
def test_secrets_are_masked(client: il.Client) -> None:
    run = client.submit("emit.secret", {"password": "hunter2hunter2", "pin": il.Secret("9876543210")})
    assert [chunk.value for chunk in run.stream()] == [
        "the password is •••",
        {"found": ["•••"], "•••": 1, "pin": "•••"},
    ]


@pytest.mark.behaviour("SEC-6")
def test_a_stream_is_bounded_and_says_so(folder: Path) -> None:
    """The limits are those of the log of a run, over all its attempts."""
    options = ("--log-bytes", "40KiB", "--drain", "1s", "--http", "local")
    with Server(folder, *options, target=APP) as server, il.Client(f"unix:{server.http_socket}") as client:
        run = client.submit("emit.many", {"count": 100, "size": 1000})
        values: list[str] = []
        with pytest.raises(il.StreamCut, match=f"stream of run {run.id}: cut at a limit: log_lines or log_bytes"):
            values.extend(chunk.value.strip() for chunk in run.stream())
        assert values == [str(number) for number in range(len(values))]
        assert 1 <= len(values) <= 40
        assert run.wait(10) is il.State.SUCCEEDED, "the run goes on"
        assert [line.level for line in run.logs()] == ["warning"]


@pytest.mark.behaviour("SEC-6")
def test_a_reader_who_does_not_read_harms_nobody(client: il.Client, server: Server) -> None:
    with connect(server.http_socket) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(head("GET", "/api/v1/events?type=chunk"))
        assert slow.recv(12) == b"HTTP/1.1 200"
        runs = [client.submit("emit.many", {"count": 200, "size": 10_000}) for _ in range(3)]
        for run in runs:
            assert [int(chunk.value) for chunk in run.stream()] == list(range(200))


@pytest.mark.behaviour("SEC-1")
def test_the_stream_of_another_tenant_does_not_exist() -> None:
    with clean_folder() as place:
        tokens = ("red", "viewer"), ("blue", "viewer"), ("*", "operator")
        lines = [f"  - {{name: {role}{index}, role: {role}, tenant: '{tenant}', token: '{index:032}'}}"
                 for index, (tenant, role) in enumerate(tokens)]  # fmt: skip
        (place / "interlock.yaml").write_text("\n".join(["tokens:", *lines]) + "\n")
        with Server(place, "--drain", "1s", "--http", "127.0.0.1:0", target=APP) as server:
            red, blue, boss = (il.Client(server.url, token=f"{index:032}") for index in range(3))
            with red, blue, boss:
                run = boss.submit("emit", {"chunks": ["for red"]}, tenant="red")
                assert [chunk.value for chunk in red.handle(run.id).stream()] == ["for red"]
                with pytest.raises(il.UnknownRun):
                    next(blue.handle(run.id).stream())
                events = blue.events(types=["chunk", "run"], after="start")
                other = boss.submit("emit", {"chunks": ["for blue"]}, tenant="blue")
                for _, event in events:
                    assert getattr(event, "tenant", "blue") == "blue"
                    if isinstance(event, il.RunEvent) and event.state is il.State.SUCCEEDED:
                        break
                assert [chunk.value for chunk in blue.handle(other.id).stream()] == ["for blue"]


def test_over_http_with_the_id_of_the_last_event(client: il.Client, server: Server) -> None:
    run = client.submit("emit", {"chunks": ["a", "b"]})
    assert run.wait(10) is il.State.SUCCEEDED
    with server.local.events(run=run.id, type="chunk", after="start") as stream:
        first = stream.next()
    assert first.name == "chunk"
    assert (first.data["run_id"], first.data["attempt"], first.data["tenant"]) == (run.id, 1, "default")
    later = client.submit("emit", {"chunks": ["c"]})
    with server.local.events(last=first.id, type="chunk") as stream:
        found = stream.until(lambda event: event.data["run_id"] == later.id)
    values = [value for event in [first, *found] for value in event.data["chunks"]]
    assert values == ["a", "b", "c"], "it goes on where the first reader left"


def test_the_command_line_prints_a_stream(client: il.Client, server: Server) -> None:
    run = client.submit("emit", {"chunks": ["Hel", "lo\n", "and", {"tool": 1}, "end"]})
    run.wait(10)
    said = interlock(server.folder, "logs", run.id, "--stream")
    assert (said.returncode, said.stdout) == (0, 'Hello\nand\n{"tool":1}\nend\n')
    lines = interlock(server.folder, "logs", run.id, "--stream", "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["Hel", "lo\n", "and", {"tool": 1}, "end"]
    again = client.submit("emit.again")
    again.wait(10)
    assert interlock(server.folder, "logs", again.id, "-s").stdout == "attempt 1and more\nattempt 2and more\n"
    assert interlock(server.folder, "logs", "nobody", "--stream").returncode != 0


def test_a_terminal_does_not_obey_a_stream(client: il.Client, server: Server) -> None:
    run = client.submit("emit", {"chunks": ["\x1b]0;owned\x07one\ttwo\n", "\x1b[2Jthree", {"a": "\x9b2J"}]})
    run.wait(10)
    with Terminal(server.folder, "logs", run.id, "--stream") as terminal:
        assert terminal.ended() == 0
    assert terminal.raw == '\\x1b]0;owned\\x07one\ttwo\n\\x1b[2Jthree\n{"a":"\\u009b2J"}\n'
    assert interlock(server.folder, "logs", run.id, "--stream").stdout.startswith("\x1b]0;owned\x07one")


def test_in_a_test_of_an_app() -> None:
    from tests.helpers.streaming_jobs import app, emit_again

    found = app.test("emit", {"chunks": ["a", {"b": 1}]})
    assert [chunk.value for chunk in found.chunks] == ["a", {"b": 1}]
    assert [chunk.attempt for chunk in app.test("emit.again").chunks] == [1, 1, 2, 2]
    context = il.testing.context(attempt=2)
    run_async(emit_again(context))
    assert (context.chunks, context.lines) == (["attempt 2", "and more"], [])
    with il.testing.scheduler(app) as scheduler:
        run = scheduler.submit("emit", {"chunks": ["a", "b"]})
        chunks = list(run.stream())
        assert list(run.stream(after=chunks[0].id)) == chunks[1:]
