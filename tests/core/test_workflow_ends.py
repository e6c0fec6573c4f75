"""How workflows end, in the core: errors, cancels, deadlines, and the steps that follow errors."""

import pytest

from interlock.core.bulk.table import Bulks
from interlock.core.explain import explain
from interlock.core.state import CoreLimits
from interlock.model.bulk import RunAction
from interlock.model.explanation import explain_end
from interlock.model.job import Job
from interlock.model.letter import DeadLetter
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.model.workflow import OnError, Then
from interlock.wire.message import Stop
from interlock.wire.request import StartBulk
from tests.core.flows import CONTINUE, MEDIA, PROBED, FlowMachine, chain, flow, step


@pytest.mark.behaviour("WFL-2")
def test_a_failed_step_cancels_its_siblings_and_ends_the_workflow_after_them() -> None:
    machine = FlowMachine(flow(step("a", needs=()), step("b", needs=()), step("c", needs=("a", "b"))))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    assert machine.live(run_id) == ["b"]
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.done(f"{run_id}@b", outcome="cancelled")
    assert machine.state_of(run_id) is State.FAILED
    assert f"{run_id}@c" not in machine.store.runs_by_id


@pytest.mark.behaviour("RUN-21")
def test_the_end_of_a_workflow_is_explained_once_and_without_attempts() -> None:
    machine = FlowMachine(flow(step("a")))
    good, bad = machine.begin(), machine.begin()
    machine.advance(2)
    machine.done(f"{good}@a")
    machine.fail(f"{bad}@a", "Traceback\nValueError: no tea")
    assert explain_end(machine.run(good)).sentence == "The run succeeded after 2.0s."
    assert explain_end(machine.run(bad)).sentence == "The run failed after 2.0s: step 'a' failed: ValueError: no tea."


def test_an_error_that_the_workflow_goes_on_after() -> None:
    last = step("c", if_="${steps.a.state == 'failed'}", with_={"why": "${steps.a.error}", "none": "${steps.a.result}"})
    after = step("after")
    machine = FlowMachine(flow(step("a", on_error=OnError(step="after", then=Then.CONTINUE)), last, after))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    assert machine.live(run_id) == ["after"]
    machine.done(f"{run_id}@after")
    assert machine.payload_of(f"{run_id}@c") == {"why": "boom", "none": None}
    machine.done(f"{run_id}@c")
    assert machine.state_of(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("RUN-10", "WFL-12")
def test_cancel_stops_the_steps_first_and_waits_until_they_have_stopped() -> None:
    machine = FlowMachine(MEDIA)
    run_id = machine.begin({"url": "x"})
    machine.done(f"{run_id}@probe", PROBED)
    machine.started(f"{run_id}@encode.0")
    machine.cancel(run_id)
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.cancel(run_id)
    assert {message.run_id for message in machine.messages(Stop)} == {f"{run_id}@encode.0", f"{run_id}@encode.1"}
    reason = explain(machine.state, machine.run(run_id), machine.now).sentence
    assert "is to end as cancelled (asked to), and waits until encode (under_way) stops" in reason
    machine.restart()
    machine.step(("", machine.define()))
    machine.worker_up(held=[machine.held(f"{run_id}@encode.{index}") for index in (0, 1)])
    machine.done(f"{run_id}@encode.0", outcome="cancelled")
    assert machine.live(run_id) == ["encode", "encode.1"]
    machine.done(f"{run_id}@encode.1", "late")
    assert (machine.state_of(run_id), machine.run(run_id).reason) == (State.CANCELLED, "asked to")
    assert machine.state_of(f"{run_id}@encode") is State.CANCELLED
    assert f"{run_id}@join" not in machine.store.runs_by_id


@pytest.mark.behaviour("WFL-12", "RUN-22")
def test_a_deadline_closes_a_workflow() -> None:
    machine = FlowMachine(flow(step("a"), step("b"), deadline=10.0))
    run_id = machine.begin()
    machine.advance(10)
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.done(f"{run_id}@a", outcome="cancelled")
    assert machine.path(run_id)[-2:] == [State.UNDER_WAY, State.TIMEOUT]
    assert f"{run_id}@b" not in machine.store.runs_by_id


def test_a_longest_run_time_closes_a_workflow_and_a_time_limit_a_step() -> None:
    machine = FlowMachine(flow(step("a", timeout=2.0, sleep="1h", on_error=CONTINUE), step("b"), max_runtime=5.0))
    run_id = machine.begin()
    machine.advance(2)
    assert machine.state_of(f"{run_id}@a") is State.TIMEOUT
    assert machine.live(run_id) == ["b"]
    machine.advance(3)
    machine.done(f"{run_id}@b", outcome="cancelled")
    assert machine.state_of(run_id) is State.TIMEOUT


@pytest.mark.behaviour("REC-4")
def test_a_failed_step_has_no_dead_letter_but_its_workflow_has() -> None:
    machine = FlowMachine(chain())
    run_id = machine.begin({"all": 1})
    machine.fail(f"{run_id}@a", "no disk")
    (letter,) = machine.store.all_of(DeadLetter).values()
    assert (letter.id, letter.error) == (run_id, "step 'a' failed: no disk")


@pytest.mark.behaviour("WFL-2")
@pytest.mark.parametrize("on_error", [OnError(), CONTINUE, OnError(step="b", then=Then.CONTINUE)])
def test_nothing_follows_a_step_that_somebody_cancels_but_the_end_of_its_workflow(on_error: OnError) -> None:
    machine = FlowMachine(flow(step("a", sleep="1h", on_error=on_error), step("b")))
    run_id = machine.begin()
    machine.act(RunAction.CANCEL, f"{run_id}@a")
    assert (machine.state_of(f"{run_id}@a"), machine.state_of(run_id)) == (State.CANCELLED, State.FAILED)
    assert f"{run_id}@b" not in machine.store.runs_by_id


@pytest.mark.behaviour("WFL-12", "RUN-10", "RUN-22")
@pytest.mark.parametrize("by", ["cancel", "deadline"])
def test_a_closing_workflow_does_not_wait_for_its_step_for_errors_if_it_is_to_end(by: str) -> None:
    clean = step("clean", sleep=600.0)
    machine = FlowMachine(flow(step("a", on_error=OnError(step="clean")), clean, deadline=10.0))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    assert machine.live(run_id) == ["clean"]
    if by == "cancel":
        machine.cancel(run_id)
    else:
        machine.advance(10)
    assert (machine.state_of(run_id), machine.state_of(f"{run_id}@clean")) == (State.FAILED, State.CANCELLED)


@pytest.mark.behaviour("WFL-2")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_step_that_follows_an_error_may_fail_and_have_one_of_its_own(restarts: bool) -> None:
    handlers = step("clean", on_error=OnError(step="report")), step("report", with_={"why": "${steps.a.error}"})
    machine = FlowMachine(flow(step("a", on_error=OnError(step="clean")), *handlers))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a", "no disk")
    assert machine.live(run_id) == ["clean"]
    if restarts:
        held = [machine.held(f"{run_id}@clean")]
        machine.restart_with_worker(held=held)
    machine.fail(f"{run_id}@clean")
    assert machine.live(run_id) == ["report"]
    assert machine.payload_of(f"{run_id}@report") == {"why": "no disk"}
    machine.fail(f"{run_id}@report")
    assert machine.state_of(run_id) is State.FAILED
    assert "step 'a'" in machine.run(run_id).reason


@pytest.mark.behaviour("WFL-2")
def test_two_steps_that_fail_at_once_are_both_followed_by_their_steps() -> None:
    steps = [step(name, needs=(), on_error=OnError(step=f"after_{name}")) for name in "ab"]
    machine = FlowMachine(flow(*steps, step("after_a"), step("after_b"), step("c", needs=())))
    run_id = machine.begin()
    machine.step(*[machine.finish_command(f"{run_id}@{name}", "failed_fatal", error="x") for name in "ab"])
    assert machine.live(run_id) == ["after_a", "after_b", "c"], "the third one is asked to stop"
    machine.done(f"{run_id}@c", outcome="cancelled")
    machine.done(f"{run_id}@after_a")
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.done(f"{run_id}@after_b")
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-2")
def test_a_cancel_stops_the_step_that_follows_an_error_and_nothing_follows_it() -> None:
    handlers = step("clean", on_error=OnError(step="report")), step("report")
    machine = FlowMachine(flow(step("a", on_error=OnError(step="clean")), *handlers))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    machine.cancel(run_id)
    machine.done(f"{run_id}@clean", outcome="cancelled")
    assert machine.state_of(run_id) is State.FAILED
    assert f"{run_id}@report" not in machine.store.runs_by_id


@pytest.mark.behaviour("WFL-2")
@pytest.mark.parametrize("inside", [False, True])
def test_nothing_follows_an_error_that_comes_together_with_a_cancel(inside: bool) -> None:
    steps = step("a", on_error=OnError(step="clean")), step("clean", on_error=OnError(step="report")), step("report")
    machine = FlowMachine(flow(step("p", parallel=steps)) if inside else flow(*steps))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    failed = machine.finish_command(f"{run_id}@clean", "failed_fatal", error="x")
    machine.step(failed, machine.cancel_command(run_id))
    assert f"{run_id}@report" not in machine.store.runs_by_id
    assert machine.state_of(run_id) is (State.CANCELLED if inside else State.FAILED)


@pytest.mark.behaviour("WFL-2", "WFL-12")
@pytest.mark.parametrize("under", [False, True])
def test_a_request_that_cancels_one_run_a_pass_cancels_workflows_before_their_steps(under: bool) -> None:
    inner = flow(step("x", job="busy"), id="inner")
    machine = FlowMachine(
        flow(step("a", workflow="inner"), step("b", for_each=[1, 2], job="busy", needs=())), inner, Job(id="busy"),
        limits=CoreLimits(bulk_runs=1), lanes={"main": 1},
    )  # fmt: skip
    run_id, other = machine.begin(), machine.begin()
    wanted = RunFilter(under=run_id) if under else RunFilter(live=True)
    machine.step(("client", StartBulk(3, "all", RunAction.CANCEL, wanted, "enough", "ann")))
    while machine.state.of(Bulks).walks:
        machine.step()
    for step_id in [run.id for run in machine.state.runs.values() if run.stop is not None and run.worker_id]:
        machine.done(step_id, outcome="cancelled")
    ends = {run.id: run.state for run in machine.store.runs_by_id.values() if run.id.startswith(run_id)}
    assert set(ends.values()) == {State.CANCELLED}
    assert machine.state_of(other) is (State.UNDER_WAY if under else State.CANCELLED)
