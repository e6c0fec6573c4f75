"""Sagas: a workflow that does not succeed undoes its steps, the last completed one first, one at a time."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Failed
from interlock.core.explain import explain
from interlock.core.state import CoreLimits
from interlock.error import IdempotencyConflict
from interlock.model.job import Job, Priority
from interlock.model.letter import DeadLetter, LetterCode
from interlock.model.policy.verdict import Ruling, Verdict
from interlock.model.state import State
from interlock.model.workflow import Compensate, OnError
from interlock.wire.message import Dispatch, Stop
from interlock.wire.run_request import CancelRun
from tests.core.flows import FlowMachine, flow, step

UNDO_JOBS = tuple(Job(id=name) for name in ("release", "refund"))
ORDER = flow(
    step("reserve", with_={"items": "${input.items}"}, compensate="release"),
    step("charge", with_={"cents": 5}, compensate=Compensate(job="refund", with_={"charge": "${result.id}"})),
    step("ship"),
)


def order(*jobs: Job, definition: Job = ORDER, **fields: Any) -> tuple[FlowMachine, str]:
    machine = FlowMachine(definition, *UNDO_JOBS, *jobs, **fields)
    return machine, machine.begin({"items": ["pen"]})


def to_ship(machine: FlowMachine, run_id: str) -> None:
    machine.done(f"{run_id}@reserve", "slot")
    machine.done(f"{run_id}@charge", {"id": 7})


def letters(machine: FlowMachine) -> dict[str, LetterCode]:
    return {letter.id: letter.code for letter in machine.store.all_of(DeadLetter).values()}


@pytest.mark.behaviour("WFL-4", "WFL-5")
def test_the_last_completed_step_is_undone_first_and_the_workflow_ends_after_the_last() -> None:
    machine, run_id = order()
    to_ship(machine, run_id)
    machine.fail(f"{run_id}@ship")
    assert machine.live(run_id) == ["comp-charge"]
    assert machine.payload_of(f"{run_id}@comp-charge") == {"charge": 7}
    reason = explain(machine.state, machine.run(run_id), machine.now).sentence
    assert "undoes its steps: comp-charge (dispatched) now, 1 left" in reason
    machine.done(f"{run_id}@comp-charge")
    assert machine.live(run_id) == ["comp-reserve"]
    assert machine.payload_of(f"{run_id}@comp-reserve") == {"items": ["pen"], "result": "slot"}
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.done(f"{run_id}@comp-reserve")
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-5")
def test_a_compensation_is_a_step_with_priority_labels_and_key() -> None:
    labelled = Compensate(job="refund", labels={"why": "undo"}, deadline=9.0)
    definition = flow(step("charge", compensate=labelled), step("ship"))
    machine, run_id = order(definition=definition)
    machine.done(f"{run_id}@charge", {"id": 7})
    machine.fail(f"{run_id}@ship")
    run = machine.run(f"{run_id}@comp-charge")
    saga = {"saga_compensation": "true", "is_compensation": "true", "saga_workflow_id": "flow"}
    assert run.labels == {"why": "undo", **saga}
    assert run.facets is not None
    assert run.facets.priority is Priority.CRITICAL
    key = hashlib.sha256(f"flow|{run_id}|refund||charge".encode()).hexdigest()
    assert run.idempotency_key == key
    for _ in range(2):
        assert machine.submit("refund", run.payload or b"", idempotency_key=key) == run.id
        with pytest.raises(IdempotencyConflict):
            machine.submit("refund", b"{}", idempotency_key=key)
        machine.restart()
    assert run.deadline_at == machine.wall + 9
    assert (run.parent, run.tenant, run.is_compensation) == (run_id, "default", True)
    (sent,) = [message for message in machine.messages(Dispatch) if message.run_id == run.id]
    assert sent.labels == run.labels


@pytest.mark.behaviour("WFL-5")
def test_steps_are_undone_in_the_order_in_which_they_completed_not_in_which_they_began() -> None:
    steps = [step(name, needs=(), compensate="release") for name in "abc"]
    machine, run_id = order(definition=flow(*steps, step("ship", needs=("a", "b", "c"))))
    for name in "bca":
        machine.done(f"{run_id}@{name}")
        machine.restart_with_worker(held=[machine.held(run.id) for run in machine.state.runs.values() if run.worker_id])
    machine.fail(f"{run_id}@ship")
    undone = []
    while run_id in machine.state.runs:
        (name,) = machine.live(run_id)
        undone.append(name)
        machine.done(f"{run_id}@{name}")
    assert undone == ["comp-a", "comp-c", "comp-b"]


@pytest.mark.behaviour("WFL-5", "WFL-12")
def test_nothing_is_undone_before_the_live_steps_have_stopped() -> None:
    steps = step("a", needs=(), compensate="release"), step("b", needs=(), compensate="release"), step("c", needs=())
    machine, run_id = order(definition=flow(*steps))
    machine.done(f"{run_id}@a")
    machine.started(f"{run_id}@b")
    machine.fail(f"{run_id}@c")
    assert [message.run_id for message in machine.messages(Stop)] == [f"{run_id}@b"]
    assert machine.live(run_id) == ["b"]
    machine.done(f"{run_id}@b", "came first")  # it had succeeded before it heard of the stop
    assert machine.live(run_id) == ["comp-b"]
    machine.done(f"{run_id}@comp-b")
    machine.done(f"{run_id}@comp-a")
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-5")
@pytest.mark.parametrize(("compensate", "undone"), [(False, []), (True, ["comp-reserve"])])
def test_a_cancelled_workflow_undoes_its_steps_if_asked_to(compensate: bool, undone: list[str]) -> None:
    machine, run_id = order()
    machine.done(f"{run_id}@reserve", "slot")
    machine.step(("client", CancelRun(9, run_id, "", compensate=compensate).by(actor="ann")))
    machine.done(f"{run_id}@charge", outcome="cancelled")
    assert machine.live(run_id) == undone
    for name in undone:
        machine.cancel(run_id)  # a rollback goes on
        machine.done(f"{run_id}@{name}")
    assert machine.state_of(run_id) is State.CANCELLED


@pytest.mark.behaviour("WFL-5")
def test_compensate_may_be_asked_for_while_a_cancelled_workflow_still_stops() -> None:
    machine, run_id = order()
    machine.done(f"{run_id}@reserve", "slot")
    machine.cancel(run_id)
    machine.step(("client", CancelRun(9, run_id, "", compensate=True).by(actor="ann")))
    machine.done(f"{run_id}@charge", outcome="cancelled")
    assert machine.live(run_id) == ["comp-reserve"]


def test_compensate_is_for_workflows() -> None:
    machine, _ = order()
    plain = machine.submit("work")
    answer = machine.step(("client", CancelRun(9, plain, compensate=True))).answers[-1][1]
    assert isinstance(answer, Failed)
    assert str(answer.error) == f"compensate: run {plain!r} is not a workflow, and has nothing to undo; leave it out"


@pytest.mark.behaviour("WFL-5")
def test_a_deadline_rolls_back_and_does_not_stop_the_rollback() -> None:
    machine, run_id = order(definition=replace(ORDER, deadline=10.0, version=""))
    machine.done(f"{run_id}@reserve", "slot")
    machine.advance(10)
    machine.done(f"{run_id}@charge", outcome="cancelled")
    machine.advance(100)
    assert machine.live(run_id) == ["comp-reserve"]
    machine.done(f"{run_id}@comp-reserve")
    assert machine.state_of(run_id) is State.TIMEOUT


@pytest.mark.behaviour("WFL-5")
def test_items_are_undone_one_by_one_also_those_of_a_group_that_failed() -> None:
    each = step("each", for_each=[1, 2, 3], with_={"n": "${item}"}, compensate="release", max_parallel=1)
    machine, run_id = order(definition=flow(each))
    machine.done(f"{run_id}@each.0", "x" * 500)
    machine.done(f"{run_id}@each.1", "b")
    machine.fail(f"{run_id}@each.2")
    assert machine.live(run_id) == ["comp-each.1"]
    assert machine.payload_of(f"{run_id}@comp-each.1") == {"n": 2, "result": "b"}
    machine.done(f"{run_id}@comp-each.1")
    assert machine.payload_of(f"{run_id}@comp-each.0") == {"n": 1, "result": "x" * 500}
    machine.done(f"{run_id}@comp-each.0")
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-5")
def test_a_sub_workflow_undoes_its_own_steps_before_those_of_the_workflow_above() -> None:
    inner = flow(step("x", compensate="refund"), step("y"), id="inner")
    outer = flow(step("a", compensate="release", needs=()), step("b", workflow="inner", needs=()), step("c", needs=()))
    machine, run_id = order(inner, definition=outer)
    machine.done(f"{run_id}@a")
    machine.done(f"{run_id}@b@x")
    machine.fail(f"{run_id}@c")
    machine.done(f"{run_id}@b@y", outcome="cancelled")
    assert machine.live(run_id) == ["b", "b@comp-x"]
    machine.done(f"{run_id}@b@comp-x")
    assert machine.live(run_id) == ["comp-a"]


@pytest.mark.behaviour("WFL-6", "REC-4")
def test_a_compensation_that_fails_has_a_dead_letter_and_the_rollback_goes_on() -> None:
    machine, run_id = order()
    to_ship(machine, run_id)
    machine.fail(f"{run_id}@ship")
    machine.fail(f"{run_id}@comp-charge")
    assert machine.live(run_id) == ["comp-reserve"]
    machine.done(f"{run_id}@comp-reserve")
    assert letters(machine) == {f"{run_id}@comp-charge": LetterCode.FAILED, run_id: LetterCode.FAILED}


@pytest.mark.behaviour("WFL-6")
@pytest.mark.parametrize(
    ("now", "error"),
    [
        ([UNDO_JOBS[0]], "job: 'refund' is not defined"),
        ([*UNDO_JOBS[:1], Job(id="refund", capabilities=("money",))], "capabilities that step 'charge' lacks: money"),
    ],
)
def test_a_compensation_that_cannot_be_made(now: list[Job], error: str) -> None:
    machine, run_id = order()
    to_ship(machine, run_id)
    machine.jobs = [*now, *(job for job in machine.jobs if job not in UNDO_JOBS)]
    machine.step(("", machine.define()))
    machine.fail(f"{run_id}@ship")
    assert error in str(machine.run(f"{run_id}@comp-charge").error)
    assert letters(machine)[f"{run_id}@comp-charge"] is LetterCode.SAGA_UNMARSHAL_FAILED
    machine.done(f"{run_id}@comp-reserve")
    assert machine.state_of(run_id) is State.FAILED


def test_an_argument_without_a_value_makes_a_compensation_impossible() -> None:
    machine, run_id = order()
    machine.done(f"{run_id}@reserve", "slot")
    machine.done(f"{run_id}@charge", "no id")
    machine.fail(f"{run_id}@ship")
    assert machine.run(f"{run_id}@comp-charge").error == "${result.id} has no value: there is no 'id'"


@pytest.mark.behaviour("WFL-6")
@pytest.mark.parametrize(
    ("undo", "error"),
    [
        (Job(id="refund", capabilities=("money",)), "compensate: job 'refund' has capabilities that its step lacks"),
        (Job(id="other"), "'refund' is not defined"),
    ],
)
def test_a_step_does_not_start_if_its_compensation_could_not(undo: Job, error: str) -> None:
    machine = FlowMachine(flow(step("charge", compensate="refund")), undo)
    run_id = machine.begin()
    assert error in str(machine.run(f"{run_id}@charge").error)
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-6")
@pytest.mark.parametrize("reachable", [True, False])
def test_policy_on_compensations_is_soft(reachable: bool) -> None:
    machine, run_id = order(limits=CoreLimits(remote_policy=True))
    allow, deny = (Verdict(ruling=each, policy="p") for each in (Ruling.ALLOW, Ruling.DENY))
    machine.remote = lambda request: allow
    machine.step()
    machine.advance(8)
    to_ship(machine, run_id)
    machine.remote = lambda request: (deny if reachable else "down") if request.job == "refund" else allow
    machine.fail(f"{run_id}@ship")
    if reachable:
        assert machine.state_of(f"{run_id}@comp-charge") is State.DENIED
        assert letters(machine)[f"{run_id}@comp-charge"] is LetterCode.SAFETY_DENIED
    else:
        machine.done(f"{run_id}@comp-charge")
    machine.done(f"{run_id}@comp-reserve")
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-6")
def test_compensations_record_no_compensations() -> None:
    undo = flow(step("x", compensate="release"), step("y"), id="undo")
    machine, run_id = order(undo, definition=flow(step("a", compensate="undo"), step("b")))
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    machine.done(f"{run_id}@comp-a@x")
    machine.fail(f"{run_id}@comp-a@y")
    assert machine.state_of(run_id) is State.FAILED
    assert [run for run in machine.store.runs_by_id if "comp-x" in run] == []


def test_the_step_for_errors_ends_before_the_rollback() -> None:
    steps = step("a", compensate="release"), step("b", on_error=OnError(step="clean")), step("clean")
    machine, run_id = order(definition=flow(*steps))
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    assert machine.live(run_id) == ["clean"]
    machine.done(f"{run_id}@clean")
    assert machine.live(run_id) == ["comp-a"]


@pytest.mark.behaviour("WFL-4", "WFL-5", "REC-6")
def test_killed_after_every_commit_each_step_is_undone_once_and_in_order() -> None:
    def play(killed_after: int) -> tuple[State, list[str]]:
        machine, run_id = order()
        passes = 0
        while run_id in machine.state.runs:
            passes += 1
            if passes == killed_after:
                machine.holds_answers = True
                machine.restart()
                machine.holds_answers = False
                machine.worker_up(held=[machine.held(run.id) for run in machine.state.runs.values() if run.worker_id])
            (executing,) = [run.id for run in machine.state.runs.values() if run.worker_id is not None]
            if executing.endswith("@ship"):
                machine.fail(executing)
            else:
                machine.done(executing, {"id": 7})
        return machine.state_of(run_id), machine.dispatched()

    undisturbed = play(0)
    assert [name.partition("@")[2] for name in undisturbed[1]] == [
        "reserve", "charge", "ship", "comp-charge", "comp-reserve",
    ]  # fmt: skip
    for number in range(1, 6):
        assert play(number) == undisturbed
