"""Many runs at once: results in order, handles as their runs end, a run for each item of an iterable."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import interlock as il
from interlock.fields.json_form import encode
from tests.client.faces import KINDS, Face, face
from tests.helpers.jobs import add, app, echo, flaky, hold
from tests.helpers.jobs import count as counted
from tests.helpers.places import lines_of, run_async, tell_to_go, until
from tests.helpers.server import Server

COUNT = 2000


@pytest.fixture(params=[*KINDS, "App"])
def submit(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[..., Any]]:
    """Submit runs, and return their handles; `gather` and `as_completed` are called in the same way for all of them."""
    if request.param != "App":
        with face(request.param, server.url) as client:
            yield lambda *runs: Waiting(client, [one._target for one in client("submit_many", runs)])
        return
    with asyncio.Runner() as runner:
        connected = app.connected(str(server.socket))
        runner.run(connected.__aenter__())
        one = Face(app, runner)
        yield lambda *runs: Waiting(one, [handle._target for handle in one("submit_many", runs)])
        runner.run(connected.__aexit__(None, None, None))


class Waiting:
    """Handles of either kind, waited for on the loop of their client, or without one."""

    def __init__(self, client: Face, handles: list[Any]) -> None:
        self.handles = handles
        self._functions = Face(il, client._runner)

    def gather(self, **options: Any) -> list[Any]:
        found = self._functions("gather", *self.handles, **options)
        assert isinstance(found, list)
        return found

    def as_completed(self) -> Iterator[Any]:
        return iter(self._functions("as_completed", self.handles))

    def result(self, handle: Any) -> Any:
        return Face(handle, self._functions._runner)("result", "30s")


def held(server: Server, *names: str) -> list[tuple[str, dict[str, Any]]]:
    return [("hold", {"folder": str(server.folder), "name": name}) for name in names]


def names(count: int) -> list[str]:
    return [f"{uuid4()}" for _ in range(count)]


def test_results_come_in_the_order_of_the_handles(submit: Callable[..., Any], server: Server) -> None:
    (name,) = names(1)
    runs = submit(*held(server, name), *(("add", {"left": number}) for number in range(40)))
    runs.handles.append(runs.handles[5])
    tell_to_go(server.folder, name)
    assert runs.gather()[1:] == [*range(1, 41), 5]
    assert runs.gather(return_exceptions=True)[1:] == [*range(1, 41), 5], "they have ended already"


def test_the_first_failure_is_raised_while_others_run(submit: Callable[..., Any], server: Server) -> None:
    (name,) = names(1)
    runs = submit(*held(server, name), ("add", {"left": 1}), ("fail", {"text": "so be it"}))
    with pytest.raises(il.RunEnded, match="so be it"):
        runs.gather()
    tell_to_go(server.folder, name)
    first, second, third = runs.gather(return_exceptions=True)
    assert (isinstance(first, int), second, type(third)) == (True, 2, il.RunFailed)
    assert isinstance(third.__cause__, il.RemoteError)
    assert (third.__cause__.type, third.__cause__.message) == ("RuntimeError", "so be it")


def test_handles_come_as_their_runs_end(submit: Callable[..., Any], server: Server) -> None:
    order = names(3)
    runs = submit(*held(server, *order))
    ended = runs.as_completed()
    for place in (1, 2, 0):
        tell_to_go(server.folder, order[place])
        handle = next(ended)
        assert handle is runs.handles[place]
        assert runs.result(handle) >= 1
    with pytest.raises(StopIteration):
        next(ended)


def test_a_reader_may_leave_early(submit: Callable[..., Any], server: Server) -> None:
    (name,) = names(1)
    runs = submit(("add", {"left": 1}), *held(server, name))
    ended: Any = runs.as_completed()
    assert next(ended) is runs.handles[0]
    ended.close()
    tell_to_go(server.folder, name)
    assert len(runs.gather()) == 2


async def test_no_handles_have_no_results() -> None:
    assert await il.gather() == []
    assert [run async for run in il.as_completed(list[il.RunHandle[int]]())] == []
    assert il.gather(*list[il.BlockingRunHandle[int]]()) == []
    assert list(il.as_completed(list[il.BlockingRunHandle[int]]())) == []


@pytest.mark.parametrize(
    ("handles", "says"),
    [
        (["run-1"], "handles[0]: 'str' is not a handle"),
        ([[]], "handles[0]: 'list' is not a handle; give the values of submit, and a list as *handles"),
        ([None], "handles[0]: 'NoneType' is not"),
        ([app.definitions["echo"]], "handles[0]: 'Definition' is not"),
        ([il.Client("http://host:1").handle("a"), 5], "handles[1]: 'int' is not"),
        ([il.Client("http://host:1").handle("a"), il.Client("http://host:2").handle("b")], "come from several"),
        ([il.Client("http://host:1").handle("a"), il.AsyncClient("http://host:1").handle("b")], "come from several"),
    ],
)
def test_anything_but_handles_of_one_client_is_refused(handles: list[Any], says: str) -> None:
    for wait in (lambda given: il.gather(*given), il.as_completed):
        with pytest.raises(il.InterlockError) as caught:
            wait(handles)
        assert caught.value.code == "bad_value"
        assert says in str(caught.value)


@pytest.mark.parametrize("job", [add.call(1), flaky.call(1), flaky.call(9)], ids=["succeeded", "retried", "failed"])
async def test_handles_of_apps_and_clients_show_the_same(server: Server, job: il.Call[int]) -> None:
    async with app.connected(str(server.socket)), il.AsyncClient(server.url) as client:
        ours = await app.submit(job)
        theirs = client.handle(ours.id)

        async def both(method: str) -> list[Any]:
            return [await getattr(run, method)() for run in (ours, theirs)]

        def shown(value: Any) -> bytes:
            """Return a value as HTTP shows it: times have milliseconds there."""
            return encode(value)

        assert await ours.wait("30s") is await theirs.wait("30s")
        assert {name for name in dir(ours) if name[0] != "_"} == {
            name for name in dir(il.Client(server.url).handle(ours.id)) if name[0] != "_"
        }
        for method in ("info", "history", "logs", "stats", "state", "cancel"):
            one, other = await both(method)
            assert shown(one) == shown(other)
        results = await asyncio.gather(ours.result(), theirs.result(), return_exceptions=True)
        assert repr(results[0]) == repr(results[1])
        streams = app.events(run=ours.id), client.events(run=ours.id)
        one, other = [[event async for event in stream] for stream in streams]
        assert one == other, "both end with the run"
        assert isinstance(one[-1][1], il.RunEvent)


async def test_payload_and_result_of_a_run_with_secrets(server: Server) -> None:
    async with app.connected(str(server.socket)), il.AsyncClient(server.url) as client:
        run = await app.submit("echo", {"value": {"api_key": "k", "n": 1}})
        await run.result("30s")
        for info in (await run.info(), await client.handle(run.id).info()):
            assert (info.payload, info.result["n"]) == ({"value": {"api_key": "•••", "n": 1}}, 1)


async def test_the_events_of_an_app(server: Server, folder: Path) -> None:
    with pytest.raises(il.NotConnected):
        app.events()
    async with app.connected(str(server.socket)):
        stream = app.events(types=["run"])
        hello = await anext(stream)
        assert isinstance(hello[1], il.HelloEvent)
        run = await app.submit(echo.call(1))
        async for cursor, event in stream:
            if isinstance(event, il.RunEvent) and event.run_id == run.id and event.state is il.State.SUCCEEDED:
                assert cursor is not None
                break
        with pytest.raises(TypeError):
            app.events(runs=run.id)  # type: ignore[call-arg]
        with pytest.raises(il.UnknownRun):
            await anext(app.events(run="nothing"))
    alone = folder / "alone.sock"
    alone.symlink_to(server.socket)
    async with app.connected(str(alone)):
        with pytest.raises(il.NotRunning, match="http='local'"):
            app.events()
    alone.unlink()


# ── a run for each item ─────────────────────────────────────────────────────────────────────────────────────────────


def mapped(server: Server, *arguments: Any, **options: Any) -> list[Any]:
    """The results of a whole map."""

    async def body() -> list[Any]:
        async with app.connected(str(server.socket)):
            return [value async for value in app.map(*arguments, **options)]

    return run_async(body())


def test_thousands_of_items_keep_their_order(server: Server) -> None:
    items = ({"left": number, "right": 2} for number in range(COUNT))
    assert mapped(server, add, items, max_parallel=300) == list(range(2, COUNT + 2))


@pytest.mark.parametrize("job", [add, "add", add.options(lane="cron")])
def test_an_item_is_an_argument_or_arguments_or_a_call(server: Server, job: Any) -> None:
    assert mapped(server, job, [1, {"left": 2, "right": 5}, add.call(3), add.options(key=f"{uuid4()}").call(4)]) == [
        2, 7, 4, 5,
    ]  # fmt: skip
    assert mapped(server, job, []) == []


def test_payloads_that_fill_several_submits(server: Server) -> None:
    text = "x" * 1_000_000
    assert mapped(server, echo, [text] * 40, max_parallel=40) == [text] * 40


async def test_only_so_many_runs_are_live(server: Server) -> None:
    session, order = str(uuid4()), names(5)
    items = [{"folder": str(server.folder), "name": name} for name in order]
    async with app.connected(str(server.socket)), il.AsyncClient(server.url) as client:
        room: il.SessionFields = {"max_concurrent": 2, "debounce": 0}
        results = app.map(hold.options(session=session, session_options=room), items, max_parallel=2)

        async def created() -> int:
            return len([run async for run in client.runs(session=session)])

        async def started(place: int) -> None:
            await until(lambda: lines_of(server.folder / f"{order[place]}.started"), "it runs")

        first = asyncio.ensure_future(anext(results))
        for place in (1, 2, 3):
            # The first item is awaited; the window moves on with the others.
            await started(place)
            assert await created() == place + 1
            tell_to_go(server.folder, order[place])
        assert not first.done()
        for place in (4, 0):
            await started(place)
            tell_to_go(server.folder, order[place])
        assert len([await first, *[value async for value in results]]) == 5


async def test_a_failed_item_is_named_and_nothing_more_is_submitted(server: Server) -> None:
    session = str(uuid4())
    async with app.connected(str(server.socket)), il.AsyncClient(server.url) as client:
        results = app.map(flaky.options(session=session), [0, 1, 9, *[0] * 500], max_parallel=1)
        assert [await anext(results), await anext(results)] == [1, 2]
        with pytest.raises(il.ItemFailed, match=r"items\[2\]: .*RuntimeError: attempt 4") as caught:
            await anext(results)
        assert (caught.value.code, caught.value.index) == ("item_failed", 2)
        assert isinstance(caught.value.__cause__, il.RunEnded)
        assert len([run async for run in client.runs(session=session)]) == 3


async def test_an_item_that_fits_no_run_is_named(server: Server) -> None:
    async with app.connected(str(server.socket)):
        results = app.map(add, [1, "x", 3])
        assert await anext(results) == 2
        with pytest.raises(il.ItemFailed, match=r"items\[1\]: payload of 'add': argument 'left'") as caught:
            await anext(results)
        assert getattr(caught.value.__cause__, "code", None) == "bad_payload"


def test_errors_stand_in_the_places_of_results(server: Server) -> None:
    found = mapped(server, flaky, ["x", 0, 9, 1], max_parallel=2, return_exceptions=True)
    assert [one if isinstance(one, int) else one.code for one in found] == ["bad_payload", 1, "run_not_succeeded", 2]
    assert len(mapped(server, add, ["x"] * 500, max_parallel=1, return_exceptions=True)) == 500


def test_a_map_with_a_key_takes_the_runs_of_the_first(server: Server, folder: Path) -> None:
    job = counted.options(key=str(uuid4()))
    items = [{"folder": str(folder), "name": f"{number}"} for number in range(5)]
    assert mapped(server, job, items[:3]) == [1, 1, 1]
    assert mapped(server, job, items) == [1, 1, 1, 1, 1]
    assert [len(lines_of(folder / f"{number}")) for number in range(5)] == [1] * 5


@pytest.mark.parametrize(
    ("job", "options", "says"),
    [
        ("add", {"max_parallel": 0}, "max_parallel: 0 is not a whole number from 1 to 10,000"),
        ("add", {"max_parallel": True}, "max_parallel: True"),
        ("add", {"max_parallel": "5"}, "max_parallel: '5'"),
        (5, {}, "job: 5 is not a job, the options(...) of a job, or the id of one"),
        (add.call(5), {}, "is not a job"),
    ],
)
def test_a_map_that_cannot_be_is_refused_at_once(job: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        app.map(job, [1], **options)
    assert caught.value.code == "bad_value"
    assert says in str(caught.value)


def test_a_map_of_an_unknown_job_is_refused(server: Server) -> None:
    with pytest.raises(il.InterlockError, match="did you mean 'add'") as caught:
        mapped(server, "ad", [{"left": 1}])
    assert caught.value.code == "unknown_job"
