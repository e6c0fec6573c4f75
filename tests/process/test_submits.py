"""What a Python program may submit, what it is told when it may not, and that nothing changes then."""

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.fields.payload import LIMIT
from tests.helpers.jobs import app
from tests.helpers.places import run_async
from tests.helpers.server import Server

NAN = math.nan


def count_runs(server: Server) -> int:
    with closing(sqlite3.connect(server.database)) as connection:
        return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])


def refused(server: Server, job: Any, payload: Any, options: dict[str, Any]) -> il.InterlockError:
    """What a submit raises; it must leave no run."""

    async def body() -> il.InterlockError:
        async with app.connected(str(server.socket)):
            with pytest.raises(il.InterlockError) as caught:
                await app.submit(job, payload, **options)
            return caught.value

    before = count_runs(server)
    error = run_async(body())
    assert count_runs(server) == before
    assert "\n" not in str(error)
    return error


DEEP: list[Any] = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("job", "payload", "code", "says"),
    [
        ("ecko", None, "unknown_job", "did you mean 'echo'?"),
        ("", None, "unknown_job", "''"),
        (7, None, "bad_value", "job: 7"),
        ("add", None, "bad_payload", "argument 'left' is missing"),
        ("add", {"left": "one"}, "bad_payload", "argument 'left': expected int, got str"),
        ("add", {"left": 1, "rihgt": 2}, "bad_payload", "did you mean 'right'?"),
        ("add", [1, 2], "bad_payload", "Expected object, got array"),
        ("add", {"left": None}, "bad_payload", "argument 'left'"),
        ("echo", {"value": "x" * LIMIT}, "payload_too_large", "the limit is 1,048,576"),
        ("echo", {"value": NAN}, "not_json", "payload.value: nan"),
        ("echo", {"value": [1, math.inf]}, "not_json", "payload.value[1]: inf"),
        ("echo", {"value": "\ud800"}, "not_json", "lone surrogate"),
        ("echo", {"value": {"\ud800": 1}}, "not_json", "lone surrogate"),
        ("echo", {"value": {1: 2}}, "not_json", "a key must be a string, not int"),
        ("echo", {"value": datetime(2026, 1, 1, tzinfo=UTC)}, "not_json", "payload.value"),
        ("echo", {"value": b"bytes"}, "not_json", "a bytes"),
        ("echo", {"value": {1, 2}}, "not_json", "a set"),
        ("echo", {"value": 2**70}, "not_json", "64 bits"),
        ("echo", {"value": DEEP}, "not_json", "nested deeper"),
        ("echo", "text", "bad_payload", "Expected object, got str"),
    ],
)
def test_what_does_not_fit_is_refused(server: Server, job: Any, payload: Any, code: str, says: str) -> None:
    error = refused(server, job, payload, {})
    assert error.code == code
    assert says in str(error)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"delay": "soon"}, "bad_duration", "delay: 'soon'"),
        ({"delay": -1}, "bad_duration", "delay: -1"),
        ({"delay": "10 s"}, "bad_duration", "delay: '10 s'"),
        ({"delay": True}, "bad_duration", "delay: True"),
        ({"deadline": "1w"}, "bad_duration", "deadline: '1w'"),
        ({"deadline": NAN}, "bad_duration", "deadline: nan"),
        ({"deadline": datetime(2030, 1, 1)}, "bad_value", "a time with a time zone"),  # noqa: DTZ001 - refused for that
        ({"at": "tomorrow"}, "bad_value", "at: 'tomorrow'"),
        ({"at": 1e15}, "bad_value", "at: 1000000000000000.0"),
        ({"at": 2e9, "delay": 1}, "bad_value", "delay"),
        ({"at": 2e9, "occurrence": 2e9}, "bad_value", "occurrence"),
        ({"at": 2e9, "deadline": datetime(2029, 1, 1, tzinfo=UTC)}, "bad_value", "deadline"),
        ({"tenant": ""}, "bad_value", "tenant: ''"),
        ({"tenant": "a b"}, "bad_value", "tenant: 'a b'"),
        ({"session": ""}, "bad_value", "session: ''"),
        ({"lane": 3}, "bad_value", "lane: 3"),
        ({"idempotency_key": "x" * 300}, "bad_value", "idempotency_key"),
        ({"idempotency_key": 5}, "bad_value", "idempotency_key: 5"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(server: Server, options: dict[str, Any], code: str, says: str) -> None:
    error = refused(server, "echo", None, options)
    assert error.code == code
    assert says in str(error)


@pytest.mark.parametrize(
    ("define", "code", "says"),
    [
        (lambda: il.Retry(max_retries=-1), "bad_value", "retry.max_retries: -1"),
        (lambda: il.Retry(max_retries=1.5), "bad_value", "retry.max_retries: 1.5"),  # type: ignore[arg-type] # refused
        (lambda: il.Retry(max_retries=True), "bad_value", "retry.max_retries: True"),
        (lambda: il.Retry(multiplier=0.5), "bad_value", "retry.multiplier: 0.5"),
        (lambda: il.Retry(multiplier=NAN), "bad_value", "retry.multiplier: nan"),
        (lambda: il.Retry(jitter=2), "bad_value", "retry.jitter: 2"),
        (lambda: il.Retry(jitter="x"), "bad_value", "retry.jitter: 'x'"),  # type: ignore[arg-type] # refused
        (lambda: il.Retry(initial_delay="fast"), "bad_duration", "retry.initial_delay: 'fast'"),
        (lambda: il.Retry(max_delay=-2), "bad_duration", "retry.max_delay: -2"),
        (lambda: il.App().job("a", retry=3), "bad_value", "retry: 3"),  # type: ignore[arg-type] # refused
        (lambda: il.App().job("a b")(print_nothing), "bad_value", "id: 'a b'"),
        (lambda: il.App().job("a", lane="")(print_nothing), "bad_value", "lane: ''"),
        (lambda: il.App().job("a", max_runtime="long")(print_nothing), "bad_duration", "max_runtime: 'long'"),
        (lambda: il.App().job("a", deadline=0)(print_nothing), "bad_value", "deadline: 0"),
        (lambda: il.App().job("a", max_crashes=-1)(print_nothing), "bad_value", "max_crashes: -1"),
        (lambda: il.App().job("a", grace="-1s")(print_nothing), "bad_duration", "grace: '-1s'"),
        (lambda: il.App().job(print_nothing), "bad_handler", "@app.job('name')"),  # type: ignore[arg-type] # refused
        (lambda: il.App().job("a")(lambda *values: None), "bad_handler", "'values'"),
    ],
)
def test_definitions_that_make_no_sense_are_refused(define: Callable[[], Any], code: str, says: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        define()
    assert caught.value.code == code
    assert says in str(caught.value)


async def print_nothing() -> None:
    """A handler for definitions that are refused for other reasons."""


def test_a_job_defined_twice_names_both_places() -> None:
    twice = il.App()
    twice.job("one")(print_nothing)
    with pytest.raises(il.InterlockError, match=r"print_nothing and by .*print_nothing") as caught:
        twice.job("one")(print_nothing)
    assert caught.value.code == "duplicate_job"


@pytest.mark.behaviour("RUN-5")
async def test_an_occurrence_exists_once_and_ids_grow(server: Server) -> None:
    async with app.connected(str(server.socket)):
        fires = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
        runs = [await app.submit("echo", {"value": 1}, occurrence=fires) for _ in range(2)]
        assert {run.id for run in runs} == {f"echo:{int(fires.timestamp())}"}
        assert await runs[0].result(30) == 1
        assert (await app.submit("echo", {"value": 1}, occurrence=fires)).id == runs[0].id
        submitted = [run.id for run in await app.submit_many([("echo", None)] * 50)]
        submitted += [(await app.submit("echo")).id for _ in range(5)]
        assert submitted == sorted(set(submitted))


async def test_a_run_due_later_waits_for_its_time(server: Server) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("echo", {"value": 1}, delay="300ms")
        assert await run.state() is il.State.PRERUN
        assert await run.result(30) == 1
        stats = await run.stats()
        assert stats.seconds_in[il.State.PRERUN] >= 0.29


async def test_large_payloads_and_results_arrive_whole(server: Server) -> None:
    async with app.connected(str(server.socket)):
        text = "☃" * 300_000
        runs = [await app.submit(job, {"value": text}) for _ in range(10) for job in ("echo", "echo.thread")]
        for run in runs:
            assert await run.result(30) == text


async def test_without_a_scheduler_the_error_says_what_to_do(folder: Path) -> None:
    with pytest.raises(il.InterlockError, match="async with app") as caught:
        await app.submit("echo")
    assert caught.value.code == "not_connected"
    with pytest.raises(il.InterlockError, match="interlock up") as caught:
        async with app.connected(str(folder / "nothing.sock")):
            pass
    assert caught.value.code == "not_running"
