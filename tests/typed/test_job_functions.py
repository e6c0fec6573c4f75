"""A function that is a job: it is called as before, submitted with its own arguments, and knows its result."""

import copy
import inspect
import pickle
from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.error import BadHandler, DuplicateJob
from interlock.model.job import Job
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from interlock.worker.definition import Definition
from tests.helpers.places import run_async
from tests.helpers.server import Server
from tests.typed.sample.jobs import Report, Style, app, halve, report, square

DAY = date(2026, 1, 2)
CONTEXT = Context(Dispatch("r", 1, "job", 1, b"{}", None, False, 1.0), lambda message: None)


def payload_of(call: il.Call[Any]) -> Any:
    return msgspec.json.decode(call.payload)


def test_it_is_called_as_the_function() -> None:
    assert square(3) == 9
    assert run_async(halve(3)) == 1.5
    assert (square.__name__, square.__doc__, square.id) == ("square", "Return the square of a number.", "square")
    assert list(inspect.signature(report).parameters) == ["ctx", "day", "pages", "style"]


def test_it_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(square)) is square
    assert copy.deepcopy(square) is square


@pytest.mark.parametrize(
    ("make", "payload"),
    [
        (lambda: report.call(DAY, 3, style=Style.LONG), {"day": "2026-01-02", "pages": 3, "style": "long"}),
        (lambda: report.call(day=DAY), {"day": "2026-01-02"}),
        (lambda: square.call(3), {"number": 3}),
    ],
)
def test_a_call_has_the_arguments_as_a_payload(make: Callable[[], il.Call[Any]], payload: object) -> None:
    assert payload_of(make()) == payload


def test_a_call_without_arguments_takes_the_payload_of_the_job() -> None:
    one = il.App()
    job = one.job("one", payload={"number": 5})(lambda number: number)
    assert job.call().new_run().payload == b""


def test_options_are_those_of_a_submit() -> None:
    now = 1_000_000.0
    new = report.options(delay="5m", key="k", lane="cron", deadline="1h").call(DAY).new_run(now)
    assert (new.delay, new.idempotency_key, new.lane, new.deadline) == (300.0, "k", "cron", now + 300 + 3600)
    assert report.call(DAY).new_run().delay is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'dealy'"):
        report.options(dealy="5m")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda: square.call(1, 2), "bad_payload", "2 arguments by position; at most 1"),  # type: ignore[call-arg]
        (lambda: square.call(1, number=2), "bad_payload", "'number' is given by position and by name"),  # type: ignore[misc]
        (lambda: square.call(numbre=1), "bad_payload", "did you mean 'number'?"),  # type: ignore[call-arg]
        (lambda: square.call("x"), "bad_payload", "expected int, got str"),  # type: ignore[arg-type]
        (lambda: report.call(pages=1), "bad_payload", "argument 'day' is missing"),  # type: ignore[call-arg]
        (lambda: report.call(DAY, 1, Style.LONG), "bad_payload", "by position"),  # type: ignore[call-arg]
        (lambda: report.call(object()), "not_json", "payload.day"),  # type: ignore[arg-type]
        (lambda: square.options(key="a", idempotency_key="b").call(1).new_run(), "bad_value", "key: "),
    ],
)
def test_a_wrong_call_is_refused_at_once(make: Callable[[], object], code: str, says: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        make()
    assert caught.value.code == code
    assert says in str(caught.value)


def test_two_jobs_of_one_name_are_refused_and_the_first_stays() -> None:
    one = il.App()
    first = one.job("same")(square)
    with pytest.raises(DuplicateJob, match=r"'same' is defined twice, by .*\.square and by .*\.halve"):
        one.job("same")(halve)
    assert one.definitions["same"].handler is square.function is first.function


def test_a_name_is_needed() -> None:
    with pytest.raises(BadHandler, match=r"use @app.job\('name'\)"):
        il.App().job(lambda: None)  # type: ignore[arg-type]


def test_a_function_may_be_several_jobs() -> None:
    one = il.App()
    twice = one.job("twice")(report)
    assert one.definitions["twice"].is_async
    assert (twice.id, report.id) == ("twice", "report")
    assert payload_of(twice.call(DAY)) == {"day": "2026-01-02"}


def test_a_job_file_may_name_a_function_that_is_a_job() -> None:
    definition = Definition(Job(id="other"), report)
    assert (definition.is_async, definition.where) == (True, report.function.__module__ + ".report")
    assert definition.arguments(b'{"day": "2026-01-02"}', CONTEXT) == {"ctx": CONTEXT, "day": DAY}


def test_a_secret_is_marked_and_not_shown() -> None:
    def log_in(password: il.Secret, others: list[il.Secret]) -> None: ...

    call = il.App().job("log_in")(log_in).call(il.Secret("hunter2"), [il.Secret("hunter3")])
    assert payload_of(call) == {"password": {"$secret": "hunter2"}, "others": [{"$secret": "hunter3"}]}
    assert "hunter" not in repr(call)


@pytest.mark.behaviour("EXE-6")
def test_jobs_are_submitted_with_their_arguments_and_return_their_types(server: Server) -> None:
    async def body() -> None:
        async with app.connected(str(server.socket)):
            runs = [
                await report.submit(DAY, pages=3),
                await report.options(key="once").submit(DAY, pages=3),
                await app.submit(report.call(DAY, pages=3)),
                *await report.submit_many([report.call(DAY, 3), {"day": DAY, "pages": 3}]),
                *await app.submit_many([report.call(DAY, 3)]),
            ]
            runs.append(await report.handle(runs[0].id))
            assert [await run.result("30s") for run in runs] == [Report(DAY, 3)] * 7
            again = await report.options(key="once").submit(DAY, pages=3)
            assert again.id == runs[1].id
            by_name = await app.submit("report", {"day": "2026-01-02"})
            assert await by_name.result("30s") == {"day": "2026-01-02", "pages": 1}
            with pytest.raises(il.InterlockError, match="payload: is part of the call"):
                await app.submit(report.call(DAY), {"day": DAY})  # type: ignore[call-overload]
        async with il.AsyncClient(f"unix:{server.http_socket}") as client:
            assert await (await client.submit(report.call(DAY))).result("30s") == Report(DAY, 1)

    run_async(body())
    with il.Client(f"unix:{server.http_socket}") as client:
        assert client.submit(square.options(lane="cron").call(3)).result("30s") == 9
        assert [run.result("30s") for run in client.submit_many([square.call(1), square.call(2)])] == [1, 4]
        with pytest.raises(il.InterlockError, match="delay: is part of the call"):
            client.submit(square.call(3), delay="5m")  # type: ignore[call-overload]
