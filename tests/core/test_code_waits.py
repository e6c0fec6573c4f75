"""Workflows that are functions and wait: for a person, for events; and what they send and undo."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.core.decisions import Failed
from interlock.model.state import State
from interlock.wire.event_request import SendEvent
from tests.core.code_flows import CodeMachine, Tools
from tests.core.policies import audited, resolve

S = State


def begun(workflow: Any, **fields: Any) -> tuple[CodeMachine, str]:
    machine = CodeMachine(Tools(workflow, **fields).app)
    run_id = machine.begin()
    machine.play(run_id)
    return machine, run_id


def restart(machine: CodeMachine) -> None:
    machine.restart()
    machine.join(machine.apps["one"])


def send(machine: CodeMachine, run_id: str, name: str, value: Any = None) -> None:
    for _, answer in machine.step(("client", SendEvent(7, name, msgspec.json.encode(value), run_id))).answers:
        if isinstance(answer, Failed):
            raise answer.error


async def asks(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    try:
        given = await ctx.approval("Pay?", {"cents": 5}, timeout="2h")
    except il.Rejected as error:
        return f"rejected: {error.reason}"
    except il.RunTimeout:
        return "nobody answered"
    return f"{given.by}: {given.reason}, {given.at.year}"


@pytest.mark.behaviour("WFL-1", "POL-8")
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("answer", [True, False, None])
def test_a_function_asks_a_person(restarts: bool, answer: bool | None) -> None:
    machine, run_id = begun(asks)
    ask = f"{run_id}@approval"
    assert machine.payload_of(ask) == {"question": "Pay?", "data": {"cents": 5}}
    if restarts:
        restart(machine)
    assert machine.state_of(ask) is S.APPROVAL_REQUIRED
    if answer is None:
        machine.advance(7199)
        assert machine.state_of(ask) is S.APPROVAL_REQUIRED
        machine.advance(1)
    else:
        assert resolve(machine, ask, actor="client") == "self_approval"
        assert resolve(machine, ask, approve=answer) == ("pending" if answer else "denied")
    assert machine.play(run_id) is S.SUCCEEDED
    year = datetime.fromtimestamp(machine.wall, UTC).year
    said = {True: f"ann: looked at, {year}", False: "rejected: rejected by ann: looked at", None: "nobody answered"}
    assert machine.result_of(run_id) == said[answer]


@pytest.mark.behaviour("WFL-1", "POL-8")
def test_a_rejection_that_leaves_the_function_denies_the_workflow() -> None:
    async def lets_it_pass(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        await ctx.approval("Pay?")

    machine, run_id = begun(lets_it_pass)
    assert resolve(machine, f"{run_id}@approval", approve=False) == "denied"
    assert machine.play(run_id) is S.DENIED
    assert len(audited(machine, "rejected")) == 1


@pytest.mark.behaviour("POL-8", "WFL-12")
def test_an_approval_that_the_function_needs_no_more_is_refused() -> None:
    async def impatient(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        return (await ctx.first(ctx.approval("Pay?"), ctx.sleep("1m")))[0]

    machine, run_id = begun(impatient)
    machine.advance(60)
    assert machine.play(run_id) is S.SUCCEEDED
    assert machine.state_of(f"{run_id}@approval") is S.CANCELLED
    assert resolve(machine, f"{run_id}@approval") == "already_resolved"
    assert machine.result_of(run_id) == 1


async def reads(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    first = await ctx.event("paid", int)
    await ctx.run(tools.work.call(first))
    return [first, await ctx.event("paid", int), await ctx.event("other", str)]


@pytest.mark.behaviour("WFL-1", "WFL-10")
@pytest.mark.parametrize("moment", range(5))
@pytest.mark.parametrize("early", [False, True])
def test_a_function_reads_events_in_order_and_once(moment: int, early: bool) -> None:
    """Sent before it waits or while it does, and with a restart at any moment."""
    machine = CodeMachine(Tools(reads).app)
    run_id = machine.begin()
    if not early:
        machine.play(run_id)
    for number, (name, value) in enumerate([("paid", 1), ("other", "x" * 1000), ("paid", 2)]):
        if number == moment:
            restart(machine)
        send(machine, run_id, name, value)
        if not early:
            machine.play(run_id)
    if moment == 3:
        restart(machine)
    if moment == 4 and early:
        machine.turn(run_id)
        restart(machine)
    assert machine.play(run_id) is S.SUCCEEDED
    assert machine.result_of(run_id) == [1, 2, "x" * 1000]
    assert sum("@event." in found for found in machine.store.runs_by_id) == 3


@pytest.mark.behaviour("WFL-10")
def test_an_event_of_another_kind_is_an_error_in_the_function() -> None:
    async def strict(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        try:
            await ctx.event("paid", int)
        except il.BadResult as error:
            return str(error)

    machine, run_id = begun(strict)
    send(machine, run_id, "paid", "five")
    assert machine.play(run_id) is S.SUCCEEDED
    assert "int" in machine.result_of(run_id)


@pytest.mark.behaviour("WFL-10")
def test_a_wait_of_a_function_has_a_limit() -> None:
    async def impatient(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        try:
            await ctx.event("paid", int, timeout="5s")
        except il.RunTimeout:
            return await ctx.event("paid", int)

    machine, run_id = begun(impatient)
    machine.advance(5)
    machine.play(run_id)
    assert machine.live(run_id) == ["event.paid.2"]
    send(machine, run_id, "paid", 7)
    assert machine.play(run_id) is S.SUCCEEDED
    assert machine.result_of(run_id) == 7


@pytest.mark.behaviour("WFL-10", "WFL-13")
@pytest.mark.parametrize("restarts", [False, True])
def test_events_that_a_round_has_not_read_are_for_the_next_one(restarts: bool) -> None:
    async def rounds(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        got = await ctx.event("e", int)
        if ctx.round < 3:
            await ctx.continue_as_new(tools.flow.call([*(value or []), got]))
        return [*value, got]

    machine = CodeMachine(Tools(rounds).app)
    run_id = machine.begin()
    send(machine, run_id, "e", 1)
    send(machine, run_id, "e", 2)
    machine.play(run_id)
    assert machine.run(run_id).workflow_facet.round == 3
    if restarts:
        restart(machine)
        machine.play(run_id)
    send(machine, run_id, "e", 3)
    assert machine.play(run_id) is S.SUCCEEDED
    assert machine.result_of(run_id) == [1, 2, 3]
    assert sorted(found for found in machine.store.runs_by_id if "@event." in found) == [
        f"{run_id}@event.e.{number}" for number in (1, 2, 3)
    ]


async def talks(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
    if value is None:
        return await ctx.event("hello", str)
    await ctx.run(tools.work.call(1))
    await ctx.send(value, "hello", f"from {ctx.run_id}")
    try:
        await ctx.send("nobody", "hello")
    except il.RunFailed as error:
        return error.reason


@pytest.mark.behaviour("WFL-10")
def test_a_function_sends_an_event_to_another() -> None:
    machine, run_id = begun(talks)
    by = machine.submit("flow", msgspec.json.encode({"value": run_id}))
    machine.play(by)
    machine.play(run_id)
    assert machine.result_of(run_id) == f"from {by}"
    assert machine.result_of(by) == "send.to: 'nobody' is not a workflow under way of tenant 'default'"


@pytest.mark.behaviour("WFL-10", "REC-4")
def test_a_function_sends_after_the_record_of_the_other_workflow_is_read() -> None:
    machine, run_id = begun(talks)
    by = machine.submit("flow", msgspec.json.encode({"value": run_id}))
    machine.turn(by)
    held = machine.held(f"{by}@work")
    machine.holds_answers = True
    machine.restart()
    machine.answers = [one for one in machine.answers if one[0].run_id == by]
    machine.holds_answers = False
    machine.worker_up(held=[held])
    machine.done(f"{by}@work")
    machine.turn(by)
    assert machine.live(by) == []
    assert machine.run(by).worker_id is None, "no turn follows until the record is read"
    machine.advance(6)
    machine.play(by)
    machine.play(run_id)
    assert (machine.result_of(run_id), machine.state_of(by)) == (f"from {by}", S.SUCCEEDED)
    assert sum("@send" in found for found in machine.store.runs_by_id) == 2


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_event_for_a_function_that_has_not_begun_is_kept(restarts: bool) -> None:
    machine = CodeMachine(Tools(reads).app)
    run_id = machine.begin(delay=10.0)
    send(machine, run_id, "other", "o")
    send(machine, run_id, "paid", 1)
    if restarts:
        restart(machine)
    send(machine, run_id, "paid", 2)
    machine.advance(10)
    assert machine.play(run_id) is S.SUCCEEDED
    assert machine.result_of(run_id) == [1, 2, "o"]


@pytest.mark.behaviour("WFL-4", "WFL-5")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_function_names_what_undoes_it(restarts: bool) -> None:
    async def fails(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        ctx.compensate(tools.release.call("first"))
        await ctx.run(tools.work.call(1), undo=tools.other.call("step"))
        ctx.compensate(tools.release.call("${second}"))
        await ctx.sleep("1m")
        raise ValueError("no")

    machine, run_id = begun(fails)
    if restarts:
        restart(machine)
    machine.advance(60)
    undone: list[Any] = []

    def act(name: str, payload: dict[str, Any]) -> None:
        undone.append((name, payload))

    assert machine.play(run_id, act) is S.FAILED
    assert undone == [
        ("comp-undo.1.2", {"result": "${second}"}),
        ("comp-work", {"value": "step"}),
        ("comp-undo.1.1", {"result": "first"}),
    ]


@pytest.mark.behaviour("WFL-4")
def test_what_undoes_a_workflow_that_succeeds_does_not_run() -> None:
    async def succeeds(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        ctx.compensate(tools.release.call("x"))
        return 1

    machine, run_id = begun(succeeds)
    assert machine.state_of(run_id) is S.SUCCEEDED
    assert not any("@comp-" in found for found in machine.store.runs_by_id)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda ctx: ctx.approval(""), "question: '' is not a text of 1 to 500 characters"),
        (lambda ctx: ctx.approval("q", timeout="0s"), "timeout: '0s' is not a duration above zero"),
        (lambda ctx: ctx.approval("q", {"x": object()}), "data.x: "),
        (lambda ctx: ctx.event("a b", int), "name: 'a b' is not a name of letters"),
        (lambda ctx: ctx.event("a", complex), "kind: "),
        (lambda ctx: ctx.send("", "a"), "to: '' is not the id of a workflow run"),
        (lambda ctx: ctx.send("x", "a@b"), "name: 'a@b' is not a name of letters"),
        (lambda ctx: ctx.compensate("release"), "call: 'release' is not a call of a job"),
    ],
)
def test_wrong_arguments_are_named(wrong: Any, says: str) -> None:
    async def errs(tools: Tools, ctx: il.WorkflowContext, value: Any) -> Any:
        try:
            wrong(ctx)
        except il.InterlockError as error:
            return str(error)

    machine, run_id = begun(errs)
    assert says in machine.result_of(run_id)
    assert machine.state_of(run_id) is S.SUCCEEDED
