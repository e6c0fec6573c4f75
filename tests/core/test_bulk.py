"""Bulk requests: one for many runs, in passes of bounded size, and finished after a restart."""

from typing import Any

import pytest

from interlock.core.bulk import requests as bulk
from interlock.core.bulk.table import Bulks
from interlock.core.decisions import Answer, Decisions, Failed
from interlock.core.state import CoreLimits
from interlock.core.step import Command
from interlock.error import BadValue, InterlockError
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.job import Job
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.wire.command import StartDraining
from interlock.wire.message import Stop
from interlock.wire.request import NewRun, StartBulk, ValueAnswer
from tests.core.machine import START, Machine

FIVE = CoreLimits(bulk_runs=5)


def machine(*jobs: Job, limits: CoreLimits = FIVE, **fields: Any) -> Machine:
    return Machine(*(jobs or (Job(id="work"), Job(id="other"))), limits=limits, **fields)


def request(bulk_id: str = "b1", number: int = 1, **wanted: Any) -> Command:
    return "client", StartBulk(number, bulk_id, RunAction.CANCEL, RunFilter(**wanted), "not needed", "ann")


def answer(decisions: Decisions) -> Answer:
    return decisions.answers[-1][1]


def stored(machine: Machine, bulk_id: str = "b1") -> BulkRequest:
    return machine.store.all_of(BulkRequest)[bulk_id]


def finish(machine: Machine) -> int:
    """Go on until no request is under way; how many passes that took."""
    passes = 0
    while machine.state.of(Bulks).walks:
        machine.step()
        passes += 1
    return passes


def counts(machine: Machine, bulk_id: str = "b1") -> tuple[int, int, int | None, bool]:
    found = stored(machine, bulk_id)
    return found.done, found.asked, found.left, found.ended_at is not None


@pytest.mark.behaviour("RUN-25", "RUN-10")
def test_one_request_ends_what_waits_and_asks_what_runs_a_part_in_each_pass() -> None:
    m = machine(lanes={"main": 2})
    m.worker_up()
    runs = m.submit_many(12)
    others = m.submit_many(3, "other")
    decisions = m.step(request(job_id="work"))
    started = answer(decisions)
    assert isinstance(started, ValueAnswer)
    assert (started.value.left, started.value.done) == (15, 0)
    assert counts(m) == (5, 0, 7, False), "the first pass acts on five, in the commit that accepts the request"
    assert len(decisions.ended) == 5
    # Others have their turn in between.
    between = m.submit()
    assert counts(m) == (10, 0, 2, False)
    assert finish(m) == 1
    assert counts(m) == (10, 2, 0, True)
    assert [m.state_of(one) for one in runs] == [State.DISPATCHED] * 2 + [State.CANCELLED] * 10
    assert [one.run_id for one in m.messages(Stop)] == [runs[1], runs[0]]
    for one in runs[:2]:
        m.finished(one, "cancelled")
    assert {m.state_of(one) for one in runs} == {State.CANCELLED}
    last = m.history(runs[5])[-1]
    assert (last.reason, last.actor) == ("not needed", "ann")
    assert State.CANCELLED not in {m.state_of(one) for one in [between, *others]}


@pytest.mark.behaviour("RUN-25")
def test_a_request_is_finished_however_often_the_scheduler_dies_and_counts_nothing_twice() -> None:
    m = machine(lanes={"main": 2}, limits=CoreLimits(bulk_runs=2))
    m.worker_up()
    before = m.submit_many(14)
    # Set back, the clock makes the runs that come later look older than the request.
    m.wall -= 500
    m.step(request(), ("client", m.command(NewRun("work", b"{}"))))
    deaths = 0
    while m.state.of(Bulks).walks:
        m.submit()
        m.restart()
        deaths += 1
    assert deaths == 3
    assert counts(m) == (12, 2, 0, True)
    assert {m.state_of(one) for one in before[2:]} == {State.CANCELLED}
    assert [m.run(one).stop for one in before[:2]] == ["cancel", "cancel"]
    later = [run for run in m.store.runs_by_id.values() if run.id not in before]
    assert len(later) == deaths + 1
    assert all(run.stop is None and run.ended_at is None for run in later)


@pytest.mark.behaviour("RUN-25")
def test_finished_requests_are_known_after_a_restart_and_nothing_is_done_again() -> None:
    m = machine()
    m.submit_many(2)
    m.step(request())
    assert counts(m) == (2, 0, 0, True)
    m.restart()
    run_id = m.submit()
    again = answer(m.step(request(number=7)))
    assert isinstance(again, ValueAnswer)
    assert (again.request, again.value) == (7, stored(m))
    assert not m.last.batch
    assert m.state_of(run_id) is State.SCHEDULED


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ({}, {"due", "later", "other", "blue", "session", "team", "running"}),
        ({"job_id": "other"}, {"other"}),
        ({"tenant": "blue"}, {"blue"}),
        ({"session": "s"}, {"session"}),
        ({"lane": "team"}, {"team"}),
        ({"states": frozenset({State.PRERUN, State.RUNNING})}, {"later", "running"}),
        ({"since": START + 5}, {"later"}),
        ({"until": START + 5, "tenant": "default", "job_id": "work"}, {"due", "session", "team", "running"}),
        ({"job_id": "nothing"}, set()),
    ],
)
def test_the_filter_is_that_of_lists(wanted: dict[str, Any], chosen: set[str]) -> None:
    m = machine()
    m.worker_up()
    runs = {"running": m.running()}
    m.worker_down()
    runs |= {
        "due": m.submit(),
        "other": m.submit("other"),
        "blue": m.submit(tenant="blue"),
        "session": m.submit(session="s"),
        "team": m.submit(lane="team"),
    }
    m.advance(10)
    runs["later"] = m.submit(at=START + 1000)
    m.step(request(**wanted))
    finish(m)
    touched = {name for name, one in runs.items() if m.state_of(one) is State.CANCELLED or m.run(one).stop is not None}
    assert touched == chosen


@pytest.mark.behaviour("RUN-10")
def test_what_is_being_stopped_is_not_asked_or_counted_again() -> None:
    m = machine()
    one, two = m.running(), m.running()
    m.cancel(one)
    m.step(request())
    assert counts(m) == (0, 1, 0, True)
    m.step(request("b2"))
    assert counts(m, "b2") == (0, 0, 0, True)
    assert [message.run_id for message in m.messages(Stop)] == [one, two]


def test_requests_take_turns() -> None:
    m = machine(Job(id="many"), Job(id="few"))
    m.submit_many(50, "many")
    few = m.submit_many(2, "few")
    m.step(request("b1", job_id="many"))
    m.step(request("b2", job_id="few"))
    m.step()
    assert {m.state_of(one) for one in few} == {State.CANCELLED}
    assert stored(m, "b1").ended_at is None
    finish(m)
    assert counts(m, "b1") == (50, 0, 0, True)


def test_a_pass_looks_at_a_bounded_number_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LOOKS", 10)
    m = machine()
    first = m.submit()
    m.submit_many(29, "other")
    m.step(request(job_id="work"))
    assert m.state_of(first) is State.SCHEDULED
    assert not m.step().batch, "nothing was found, so there is nothing to store"
    m.step()
    assert counts(m) == (1, 0, 0, True)


def refusal(decisions: Decisions) -> InterlockError:
    refused = answer(decisions)
    assert isinstance(refused, Failed)
    return refused.error


def test_ended_runs_cannot_be_cancelled() -> None:
    m = machine()
    m.submit()
    error = refusal(m.step(request(states=frozenset({State.FAILED, State.RUNNING}))))
    assert isinstance(error, BadValue)
    assert (error.field, error.value) == ("state", "failed")
    assert m.state.of(Bulks).requests == {}


def test_an_id_stands_for_one_request() -> None:
    m = machine()
    m.step(request(job_id="work"))
    error = refusal(m.step(request(job_id="other")))
    assert error.code == "idempotency_conflict"


def test_what_is_kept_of_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(bulk, "MOST_KEPT", 3)
    m = machine(limits=CoreLimits(bulk_runs=1))
    m.submit_many(40)
    m.step(request("a"))
    m.step(request("b"))
    error = refusal(m.step(request("c")))
    assert error.code == "overloaded"
    finish(m)
    for one in "cdef":
        m.step(request(one))
        finish(m)
    assert list(m.state.of(Bulks).requests) == list(m.store.all_of(BulkRequest)) == ["d", "e", "f"]


def test_while_it_drains_a_request_goes_on() -> None:
    m = machine()
    m.submit_many(7)
    m.step(("", StartDraining()))
    m.step(request())
    assert finish(m) == 1
    assert counts(m) == (7, 0, 0, True)
