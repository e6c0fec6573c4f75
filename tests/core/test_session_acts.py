"""Acts on sessions: their answers, their events, the list of sessions, and retries of their runs."""

from typing import Any

import msgspec
import pytest

from interlock.core.decisions import Failed
from interlock.core.sessions.session import Sessions, page
from interlock.core.state import CoreLimits
from interlock.error import QueueFull
from interlock.model.bulk import RunAction
from interlock.model.job import Job, Priority
from interlock.model.lane import LaneAction, LaneEvent
from interlock.model.run import RunFilter
from interlock.model.session import SessionAction
from interlock.model.session_info import ActedOnSession, SessionEvent
from interlock.model.state import State
from interlock.wire.lane_request import ActOnLane, CreateLane, LaneChangeBody, SetLane
from interlock.wire.request import NewRun, StartBulk, ValueAnswer
from interlock.wire.run_request import RetryRun
from interlock.wire.session_request import ActOnSession, AskSessions
from tests.core.machine import Machine, acted_on, at_once

AT_ONCE = CoreLimits(session_patterns={"*": {"debounce": 0.0}})
STOP, STOP_ALL, RESET, PAUSE, RESUME = SessionAction


@pytest.fixture
def machine() -> Machine:
    m = Machine(limits=AT_ONCE)
    m.worker_up()
    return m


def act(m: Machine, action: SessionAction, key: str = "chat", tenant: str = "default") -> ActedOnSession:
    answer = m.step(("client", ActOnSession(7, key, action, tenant).by(actor="ann"))).answers[-1][1]
    assert isinstance(answer, ValueAnswer), answer
    assert isinstance(answer.value, ActedOnSession)
    return answer.value


def events(m: Machine, log: str = "@sessions:default") -> list[Any]:
    kind = LaneEvent if log == LaneEvent.log else SessionEvent
    return [msgspec.json.decode(row.text, type=kind) for row in at_once(m.store.service_log(log))]


@pytest.mark.behaviour("SES-5", "SES-7")
@pytest.mark.parametrize(
    ("action", "is_idle", "acted", "is_event", "shown"),
    [
        (STOP, False, True, True, {"active": 1, "waiting": 1}),
        (STOP, True, False, False, {"active": 0}),
        (STOP_ALL, False, True, True, {"active": 1, "waiting": 0}),
        (STOP_ALL, True, False, True, {"active": 0}),
        (RESET, False, True, True, {"active": 0, "waiting": 0, "generation": 1}),
        (RESET, True, True, True, {"generation": 1}),
        (PAUSE, False, True, True, {"active": 1, "waiting": 1, "paused": True}),
        (PAUSE, True, True, True, {"paused": True}),
        (RESUME, False, False, False, {"active": 1, "waiting": 1, "paused": False}),
        (RESUME, True, False, False, {"paused": False}),
    ],
)
def test_an_act_is_answered_with_the_session_and_is_an_event(
    machine: Machine, action: SessionAction, is_idle: bool, acted: bool, is_event: bool, shown: dict[str, Any]
) -> None:
    if not is_idle:
        machine.running(session="chat")
        machine.submit(session="chat")
    report = act(machine, action)
    assert report.acted is acted
    assert msgspec.to_builtins(report.session) | shown == msgspec.to_builtins(report.session)
    assert report.session.cutoff == (machine.wall if action is STOP_ALL else None)
    expected = SessionEvent(
        session="chat", tenant="default", at=machine.wall, action=action, actor="ann", after=report.session
    )
    assert events(machine) == ([expected] if is_event else [])


@pytest.mark.behaviour("SES-5")
def test_a_second_stop_of_a_run_that_is_stopping_acts_on_nothing(machine: Machine) -> None:
    machine.running(session="chat")
    assert [act(machine, STOP).acted, act(machine, STOP).acted] == [True, False]


@pytest.mark.behaviour("SES-5", "SES-7")
@pytest.mark.parametrize(("action", "acted"), [(STOP, False), (STOP_ALL, True), (RESET, True)])
def test_an_act_leaves_a_run_alone_that_ends_in_the_same_pass(
    machine: Machine, action: SessionAction, acted: bool
) -> None:
    first, second = machine.running(session="chat"), machine.submit(session="chat")
    done = machine.step(machine.finish_command(first), ("client", ActOnSession(7, "chat", action)))
    report = done.answers[-1][1]
    assert isinstance(report, ValueAnswer), (report, done.problems)
    assert (report.value.acted, report.value.session.active) == (acted, 0)
    assert machine.state_of(first) is State.SUCCEEDED
    assert machine.state_of(second) is (State.DISPATCHED if action is STOP else State.CANCELLED)


@pytest.mark.behaviour("SES-10")
def test_acts_on_idle_sessions_stay_without_memory(machine: Machine) -> None:
    for action in (STOP_ALL, RESET, PAUSE):
        act(machine, action)
    assert not machine.state.of(Sessions)
    machine.restart()
    run_id = machine.submit(session="chat", stamp=machine.wall - 1)
    assert machine.run(run_id).reason == "message_stale"
    waiting = machine.submit(session="chat")
    assert machine.state_of(waiting) is State.SCHEDULED
    report = act(machine, RESUME)
    assert (report.acted, report.session.generation, report.session.active) == (True, 1, 1)
    assert [one.action for one in events(machine)] == [STOP_ALL, RESET, PAUSE, RESUME]


@pytest.mark.behaviour("SES-5")
@pytest.mark.parametrize(
    ("key", "tenant", "field"), [("", "default", "session"), ("é" * 257, "default", "session"), ("a", "a b", "tenant")]
)
def test_a_bad_key_or_tenant_is_refused(machine: Machine, key: str, tenant: str, field: str) -> None:
    decisions = machine.step(("client", ActOnSession(7, key, PAUSE, tenant)))
    answer = decisions.answers[-1][1]
    assert isinstance(answer, Failed)
    assert (answer.error.code, str(answer.error).partition(":")[0]) == ("bad_value", field)
    assert not decisions.batch


@pytest.mark.behaviour("SES-10")
def test_the_list_has_sessions_with_runs_in_pages(machine: Machine) -> None:
    keys = [("blue", "a"), ("default", "a/b"), ("default", "é:1"), ("red", "a")]
    for tenant, key in reversed(keys):
        machine.submit(tenant=tenant, session=key)
    machine.finished(machine.running(session="ended"))

    def found(tenant: str | None, after: tuple[str, str] | None, limit: int) -> tuple[list[tuple[str, str]], bool]:
        cursor = None if after is None else "k" + "/".join(after)
        question = msgspec.structs.replace(AskSessions(7, tenant, limit), cursor=cursor)
        found = page(question, machine.state, machine.now).value
        last = found.sessions[-1] if found.next is not None else None
        assert last is None or found.next == f"k{last.tenant}/{last.key}"
        return [(session.tenant, session.key) for session in found.sessions], last is not None

    assert found(None, None, 100) == (keys, False)
    assert found(None, None, 3) == (keys[:3], True)
    assert found(None, keys[2], 3) == (keys[3:], False)
    assert found(None, ("default", "b"), 1) == (keys[2:3], True)
    assert found("default", None, 2) == (keys[1:3], False)
    assert found("nobody", None, 2) == ([], False)


def test_a_session_shows_its_wait_and_the_options_of_its_last_job() -> None:
    job = Job(id="work", sessions={"max_concurrent": 2, "cap": 5})
    m = Machine(job, limits=AT_ONCE)
    m.worker_up()
    m.submit(session="chat", session_options={"max_concurrent": 1, "rate": 10.0})
    m.submit(session="chat")
    m.advance(3.0)
    shown = page(AskSessions(7, limit=1), m.state, m.now).value.sessions[0]
    assert (shown.active, shown.waiting, shown.oldest_wait) == (1, 1, 3.0)
    assert (shown.max_concurrent, shown.cap, shown.debounce, shown.rate) == (1, 5, 0.0, "10/s")


@pytest.mark.behaviour("LAN-7")
def test_changes_of_lanes_are_events(machine: Machine) -> None:
    for command in (
        CreateLane(7, "gpu", 2).by(actor="ann"),
        CreateLane(7, "gpu", 9).by(actor="ann"),
        SetLane(7, "gpu", LaneChangeBody(limit=3)),
        SetLane(7, "gpu", LaneChangeBody(limit=3, rate=None)),
        SetLane(7, "gpu", LaneChangeBody()),
        SetLane(7, "main", LaneChangeBody(limit=30)),
        *(ActOnLane(7, "gpu", action) for action in LaneAction for _ in range(2)),
        ActOnLane(7, "nope", LaneAction.PAUSE),
    ):
        machine.step(("client", command))
    told = [(one.lane, one.action, one.actor, one.after.limit, one.after.status) for one in events(machine, "@lanes")]
    assert told == [
        ("gpu", "create", "ann", 2, "open"),
        ("gpu", "set", "client", 3, "open"),
        ("gpu", "pause", "client", 3, "paused"),
        ("gpu", "resume", "client", 3, "open"),
        ("gpu", "drain", "client", 3, "draining"),
    ]


# ── retries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def retry(m: Machine, run_id: str, in_bulk: bool) -> str:
    if not in_bulk:
        answer = m.step(("client", RetryRun(7, run_id))).answers[-1][1]
        return acted_on(answer).id
    m.step(("client", StartBulk(7, "bulk", RunAction.RETRY, RunFilter(), "again")))
    retried = m.run(run_id).facets
    assert retried is not None
    assert retried.retried_as is not None
    return retried.retried_as.run_id


@pytest.mark.behaviour("SES-5")
@pytest.mark.parametrize("in_bulk", [False, True])
def test_a_retry_has_the_session_and_its_options_but_not_the_stamp(machine: Machine, in_bulk: bool) -> None:
    options = {"cap": 3}
    old = machine.submit(
        session="chat", session_options=options, stamp=machine.wall - 9, priority=Priority.CRITICAL, tenant="red"
    )
    machine.finished(old, "failed_fatal")
    act(machine, STOP_ALL, tenant="red")
    machine.restart_with_worker()
    assert not machine.state.of(Sessions)
    run = machine.run(retry(machine, old, in_bulk))
    assert (run.session, run.tenant, run.session_facet.options, run.session_facet.stamp) == (
        "chat",
        "red",
        options,
        None,
    )
    assert run.facets is not None
    assert run.facets.priority is Priority.CRITICAL
    assert run.state is State.DISPATCHED


@pytest.mark.behaviour("SES-10")
@pytest.mark.parametrize("in_bulk", [False, True])
def test_a_retry_reads_the_memo_of_its_idle_session(machine: Machine, in_bulk: bool) -> None:
    old = machine.running(session="chat")
    machine.finished(old, "failed_fatal")
    act(machine, RESET)
    act(machine, PAUSE)
    assert not machine.state.of(Sessions)
    again = retry(machine, old, in_bulk)
    assert machine.state_of(again) is State.SCHEDULED
    report = act(machine, RESUME)
    assert (report.acted, report.session.generation, report.session.active) == (True, 1, 1)


@pytest.mark.behaviour("SES-3")
def test_a_retry_into_a_full_session_that_drops_new_runs_is_refused(machine: Machine) -> None:
    old = machine.running(session="chat", session_options={"cap": 1, "drop": "new"})
    machine.finished(old, "failed_fatal")
    for _ in range(2):
        machine.submit(session="chat")
    answer = machine.step(("client", RetryRun(7, old))).answers[-1][1]
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, QueueFull)


@pytest.mark.behaviour("SES-5")
@pytest.mark.parametrize(
    ("action", "stamp", "after"),
    [(PAUSE, None, State.SCHEDULED), (STOP_ALL, 5.0, State.CANCELLED), (STOP_ALL, None, State.DISPATCHED)],
)
def test_an_act_on_an_idle_session_counts_for_a_run_of_the_same_pass(
    machine: Machine, action: SessionAction, stamp: float | None, after: State
) -> None:
    new = NewRun("work", b"{}", session="chat", stamp=None if stamp is None else machine.wall - stamp)
    made = machine.step(("client", ActOnSession(7, "chat", action).by(actor="ann")), ("client", machine.command(new)))
    (run_id,) = made.changed
    assert machine.path(run_id)[-1] is after


def test_two_acts_of_one_pass_on_an_idle_session_both_count(machine: Machine) -> None:
    machine.step(*(("client", ActOnSession(7, "chat", one).by(actor="ann")) for one in (PAUSE, RESET)))
    machine.restart()
    machine.submit(session="chat")
    memo = machine.state.of(Sessions)["default", "chat"].memo
    assert (memo.paused, memo.generation) == (True, 1)


@pytest.mark.behaviour("SES-1", "SES-3")
def test_a_refused_run_changes_nothing_in_its_session(machine: Machine) -> None:
    first, *others = machine.submit_many(3, session="chat")
    given = {"max_concurrent": 2, "drop": "new", "cap": 1}
    refused = machine.ask(NewRun("work", b"{}", session="chat", session_options=given))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, QueueFull)
    machine.finished(first)
    assert [machine.state_of(one) for one in others] == [State.DISPATCHED, State.SCHEDULED]


@pytest.mark.behaviour("SES-3")
def test_a_run_that_cannot_join_those_of_another_job_is_refused_when_the_session_is_full() -> None:
    full = {"*": {"debounce": 10.0, "cap": 1, "drop": "new"}}
    machine = Machine(Job(id="work"), Job(id="other"), limits=CoreLimits(session_patterns=full))
    machine.submit("other", session="chat")
    refused = machine.ask(NewRun("work", b"{}", session="chat"))
    assert isinstance(refused, Failed)
    assert isinstance(refused.error, QueueFull)


@pytest.mark.behaviour("SES-5")
def test_a_new_message_is_fresh_even_if_the_clock_was_set_back_since_the_stop(machine: Machine) -> None:
    act(machine, STOP_ALL)
    machine.advance(10)
    machine.wall -= 60
    assert machine.state_of(machine.submit(session="chat")) is State.DISPATCHED


@pytest.mark.behaviour("SES-9")
def test_a_run_cancelled_before_a_full_lane_took_it_never_executes_and_the_rest_keep_their_order() -> None:
    many = {"*": {"debounce": 0.0, "max_concurrent": 10}}
    machine = Machine(lanes={"main": 1}, limits=CoreLimits(session_patterns=many))
    machine.worker_up()
    runs = [*machine.submit_many(4, session="chat"), machine.submit(session="other")]
    machine.cancel(runs[2])
    machine.restart_with_worker(held=[machine.held(runs[0])])
    left = [one for one in runs if one != runs[2]]
    for run_id in left:
        machine.finished(run_id)
    assert list(dict.fromkeys(machine.dispatched())) == left
