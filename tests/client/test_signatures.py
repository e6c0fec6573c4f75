"""Both clients have the same operations, for type checkers as for readers of `help`.

mypy --strict checks the first two functions (`make check`): the types that `assert_type` names, and by its
`warn_unused_ignores` that each call with a mistake is an error.
"""

import inspect
import json
import pydoc
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import pytest

import interlock as il
from interlock.api.openapi import document
from interlock.client.http.operations import Operations
from interlock.interface.run_view import BulkInfo, Event, HistoryEntry, RunDetail, RunInfo, ServiceLine
from interlock.model.child_info import ChildInfo
from interlock.model.job_info import JobInfo, Timetable
from interlock.model.lane import LaneInfo
from interlock.model.pool import WorkerInfo
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession
from interlock.wire.new_run import OPTIONS, RunOptions, TriggerOptions


def types_of_a_client(client: il.Client) -> None:
    run = assert_type(client.submit("a", {"x": 1}, lane="l", deadline="1h"), il.BlockingRunHandle[Any])
    assert_type(client.submit_many([("a", None)]), list[il.BlockingRunHandle[Any]])
    assert_type(client.trigger("a", session="s"), il.BlockingRunHandle[Any])
    assert_type(run.wait("30s"), il.State)
    assert_type(run.history(), list[HistoryEntry])
    assert_type(client.get("r"), RunDetail)
    assert_type(client.cancel("r", reason="why"), il.State)
    assert_type(client.act_on_many("hold", everything=True, job="a"), BulkInfo)
    assert_type(client.runs(state=["failed"], limit=5), Iterator[RunInfo])
    assert_type(client.events(run="r", complete=True), Iterator[tuple[str | None, Event]])
    assert_type(client.pause("a"), JobInfo)
    assert_type(client.timetable("2h", limit=5), Timetable)
    assert_type(client.tree(), ChildInfo)
    assert_type(client.lanes(), list[LaneInfo])
    assert_type(client.worker("w"), WorkerInfo)
    assert_type(client.workers(pool="p"), list[WorkerInfo])
    assert_type(client.act_on_lane("main", "pause"), LaneInfo)
    assert_type(client.act_on_session("s", SessionAction.STOP, tenant="a"), ActedOnSession)
    client.worker()  # type: ignore[call-arg]
    client.worker("w", actor="me")  # type: ignore[call-arg]
    client.workers(pool=5)  # type: ignore[arg-type]
    client.act_on_lane("main", 5)  # type: ignore[arg-type]
    assert_type(client.service_logs("web", follow=True), Iterator[ServiceLine])
    assert_type(client.put_job("a", run=print, schedule=il.every("1h"), retry=il.Retry(max_retries=1)), JobInfo)
    client.put_job("a", schedule="1h")  # type: ignore[arg-type]
    client.submit("a", lanes="l")  # type: ignore[call-overload]
    client.submit("a", delay=[])  # type: ignore[call-overload]
    client.runs(limit="5")  # type: ignore[arg-type]
    client.pause()  # type: ignore[call-arg]
    client.pause(5)  # type: ignore[arg-type]
    run.cancel(5)  # type: ignore[arg-type]


async def types_of_an_async_client(client: il.AsyncClient) -> None:
    run = assert_type(await client.submit("a", {"x": 1}, lane="l", deadline="1h"), il.RunHandle[Any])
    assert_type(await client.submit_many([("a", None)]), list[il.RunHandle[Any]])
    assert_type(await client.trigger("a", session="s"), il.RunHandle[Any])
    assert_type(await run.wait("30s"), il.State)
    assert_type(await client.get("r"), RunDetail)
    assert_type(client.runs(state=["failed"], limit=5), AsyncIterator[RunInfo])
    assert_type(client.events(run="r", complete=True), AsyncIterator[tuple[str | None, Event]])
    assert_type(await client.pause("a"), JobInfo)
    assert_type(client.service_logs("web", follow=True), AsyncIterator[ServiceLine])
    await client.submit("a", lanes="l")  # type: ignore[call-overload]
    client.runs(limit="5")  # type: ignore[arg-type]
    assert_type(await client.workers(), list[WorkerInfo])
    assert_type(await client.act_on_lane("main", "pause"), LaneInfo)
    await client.workers(pool=5)  # type: ignore[arg-type]


async def types_of_an_app(app: il.App) -> None:
    assert_type(await app.workers(), list[WorkerInfo])
    assert_type(await app.act_on_session("s", "stop"), ActedOnSession)


def methods(kind: type) -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(kind, callable) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "waiting"), [(il.Client, il.AsyncClient), (il.BlockingRunHandle, il.RunHandle)])
def test_both_have_the_same_methods_with_the_same_parameters(blocking: type, waiting: type) -> None:
    ours, theirs = methods(blocking), methods(waiting)
    assert ours.keys() == theirs.keys()
    for name in ours:
        one, other = inspect.signature(ours[name]), inspect.signature(theirs[name])
        assert list(one.parameters.values()) == list(other.parameters.values())
        assert not inspect.iscoroutinefunction(ours[name])
        assert ours[name].__name__ == name


def test_help_shows_signature_result_and_docstring() -> None:
    shown = pydoc.plain(pydoc.render_doc(il.Client))
    for pattern in (
        r"pause\(self, job_id: str\) -> interlock\.model\.job_info\.JobInfo\n",
        r"submit\(self, job: .*Call.*, payload: .*, \*\*options: .*RunOptions.*\) -> .*\.BlockingRunHandle\n",
        r"runs\(self, job: .*, limit: int = 50\) -> collections\.abc\.Iterator\[.*\.RunInfo\]\n",
        r"worker\(self, worker_id: str\) -> interlock\.model\.pool\.WorkerInfo\n",
        r"workers\(self, pool: .*str.* = None\) -> list\[.*\.WorkerInfo\]\n",
        r"Stop the schedule of the job until it is resumed\.",
    ):
        assert re.search(pattern, shown)
    assert all(method.__doc__ for method in methods(Operations).values())


@pytest.mark.behaviour("POL-8", "SEC-7")
@pytest.mark.parametrize("client", [il.App(), il.Client("http://127.0.0.1:1")], ids=["app", "client"])
@pytest.mark.parametrize("caller", ["actor", "only_tenant", "parent"])
def test_nobody_acts_in_the_name_of_another(client: Any, caller: str) -> None:
    for method, given in ((client.approve, ("r", "fine")), (client.cancel, ("r",)), (client.sessions, ())):
        with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{caller}'"):
            method(*given, **{caller: "ann"})


@pytest.mark.parametrize("name", ["origin", "now", "job_id"])
def test_what_is_no_option_is_no_keyword_of_a_submit(name: str) -> None:
    submit: Any = il.Client("http://127.0.0.1:1").submit
    with pytest.raises(TypeError, match=name):
        submit("job", {}, **{name: "trigger"})


def test_every_option_of_a_submit_is_a_keyword() -> None:
    assert OPTIONS.keys() == RunOptions.__annotations__.keys() - {"key"}
    assert set(TriggerOptions.__annotations__) == OPTIONS.keys() - {"at", "delay", "occurrence"}


@pytest.mark.parametrize("body", ["NewRunBody", "TriggerBody"])
def test_the_description_says_how_a_body_writes_a_time(body: str) -> None:
    fields: Any = document(False)["components"]["schemas"][body]["properties"]
    times = [name for name, field in fields.items() if '"date-time"' in json.dumps(field)]
    assert times == [name for name in ("at", "occurrence", "stamp") if name in fields]
    assert all(fields[name]["description"].endswith(" In RFC 3339, or seconds since 1970.") for name in times)
