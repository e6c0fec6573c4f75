"""Parallel steps, in the core: their branches, errors inside them and of them, cancels, restarts, compensations."""

from typing import Any

import pytest

from interlock.core.explain import explain
from interlock.model.bulk import RunAction
from interlock.model.job import Job
from interlock.model.state import State
from interlock.model.workflow import PARALLEL, Compensate, OnError, Then
from interlock.wire.message import Stop
from interlock.wire.run_request import CancelRun
from tests.core.flows import CONTINUE, FlowMachine, flow, step
from tests.core.policies import resolve
from tests.core.test_sweep import swept
from tests.core.test_take_over import retry
from tests.core.test_workflow_events import EventMachine

S = State


def both(*branches: Any, **fields: Any) -> Job:
    """A workflow of a step `a`, a parallel step `p`, and a step `z`."""
    result = {"z": "${steps.z.result}", "b": "${steps.b.result}", "p": "${steps.p.state}"}
    handlers = fields.pop("handlers", ())
    return flow(step("a"), step("p", parallel=branches, **fields), step("z"), *handlers, result=result)


TWO = [step("b"), step("c", with_={"text": "${steps.a.result} ${steps.b.result}"})], step("d")


def ended(machine: FlowMachine, run_id: str) -> dict[str, State]:
    """The steps of a run and their states."""
    below = f"{run_id}@"
    return {id.removeprefix(below): run.state for id, run in machine.store.runs_by_id.items() if id.startswith(below)}


@pytest.mark.behaviour("WFL-1", "WFL-2")
def test_branches_run_at_once_and_the_next_step_follows_the_last_of_them() -> None:
    machine = FlowMachine(both(*TWO))
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "A")
    assert machine.live(run_id) == ["b", "d", "p"]
    assert (machine.run(f"{run_id}@p").job_id, machine.run(f"{run_id}@p").worker_id) == (PARALLEL, None)
    machine.done(f"{run_id}@b", "B")
    assert machine.live(run_id) == ["c", "d", "p"]
    assert machine.payload_of(f"{run_id}@c") == {"text": "A B"}
    machine.done(f"{run_id}@d")
    assert explain(machine.state, machine.run(f"{run_id}@p"), machine.now).sentence.endswith(
        "waits for step c (dispatched)."
    )
    machine.done(f"{run_id}@c")
    assert machine.live(run_id) == ["z"]
    machine.done(f"{run_id}@z", "Z")
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (
        S.SUCCEEDED,
        {"z": "Z", "b": "B", "p": "succeeded"},
    )


@pytest.mark.behaviour("WFL-2", "WFL-12")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_failing_branch_cancels_its_siblings_and_the_step_fails_once_they_have_stopped(restarts: bool) -> None:
    machine = FlowMachine(both(*TWO))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    (stop,) = machine.messages(Stop)
    assert stop.run_id == f"{run_id}@d"
    if restarts:
        held = [machine.held(f"{run_id}@d")]
        machine.restart_with_worker(held=held)
    assert machine.live(run_id) == ["d", "p"]
    text = "is to end as failed (step 'b' failed), and waits until d (dispatched) stops."
    assert explain(machine.state, machine.run(f"{run_id}@p"), machine.now).sentence.endswith(text)
    machine.done(f"{run_id}@d", outcome="cancelled")
    assert (machine.state_of(run_id), machine.run(run_id).reason) == (S.FAILED, "step 'p' failed")
    assert machine.run(run_id).error == "step 'p' failed: step 'b' failed: boom"
    assert ended(machine, run_id) == {"a": S.SUCCEEDED, "p": S.FAILED, "b": S.FAILED, "d": S.CANCELLED, "c": S.SKIPPED}


@pytest.mark.behaviour("WFL-2")
def test_the_step_after_the_error_of_a_parallel_step_runs_once_its_branches_have_stopped() -> None:
    on_error = OnError(step="mend", then=Then.CONTINUE)
    mend = step("mend", with_={"why": "${steps.p.error}", "b": "${steps.b.state}", "c": "${steps.c.result}"})
    machine = FlowMachine(both(*TWO, on_error=on_error, handlers=[mend]))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    assert machine.live(run_id) == ["d", "p"]
    machine.done(f"{run_id}@d", "late")
    assert machine.live(run_id) == ["mend"]
    assert machine.payload_of(f"{run_id}@mend") == {"why": "step 'b' failed: boom", "b": "failed", "c": None}
    machine.done(f"{run_id}@mend")
    machine.done(f"{run_id}@z", "Z")
    assert machine.result_of(run_id) == {"z": "Z", "b": None, "p": "failed"}


@pytest.mark.behaviour("WFL-2")
def test_a_parallel_step_that_goes_on_cancels_no_branch() -> None:
    machine = FlowMachine(both(*TWO, on_error=CONTINUE))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    assert machine.live(run_id) == ["d", "p"]
    assert not machine.messages(Stop)
    machine.done(f"{run_id}@d")
    assert ended(machine, run_id)["c"] is S.SKIPPED
    machine.done(f"{run_id}@z", "Z")
    assert machine.result_of(run_id) == {"z": "Z", "b": None, "p": "succeeded"}


@pytest.mark.behaviour("WFL-2")
def test_an_error_inside_a_branch_may_have_a_step_of_its_own() -> None:
    branch = step("b", on_error=OnError(step="mend", then=Then.CONTINUE)), step("mend"), step("c")
    machine = FlowMachine(both(branch, step("d", on_error=OnError(step="wipe")), step("wipe")))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    assert machine.live(run_id) == ["d", "mend", "p"]
    machine.done(f"{run_id}@mend")
    assert machine.live(run_id) == ["c", "d", "p"]
    machine.fail(f"{run_id}@d")
    machine.done(f"{run_id}@c", outcome="cancelled")
    assert machine.live(run_id) == ["p", "wipe"]
    machine.done(f"{run_id}@wipe")
    assert machine.state_of(run_id) is S.FAILED


@pytest.mark.parametrize("approve", [True, False])
def test_a_branch_that_is_denied_denies_its_step(approve: bool) -> None:
    machine = FlowMachine(both(step("b", approve="Go on?"), step("d")))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    resolve(machine, f"{run_id}@b", approve=approve)
    machine.done(f"{run_id}@d", outcome="succeeded" if approve else "cancelled")
    if approve:
        assert machine.live(run_id) == ["z"]
    else:
        assert machine.run(run_id).error == "step 'p' was denied: step 'b' was denied: rejected by ann: looked at"
        assert machine.state_of(run_id) is S.DENIED


@pytest.mark.parametrize("skipped", [True, False])
def test_a_parallel_step_that_does_not_begin_skips_what_is_inside(skipped: bool) -> None:
    inner = step("q", parallel=[step("e")])
    field = {"if_": False} if skipped else {"if_": "${input.gone}", "on_error": CONTINUE}
    machine = FlowMachine(both(*TWO, inner, **field))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    assert machine.live(run_id) == ["z"]
    inside = dict.fromkeys("bcdqe", S.SKIPPED)
    assert (
        ended(machine, run_id)
        == {"a": S.SUCCEEDED, "p": S.SKIPPED if skipped else S.FAILED, "z": S.DISPATCHED} | inside
    )
    machine.done(f"{run_id}@z")
    assert machine.result_of(run_id)["b"] is None


@pytest.mark.behaviour("WFL-12", "RUN-22")
@pytest.mark.parametrize("whose", ["cancel p", "cancel", "timeout"])
def test_a_parallel_step_that_is_cancelled_or_out_of_time_ends_after_its_branches(whose: str) -> None:
    inner = step("q", parallel=[step("e"), step("f", sleep=600.0)])
    machine = FlowMachine(both(*TWO, inner, timeout=10.0))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    assert machine.live(run_id) == ["b", "d", "e", "f", "p", "q"]
    if whose == "timeout":
        machine.advance(10)
    elif whose == "cancel":
        machine.cancel(run_id)
        machine.cancel(run_id)
    else:
        machine.act(RunAction.CANCEL, f"{run_id}@p")
    assert machine.live(run_id) == ["b", "d", "e", "p", "q"]
    assert sorted(stop.run_id[-1] for stop in machine.messages(Stop)) == ["b", "d", "e"]
    for name in "bde":
        machine.done(f"{run_id}@{name}", outcome="cancelled")
    part, of_run = {
        "timeout": (S.TIMEOUT, S.FAILED), "cancel": (S.CANCELLED, S.CANCELLED), "cancel p": (S.CANCELLED, S.FAILED)
    }[whose]  # fmt: skip
    assert (machine.state_of(f"{run_id}@p"), machine.state_of(run_id)) == (part, of_run)
    assert machine.state_of(f"{run_id}@q") is S.CANCELLED
    assert "c" not in ended(machine, run_id) or whose != "cancel", "nothing begins after the workflow was closed"


@pytest.mark.behaviour("WFL-4", "WFL-5")
def test_steps_inside_are_undone_in_the_order_of_their_completion() -> None:
    def undone(name: str, **fields: Any) -> Any:
        return step(name, compensate=Compensate(job="clean", with_={}), **fields)

    branches = [undone("b"), undone("c")], undone("d"), undone("e", for_each=[1, 2])
    machine = FlowMachine(flow(undone("a"), step("p", parallel=branches), step("z")))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    for name in ("b", "e.1", "d", "c", "e.0"):
        machine.done(f"{run_id}@{name}")
    machine.fail(f"{run_id}@z")
    order: list[str] = []
    while live := machine.live(run_id):
        order += [name.removeprefix("comp-") for name in live]
        machine.done(f"{run_id}@{live[0]}")
    assert order == ["e.0", "c", "d", "e.1", "b", "a"]
    assert machine.state_of(run_id) is S.FAILED


@pytest.mark.behaviour("WFL-1", "WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_sleeps_events_items_workflows_and_parallel_steps_inside_branches(restarts: bool) -> None:
    inner = flow(step("x"), id="inner", result="${steps.x.result}")
    branches = (
        [step("nap", sleep=5.0), step("news", event="news")],
        [step("all", for_each=[1, 2], max_parallel=1), step("sub", workflow="inner")],
        step("q", parallel=[step("e"), [step("f"), step("g", with_={"x": "${steps.a.result}"})]]),
    )
    names = "news", "all", "sub", "g"
    result = {name: f"${{steps.{name}.result}}" for name in names}
    machine = EventMachine(flow(step("a"), step("p", parallel=branches), result=result), inner)
    run_id = machine.begin()

    def done(name: str, value: object) -> None:
        if restarts:
            held = [machine.held(run.id) for run in machine.state.runs.values() if run.worker_id is not None]
            machine.restart_with_worker(held=held)
        machine.done(f"{run_id}@{name}", value)

    done("a", "A" * 300)
    assert machine.live(run_id) == ["all", "all.0", "e", "f", "nap", "p", "q"]
    machine.advance(5)
    machine.send(run_id, "news", "N" * 300)
    for name in ("all.0", "e", "all.1", "f"):
        done(name, name.upper())
    assert machine.payload_of(f"{run_id}@g") == {"x": "A" * 300}
    done("g", 7)
    assert machine.live(run_id) == ["p", "sub", "sub@x"]
    done("sub@x", "X" * 300)
    assert machine.state_of(run_id) is S.SUCCEEDED
    assert machine.result_of(run_id) == {"news": "N" * 300, "all": ["ALL.0", "ALL.1"], "sub": "X" * 300, "g": 7}


@pytest.mark.behaviour("WFL-2")
def test_a_parallel_step_may_follow_an_error_and_runs_to_its_end() -> None:
    mend = step("mend", parallel=[[step("b"), step("c", with_={"why": "${steps.a.error}"})], step("d")])
    machine = FlowMachine(flow(step("a", on_error=OnError(step="mend")), step("z"), mend))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    assert machine.live(run_id) == ["b", "d", "mend"]
    machine.done(f"{run_id}@b")
    assert machine.payload_of(f"{run_id}@c") == {"why": "boom"}
    machine.done(f"{run_id}@d")
    machine.done(f"{run_id}@c")
    assert ended(machine, run_id)["mend"] is S.SUCCEEDED
    assert machine.state_of(run_id) is S.FAILED


@pytest.mark.behaviour("WFL-7")
@pytest.mark.parametrize(
    ("begin", "live", "taken"),
    [
        ("z", None, "p"),
        ("c", ["c", "p"], "abd"),
        ("b", ["b", "p"], "ad"),
        ("p", ["b", "d", "p"], "a"),
        ("a", ["a"], ""),
    ],
)
def test_a_workflow_runs_again_from_a_step_inside(begin: str, live: list[str] | None, taken: str) -> None:
    machine = FlowMachine(both(*TWO))
    run_id = machine.begin()
    for name in "abd":
        machine.done(f"{run_id}@{name}", name)
    machine.fail(f"{run_id}@c")
    again = retry(machine, run_id, begin)
    if live is None:
        assert str(again) == "from: 'z': step 'c' before it failed; begin with that one"
        return
    assert machine.live(again) == live
    assert "".join(sorted(name for name, state in ended(machine, again).items() if state is S.SUCCEEDED)) == taken
    machine.play(again, lambda name: name)
    assert machine.result_of(again) == {"z": "z", "b": "b", "p": "succeeded"}


@pytest.mark.behaviour("WFL-7")
@pytest.mark.parametrize("on_error", [CONTINUE, OnError(step="mend", then=Then.CONTINUE)])
def test_a_parallel_step_that_the_workflow_went_on_after_is_taken_over_with_what_is_inside(on_error: OnError) -> None:
    handlers = [step("mend")] if on_error.step else []
    machine = FlowMachine(both(*TWO, on_error=on_error, handlers=handlers))
    run_id = machine.begin()
    machine.done(f"{run_id}@a")
    machine.fail(f"{run_id}@b")
    machine.done(f"{run_id}@d", outcome="cancelled" if handlers else "succeeded")
    if handlers:
        machine.done(f"{run_id}@mend")
    machine.fail(f"{run_id}@z")
    old = ended(machine, run_id)
    again = retry(machine, run_id, "z")
    assert machine.live(again) == ["z"]
    assert ended(machine, again) == old | {"z": S.DISPATCHED}
    machine.done(f"{again}@z", 1)
    assert machine.state_of(again) is S.SUCCEEDED


@pytest.mark.behaviour("RUN-22")
def test_a_parallel_step_is_not_taken_for_a_lost_run() -> None:
    machine = EventMachine(flow(step("p", parallel=[step("e", event="e"), step("q", parallel=[step("f", event="f")])])))
    run_id = machine.begin()
    machine.advance(3600)
    assert swept(machine) == []
    assert machine.live(run_id) == ["event.e.1", "event.f.1", "p", "q"]


@pytest.mark.behaviour("WFL-5")
def test_a_sub_workflow_inside_undoes_its_steps_if_a_cancel_asks_for_it() -> None:
    inner = flow(step("x", compensate=Compensate(job="clean", with_={})), step("y"), id="inner")
    machine = FlowMachine(flow(step("p", parallel=[step("sub", workflow="inner")])), inner)
    run_id = machine.begin()
    machine.done(f"{run_id}@sub@x")
    machine.step(("client", CancelRun(6, run_id, "stop", compensate=True).by(actor="ann")))
    machine.done(f"{run_id}@sub@y", outcome="cancelled")
    assert machine.live(run_id) == ["p", "sub", "sub@comp-x"]
    machine.done(f"{run_id}@sub@comp-x")
    assert machine.state_of(run_id) is S.CANCELLED


@pytest.mark.behaviour("WFL-7")
def test_a_parallel_step_with_one_that_was_undone_inside_begins_again() -> None:
    branches = step("b", compensate=Compensate(job="clean", with_={})), step("c")
    machine = FlowMachine(flow(step("p", parallel=branches), step("y", needs=()), step("z", needs=("p", "y"))))
    run_id = machine.begin()
    for name in ("b", "c"):
        machine.done(f"{run_id}@{name}")
    machine.fail(f"{run_id}@y")
    machine.done(f"{run_id}@comp-b")
    again = retry(machine, run_id, "y")
    assert machine.live(again) == ["b", "p", "y"]
    assert machine.state_of(f"{again}@c") is S.SUCCEEDED
