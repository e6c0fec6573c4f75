"""What the clients do with jobs: the requests played by hand, and both of them against a real server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import FailedExchange
from interlock.config.job_documents import read_job
from interlock.interface.job_document import JobFields, document_of
from interlock.model.job import JOB_FIELDS
from interlock.model.run import CALL_KEY
from interlock.model.schedule.schedule import Schedule
from tests.client.faces import KINDS, Face, face
from tests.client.scripted import Pause, Played, policy
from tests.helpers.jobs import add, app, echo_process
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.scheduled import declare_jobs
from tests.helpers.server import Server


def first(operation: Any) -> Any:
    """What it asks for."""
    return next(operation)


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_trigger_says_only_what_it_was_told() -> None:
    request = first(Played(policy()).trigger("nightly"))
    assert (request.method, request.path, request.body) == ("POST", "/api/v1/jobs/nightly/trigger", b"{}")
    assert request.headers["Idempotency-Key"].startswith(CALL_KEY), "so that it can be repeated"
    told = first(Played(policy()).trigger("a", {"x": 1}, lane="l", deadline="5s", idempotency_key="k"))
    assert msgspec.json.decode(told.body or b"") == {
        "payload": {"x": 1}, "lane": "l", "deadline": 5.0, "idempotency_key": "k",
    }  # fmt: skip
    assert told.headers == {}
    with pytest.raises(TypeError, match="unexpected keyword argument 'at'"):
        first(Played(policy()).trigger("a", at=5))


def test_a_range_is_sent_in_seconds() -> None:
    texts = first(Played(policy()).backfill("a", "1970-01-01T00:00:05Z", "1970-01-01 00:01", payload={"x": 1}))
    times = first(Played(policy()).backfill("a", datetime.fromtimestamp(5, UTC), 60, payload={"x": 1}))
    assert msgspec.json.decode(texts.body or b"") == {"from": 5.0, "to": 60.0, "payload": {"x": 1}}
    assert texts == times
    for options, code in (({"max_parallel": 0}, "bad_value"), ({"payload": {"x": object()}}, "not_json")):
        with pytest.raises(il.InterlockError) as caught:
            first(Played(policy()).backfill("a", 5.0, 6.0, **options))
        assert caught.value.code == code


def test_a_removal_that_may_have_happened_is_not_repeated() -> None:
    removal = Played(policy()).delete_job("nightly")
    assert (first(removal).method, first(Played(policy()).delete_job("x")).once) == ("DELETE", True)
    with pytest.raises(il.InterlockError, match="it may have been done"):
        removal.send(FailedExchange("lost", OSError()))
    pausing = Played(policy()).pause("nightly")
    first(pausing)
    assert isinstance(pausing.send(FailedExchange("lost", OSError())), Pause), "that may be said twice"


@pytest.mark.parametrize(
    ("method", "arguments", "code", "names"),
    [
        ("job", ("",), "unknown_job", "''"),
        ("job", ("a/b",), "unknown_job", "'a/b'"),
        ("job", ("..",), "unknown_job", "'..'"),
        ("job", (5,), "bad_value", "job_id: 5"),
        ("next_times", ("a", 0, None), "bad_value", "count: 0"),
        ("next_times", ("a", 101, None), "bad_value", "count: 101"),
        ("next_times", ("a", True, None), "bad_value", "count: True"),
        ("next_times", ("a", 1, "noon"), "bad_value", "after: 'noon'"),
        ("next_times", ("a", 1, datetime(2030, 1, 1)), "bad_value", "time zone"),  # noqa: DTZ001 - that is the point
        ("schedule_times", (Schedule(once=True), 1, None), "bad_value", "once"),
        ("timetable", ("soon", 5), "bad_duration", "span: 'soon'"),
        ("timetable", ("1h", 0), "bad_value", "limit: 0"),
        ("job_log", ("a", 0), "bad_value", "limit: 0"),
        ("backfill", ("a", 5.0, "now"), "bad_value", "end: 'now'"),
        ("backfill", ("a", 5.0, -6.0), "bad_value", "end: -6.0"),
        ("put_job", ("a", {"run": {1, 2}}), "not_json", "definition.run"),
        ("put_job", ("a", [1]), "bad_value", "definition: 'list' is not a mapping of the fields of a job"),
        ("put_job", ("a", {"run": "re port"}), "bad_value", "run: 're port' is not"),
        ("put_job", ("a", {"run": lambda: None}), "bad_value", "run: "),
        ("put_job", ("a", {"run": partial(print)}), "bad_value", "run: "),
        ("put_job", ("a", {"payload": {"x": object()}}), "not_json", "definition.payload"),
        ("put_jobs", ([{"run": object()}],), "not_json", "definitions[0].run"),
        ("put_jobs", ([{}, "x"],), "bad_value", "definitions[1]: 'str'"),
        ("trigger", ("a", {"x": object()}), "not_json", "payload.x"),
    ],
)
def test_what_cannot_be_asked_is_not_sent(method: str, arguments: tuple[Any, ...], code: str, names: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        next(getattr(Played(policy()), method)(*arguments))
    assert caught.value.code == code
    assert names in str(caught.value)


# ── a real server ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def timed() -> Iterator[Server]:
    with clean_folder() as place:
        server = Server(place, str(declare_jobs(place)), "--drain", "1s", "--workers", "1", "--http", "local")
        with server:
            yield server


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, timed: Server) -> Iterator[Face]:
    with face(str(request.param), f"unix:{timed.http_socket}") as one:
        yield one


@pytest.mark.behaviour("TIM-12")
def test_a_job_of_an_app_gets_a_schedule_while_the_server_runs(client: Face) -> None:
    # Each client has a job of its own: occurrences of one job in the same second are one.
    later = "later-async" if "AsyncClient" in repr(client) else "later"
    put = client(
        "put_job", later, run=add, schedule=il.every(timedelta(hours=1), wait="30m"), payload={"left": 3},
        retry=il.Retry(max_retries=1, initial_delay="5s"), max_runtime=timedelta(minutes=2), lane="cron",
        constraints=il.Constraints(max_concurrent_runs=2),
    )  # fmt: skip
    assert (put.kind, put.command, put.schedule) == ("handler", "add", il.every("1h", wait="30m"))
    assert put.lane == "cron"
    assert put.max_concurrent_runs == 2
    assert client("trigger", later)("result", "30s") == 4
    client("put_job", later, {"run": "tests.helpers.jobs:add", "payload": {"left": 5}}, schedule=il.once())
    wait_until(lambda: client("job_log", later)[0].origin == "schedule", "it has fired", 30)
    assert client("handle", client("job_log", later)[0].id)("result", "30s") == 6
    tokyo = il.cron("0 2 * * *", tz="Asia/Tokyo")
    assert client("put_jobs", [{"id": later, "run": add, "schedule": tokyo, "payload": {"left": 7}}]) == [later]
    assert client("job", later).schedule == tokyo
    with pytest.raises(il.InterlockError, match="run: given twice"):
        client("put_job", later, {"run": add}, run=add)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shedule'"):
        client("put_job", later, run=add, shedule=il.once())
    client("delete_job", later)


@pytest.fixture(params=[*KINDS, "App"])
def putter(request: pytest.FixtureRequest, timed: Server) -> Iterator[Face]:
    if request.param != "App":
        with face(request.param, f"unix:{timed.http_socket}") as one:
            yield one
        return
    with asyncio.Runner() as runner:
        connected = app.connected(str(timed.socket))
        runner.run(connected.__aenter__())
        yield Face(app, runner)
        runner.run(connected.__aexit__(None, None, None))


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize("run", ["echo.process", echo_process, {"job": "echo.process"}])
def test_a_job_of_the_app_is_put_by_its_id(putter: Face, run: Any) -> None:
    put = putter("put_job", "nightly-echo", run=run, schedule=il.cron("0 2 * * *"), payload={"value": 5}, lane="cron")
    assert (put.id, put.kind, put.command, put.lane) == ("nightly-echo", "handler", "echo.process", "cron")
    assert putter("submit", "nightly-echo")("result", "30s")[0] == 5
    putter("delete_job", "nightly-echo")


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({"run": "ad"}, "bad_value", "run.job: 'ad' is not a job of the server's app; did you mean 'add'?"),
        ({"run": "manual"}, "bad_value", "run.job: 'manual' is not a job of the server's app"),
        ({"run": {"job": "a b"}}, "bad_config", "run.job: 'a b' is not"),
        ({"run": {"job": "add", "shell": "true"}}, "bad_config", "run: "),
        ({"run": "add", "payload": {"lft": 1}}, "bad_payload", "payload of 'wrong'"),
        ({"run": "add", "schedule": il.every("1h")}, "bad_payload", "payload of 'wrong'"),
        ({"run": "add", "cwd": "/tmp"}, "bad_config", "cwd: "),
    ],
)
def test_a_job_that_does_not_fit_one_of_the_app_is_refused(
    putter: Face, fields: dict[str, Any], code: str, says: str
) -> None:
    with pytest.raises(il.InterlockError) as caught:
        putter("put_job", "wrong", **fields)
    assert caught.value.code == code
    assert says in str(caught.value)
    with pytest.raises(il.UnknownJob):
        putter("submit", "wrong")


@pytest.mark.behaviour("TIM-12")
def test_the_secrets_of_a_function_stay_secret_in_a_job_that_is_put(putter: Face) -> None:
    putter("put_job", "confide", run="keep.secret", payload={"value": "hush"})
    run = putter("submit", "confide")
    assert run("wait", "30s") is il.State.SUCCEEDED
    assert run("info").payload == {"value": "•••"}
    assert "hush" not in repr(run("logs"))
    with pytest.raises(il.BadPayload):
        putter("submit", "confide", {"valeu": "hush"})
    putter("delete_job", "confide")


def test_the_fields_of_a_job_are_those_of_a_document() -> None:
    assert JobFields.__annotations__.keys() | {"id"} == JOB_FIELDS.keys()


@pytest.mark.parametrize("schedule", [il.cron("@daily"), il.every("90s"), il.at(2e9, keep=True), il.once("5s")])
def test_schedules_and_retries_arrive_as_they_are(schedule: Schedule) -> None:
    retry = il.Retry(max_retries=4, max_delay="5m", jitter=0.5)
    body = json.loads(document_of({"run": add}, {"schedule": schedule, "retry": retry}))
    job = read_job(body, "a")
    assert (job.schedule, job.retry) == (schedule, retry)


@pytest.mark.parametrize("start", [["main.py"], ["-m", "main"]])
def test_a_function_of_the_main_program_is_named_so_that_workers_find_it(start: list[str], folder: Path) -> None:
    (folder / "main.py").write_text(
        "from interlock.interface.job_document import function_name\ndef work(): ...\nprint(function_name(work))\n"
    )
    said = subprocess.run([sys.executable, *start], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert said.strip() == ("main:work" if "-m" in start else f"{folder}/main.py:work")
