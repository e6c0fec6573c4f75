"""Events: kept until a step reads them, once and in order, whoever comes first."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from interlock.core.decisions import Answer, Decisions, Failed
from interlock.core.effects import PendingEffects
from interlock.core.explain import explain
from interlock.core.recovery.sweep import PendingMoves, why_missed
from interlock.core.step import Command
from interlock.model.bulk import ActedOn
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import OnError, Send, Then
from interlock.wire.event_request import SendEvent
from tests.core.flows import FlowMachine, flow, step
from tests.core.machine import acted_on
from tests.core.test_sweep import swept

PAID = flow(step("a"), step("paid", event="paid", timeout=60.0), result="${steps.paid.result}")
TWICE = flow(step("one", event="e"), step("two", event="e"), result=["${steps.one.result}", "${steps.two.result}"])


class EventMachine(FlowMachine):
    told: list[Answer] = []

    def _pass(self, commands: Sequence[Command]) -> Decisions:
        decisions = super()._pass(commands)
        self.told += [answer for _, answer in decisions.answers]
        return decisions

    def send(self, run_id: str, name: str, value: Any = None, **fields: Any) -> ActedOn:
        request = SendEvent(7, name, msgspec.json.encode(value), run_id, actor="ann", **fields)
        self.told = []
        self.step(("client", request))
        (answer,) = self.told
        if isinstance(answer, Failed):
            raise answer.error
        return acted_on(answer)

    def refusal(self, run_id: str, name: str = "e", value: Any = None, **fields: Any) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the text is checked
            self.send(run_id, name, value, **fields)
        return str(caught.value)

    def events(self, run_id: str) -> list[Run]:
        return [run for run in self.store.runs_by_id.values() if run.id.startswith(f"{run_id}@event.")]


@pytest.mark.behaviour("WFL-1", "WFL-10")
def test_a_step_waits_for_an_event_and_its_value_is_the_result() -> None:
    machine = EventMachine(PAID)
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    assert machine.live(run_id) == ["event.paid.1"]
    text = explain(machine.state, machine.run(f"{run_id}@event.paid.1"), machine.now).sentence
    assert f"waits for the event 'paid'; send it with: interlock event {run_id} paid" in text
    sent = machine.send(run_id, "paid", {"cents": 5})
    assert (sent.id, sent.state) == (f"{run_id}@event.paid.1", State.SUCCEEDED)
    assert machine.run(sent.id).actor == "ann"
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.SUCCEEDED, {"cents": 5})


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("value", ["early", "x" * 1000])
def test_an_event_that_comes_before_its_wait_is_kept(restarts: bool, value: str) -> None:
    machine = EventMachine(PAID)
    run_id = machine.begin()
    machine.send(run_id, "paid", value)
    assert machine.live(run_id) == ["a"]
    if restarts:
        machine.restart_with_worker()
    machine.done(f"{run_id}@a")
    assert machine.result_of(run_id) == value
    assert len(machine.events(run_id)) == 1


@pytest.mark.behaviour("WFL-10")
def test_events_of_a_name_are_read_in_order_and_once() -> None:
    machine = EventMachine(TWICE)
    run_id = machine.begin()
    machine.send(run_id, "other", 0)
    machine.send(run_id, "e", 1)
    machine.restart()
    machine.send(run_id, "e", 2)
    assert machine.result_of(run_id) == [1, 2]


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_event_for_a_workflow_that_has_not_begun_is_kept(restarts: bool) -> None:
    machine = EventMachine(TWICE, lanes={"main": 1})
    run_id = machine.begin(delay=10.0)
    machine.send(run_id, "e", 1)
    if restarts:
        machine.restart()
    machine.send(run_id, "e", 2)
    assert machine.state_of(run_id) is State.PRERUN
    machine.advance(10)
    assert machine.result_of(run_id) == [1, 2]


@pytest.mark.behaviour("WFL-10")
def test_an_event_that_comes_while_the_record_is_read_waits_for_it() -> None:
    machine = EventMachine(TWICE)
    run_id = machine.begin()
    machine.send(run_id, "e", 1)
    machine.holds_answers = True
    machine.restart()
    decisions = machine.step(("client", SendEvent(8, "e", b"2", run_id, own_key="k")))
    assert decisions.answers == []
    machine.holds_answers = False
    machine.step()
    assert machine.result_of(run_id) == [1, 2]
    machine = EventMachine(TWICE)
    assert machine.send(machine.begin(), "e", 1, own_key="k").state is State.SUCCEEDED


@pytest.mark.behaviour("WFL-10", "REC-4")
def test_a_workflow_that_sends_to_one_whose_record_is_read_is_not_missed() -> None:
    to_other = Send(to="${input.to}", name="e", value=1)
    machine = EventMachine(TWICE, flow(step("tell", send=to_other), id="errand"))
    run_id = machine.begin()
    machine.holds_answers = True
    machine.restart()
    errand = machine.submit("errand", msgspec.json.encode({"to": run_id}))
    machine.advance(1.0)
    coming = PendingMoves(machine.state, machine.now, slack=0.0, patience=0.0)
    assert why_missed(coming, machine.run(errand)) is None
    machine.holds_answers = False
    machine.step()
    assert machine.state_of(errand) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-10")
def test_a_workflow_that_sends_to_one_that_ends_before_its_record_is_read_goes_on() -> None:
    to_other = Send(to="${input.to}", name="e", value=1)
    machine = EventMachine(TWICE, flow(step("tell", send=to_other), id="errand"))
    run_id = machine.begin()
    machine.holds_answers = True
    machine.restart()
    errand = machine.submit("errand", msgspec.json.encode({"to": run_id}))
    machine.cancel(run_id)
    assert machine.state_of(run_id) is State.CANCELLED
    assert machine.state_of(errand) is State.FAILED


@pytest.mark.behaviour("WFL-10")
def test_an_event_with_a_key_happens_once() -> None:
    machine = EventMachine(TWICE)
    run_id = machine.begin()
    first = machine.send(run_id, "e", 1, own_key="k")
    machine.restart()
    assert machine.send(run_id, "e", 1, own_key="k") == first
    assert "was used for run" in machine.refusal(run_id, "e", 2, own_key="k")
    assert len(machine.events(run_id)) == 2  # the one that came, and the wait for the next
    machine.send(run_id, "e", 2, own_key="other")
    assert machine.send(run_id, "e", 2, own_key="other").id == f"{run_id}@event.e.2"
    assert machine.result_of(run_id) == [1, 2]


@pytest.mark.behaviour("WFL-10")
def test_a_wait_has_a_limit_and_an_event_after_it_is_for_the_next_wait() -> None:
    late = step("late", event="e", timeout=5.0, on_error=OnError(then=Then.CONTINUE))
    machine = EventMachine(flow(late, step("next", event="e"), result="${steps.next.result}"))
    run_id = machine.begin()
    machine.advance(5)
    assert machine.state_of(f"{run_id}@event.e.1") is State.TIMEOUT
    machine.send(run_id, "e", "late")
    assert machine.result_of(run_id) == "late"


@pytest.mark.behaviour("WFL-10")
def test_an_event_in_the_pass_of_the_time_out_is_read() -> None:
    machine = EventMachine(flow(step("e", event="e", timeout=5.0), result="${steps.e.result}"))
    run_id = machine.begin()
    machine.wall, machine.elapsed = machine.wall + 5, machine.elapsed + 5
    machine.send(run_id, "e", "just in time")
    assert machine.result_of(run_id) == "just in time"


@pytest.mark.behaviour("WFL-10")
def test_events_that_nobody_can_read_are_refused() -> None:
    machine = EventMachine(flow(step("a")))
    run_id, plain = machine.begin(), machine.submit("work")
    machine.cancel(run_id)
    assert machine.refusal(run_id) == f"event: run {run_id!r} is to end as cancelled, and reads no more events"
    machine.done(f"{run_id}@a", outcome="cancelled")
    assert machine.refusal(run_id) == f"event: run {run_id!r} has ended as cancelled, and reads no more events"
    assert machine.refusal(plain) == f"run: {plain!r} is not a workflow, and reads no events"
    assert "'nothing' does not exist" in machine.refusal("nothing")


@pytest.mark.behaviour("WFL-10", "WFL-13")
def test_at_most_1000_unread_events() -> None:
    machine = EventMachine(flow(step("a"), step("b", event="e")))
    run_id = machine.begin()
    for number in range(1000):
        machine.send(run_id, f"e{number % 3}", number)
    assert "has 1,000 unread events, and takes no more until it has read one" in machine.refusal(run_id)
    machine.done(f"{run_id}@a")
    machine.send(run_id, "e", "somebody waits for this one")
    assert machine.state_of(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-10")
def test_an_event_finds_its_workflow_by_the_key_of_the_run_in_its_tenant() -> None:
    machine = EventMachine(TWICE)
    run_id = machine.begin(idempotency_key="order-1", tenant="acme")
    where = {"workflow": "flow", "key": "order-1"}
    assert machine.send("", "e", 1, tenant="acme", **where).id == f"{run_id}@event.e.1"
    refused = "event: no live run of workflow 'flow' has the key 'order-1' in tenant 'default'; start one, or ask"
    assert refused in machine.refusal("", **where)
    assert "no live run of workflow 'other'" in machine.refusal("", tenant="acme", **{**where, "workflow": "other"})


@pytest.mark.behaviour("WFL-10")
def test_or_start_starts_the_workflow_if_no_run_is_live() -> None:
    machine = EventMachine(flow(step("e", event="e"), result=["${input.n}", "${steps.e.result}"]))
    where = {"workflow": "flow", "key": "order-1", "start": b'{"n": 1}'}
    first = machine.send("", "e", "a", **where).id.partition("@")[0]
    assert machine.result_of(first) == [1, "a"]
    second = machine.send("", "e", "b", **where).id.partition("@")[0]
    assert first != second
    assert machine.result_of(second) == [1, "b"]
    refused = machine.refusal("", workflow="work", key="w", start=b"{}")
    assert refused == "workflow: 'work' is not a workflow, and reads no events"


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_the_key_of_an_event_counts_for_one_run_under_the_key_of_the_workflow(restarts: bool) -> None:
    machine = EventMachine(TWICE)
    where = {"workflow": "flow", "key": "order-1", "start": b"{}"}
    first = machine.send("", "e", 1, own_key="once", **where)
    machine.send("", "e", 2, **where)
    assert machine.state_of(first.id.partition("@")[0]) is State.SUCCEEDED
    assert machine.send("", "e", 1, own_key="once", **where) == first
    second = machine.send("", "e", 3, **where).id.partition("@")[0]
    if restarts:
        machine.restart()
    event = machine.send("", "e", 4, own_key="once", **where)
    assert event.id == f"{second}@event.e.2"
    assert machine.send("", "e", 4, own_key="once", **where) == event
    assert machine.result_of(second) == [3, 4]


@pytest.mark.behaviour("WFL-1", "WFL-10")
def test_a_step_sends_an_event_to_another_workflow() -> None:
    sender = flow(step("tell", send=Send(to="${input.to}", name="e", value={"from": "${run.id}"})), id="sender")
    machine = EventMachine(flow(step("e", event="e"), result="${steps.e.result}"), sender)
    run_id = machine.begin()
    by = machine.submit("sender", msgspec.json.encode({"to": run_id}))
    assert (machine.state_of(by), machine.result_of(run_id)) == (State.SUCCEEDED, {"from": by})
    assert machine.path(f"{by}@tell") == [State.UNDER_WAY, State.SUCCEEDED]
    again = machine.submit("sender", msgspec.json.encode({"to": run_id}))
    assert "is not a workflow under way of tenant 'default'" in str(machine.run(f"{again}@tell").error)
    assert machine.state_of(again) is State.FAILED


def test_a_step_sends_after_the_record_of_the_other_workflow_is_read() -> None:
    sender = flow(step("a"), step("tell", send=Send(to="${input.to}", name="e")), id="sender")
    machine = EventMachine(TWICE, sender)
    run_id = machine.begin()
    machine.send(run_id, "e", 1)
    by = machine.submit("sender", msgspec.json.encode({"to": run_id}))
    machine.holds_answers = True
    machine.restart()
    machine.answers = [one for one in machine.answers if one[0].run_id == by]
    machine.holds_answers = False
    machine.worker_up(held=[machine.held(f"{by}@a")])
    machine.done(f"{by}@a")
    assert machine.live(by) == []
    assert machine.state.of(PendingEffects).pending
    machine.advance(6)
    assert (machine.state_of(by), machine.state_of(run_id)) == (State.SUCCEEDED, State.SUCCEEDED)


@pytest.mark.behaviour("WFL-12")
def test_a_wait_ends_with_its_workflow() -> None:
    machine = EventMachine(PAID)
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.cancel(run_id)
    assert [machine.state_of(run_id), machine.state_of(f"{run_id}@event.paid.1")] == [State.CANCELLED] * 2


@pytest.mark.behaviour("RUN-22")
def test_a_wait_is_not_taken_for_a_lost_run() -> None:
    machine = EventMachine(flow(step("e", event="e")), Job(id="x"))
    run_id = machine.begin()
    machine.advance(3600)
    assert swept(machine) == []
    assert machine.live(run_id) == ["event.e.1"]
