"""A workflow that is run again from a step: the steps before it are taken over, and nothing of them runs again."""

from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.model.job import Job
from interlock.model.state import State
from interlock.model.workflow import OnError, Then, Workflow
from interlock.wire.message import Dispatch
from interlock.wire.run_request import RetryRun
from tests.core.flows import FlowMachine, flow, step
from tests.core.machine import acted_on
from tests.core.test_workflow_events import EventMachine

pytestmark = pytest.mark.behaviour("WFL-7", "RUN-23")
MEDIA = flow(
    step("probe", with_={"url": "${input.url}"}),
    step("encode", for_each="${steps.probe.result}", with_={"chunk": "${item}"}, on_error=OnError(step="clean")),
    step("count", needs=("probe",)),
    step(
        "join", needs=("encode", "count"), with_={"parts": "${steps.encode.result}", "count": "${steps.count.result}"}
    ),
    step("clean"),
    result="${steps.join.result}",
)


def retry(machine: FlowMachine, run_id: str, name: str, key: str = "") -> Any:
    """The id of the new run, or the error."""
    ((_, answer),) = machine.step(("ann", RetryRun(1, run_id, "", from_step=name).by(actor="ann", key=key))).answers
    if isinstance(answer, Failed):
        return answer.error
    return acted_on(answer).id


def media(*ends: str) -> tuple[FlowMachine, str]:
    """A run whose steps probe and encode have succeeded, and then one has failed."""
    machine = FlowMachine(MEDIA)
    run_id = machine.begin({"url": "u"})
    machine.done(f"{run_id}@probe", ["a", "b"])
    for item in (0, 1):
        machine.done(f"{run_id}@encode.{item}", "x" * 300 + str(item))
    machine.done(f"{run_id}@count", 2)
    machine.fail(f"{run_id}@join")
    assert machine.state_of(run_id) is State.FAILED
    return machine, run_id


def dispatched(machine: FlowMachine, run_id: str) -> list[str]:
    return [sent.run_id.removeprefix(run_id) for sent in machine.messages(Dispatch) if sent.run_id.startswith(run_id)]


def test_the_steps_before_it_keep_their_results_and_do_not_run() -> None:
    machine, old = media()
    new = retry(machine, old, "join")
    assert machine.live(new) == ["join"]
    assert machine.payload_of(f"{new}@join") == {"parts": ["x" * 300 + "0", "x" * 300 + "1"], "count": 2}
    machine.done(f"{new}@join", "movie")
    assert (machine.state_of(new), machine.result_of(new)) == (State.SUCCEEDED, "movie")
    assert dispatched(machine, new) == ["@join"]
    probe = machine.store.runs_by_id[f"{new}@probe"]
    assert (probe.state, probe.job_id, probe.reason) == (
        State.SUCCEEDED, "interlock.taken_over", f"taken over from {old}@probe",
    )  # fmt: skip
    facets = machine.store.runs_by_id[new].facets
    assert facets is not None
    assert facets.retry_of is not None
    assert facets.retry_of.run_id == old


def test_a_restart_before_and_after_its_start_runs_nothing_again() -> None:
    machine, old = media()
    new = retry(machine, old, "encode")
    machine.restart()
    assert machine.live(new) == ["encode", "encode.0", "encode.1"]
    for item in (0, 1):
        machine.done(f"{new}@encode.{item}", item)
    machine.restart()
    assert machine.live(new) == ["join"]
    assert machine.payload_of(f"{new}@join") == {"parts": [0, 1], "count": 2}


def test_a_branch_beside_it_that_has_ended_is_taken_over_too() -> None:
    machine, old = media()
    new = retry(machine, old, "count")
    assert machine.live(new) == ["count"]


def test_a_run_again_of_a_run_again() -> None:
    machine, old = media()
    new = retry(machine, old, "join")
    machine.fail(f"{new}@join")
    newest = retry(machine, new, "join")
    assert machine.live(newest) == ["join"]
    assert machine.payload_of(f"{newest}@join")["count"] == 2


def test_the_same_key_is_the_same_run() -> None:
    machine, old = media()
    assert retry(machine, old, "join", "k") == retry(machine, old, "join", "k")


def test_skipped_and_failed_steps_that_the_workflow_went_on_from_are_taken_over() -> None:
    machine = FlowMachine(
        flow(
            step("no", if_=False),
            step("bad", on_error=OnError(step="mend", then=Then.CONTINUE)),
            step("last", with_={"was": "${steps.bad.state}", "mended": "${steps.mend.result}"}),
            step("mend"),
        )
    )
    old = machine.begin()
    machine.fail(f"{old}@bad")
    machine.done(f"{old}@mend", "better")
    machine.fail(f"{old}@last")
    new = retry(machine, old, "last")
    assert machine.live(new) == ["last"]
    assert machine.payload_of(f"{new}@last") == {"was": "failed", "mended": "better"}
    assert [machine.state_of(f"{new}@{name}") for name in ("no", "bad", "mend")] == ["skipped", "failed", "succeeded"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("joni", "from: 'joni' is not a step of workflow 'flow'; did you mean 'join'?"),
        ("encode.1", "from: 'encode.1' is not a step of workflow 'flow'; did you mean 'encode'?"),
        ("clean", "from: 'clean' runs only after an error; name the step that had it: 'encode'"),
    ],
)
def test_what_is_no_step_of_it(name: str, says: str) -> None:
    machine, old = media()
    before = dict(machine.store.runs_by_id)
    assert str(retry(machine, old, name)) == says
    assert machine.store.runs_by_id.keys() == before.keys(), "nothing is half done"


def test_a_step_whose_way_was_not_done() -> None:
    machine = FlowMachine(flow(step("a"), step("b"), step("c")))
    old = machine.begin()
    machine.fail(f"{old}@a")
    assert str(retry(machine, old, "b")) == "from: 'b': step 'a' before it failed; begin with that one"
    assert "step 'a' before it failed" in str(retry(machine, old, "c"))
    new = retry(machine, old, "a")
    assert machine.live(new) == ["a"]


def test_a_live_run_and_one_that_is_no_workflow() -> None:
    machine = FlowMachine(flow(step("a")))
    live = machine.begin()
    assert retry(machine, live, "a").code == "run_not_ended"
    plain = machine.submit("work")
    machine.done(plain)
    assert str(retry(machine, plain, "a")) == f"from: run {plain!r} is not a workflow; leave it out to run it again"


def test_a_workflow_that_is_a_function() -> None:
    machine = FlowMachine(Job(id="flow", workflow=Workflow(steps=())))
    old = machine.begin()
    machine.cancel(old)
    assert str(retry(machine, old, "a")) == f"from: 'a' is not a step that run {old!r} has asked for"


def test_a_step_behind_one_that_was_undone() -> None:
    machine = FlowMachine(flow(step("charge", compensate="refund"), step("ship"), step("mail")), Job(id="refund"))
    old = machine.begin()
    machine.done(f"{old}@charge")
    machine.done(f"{old}@ship")
    machine.fail(f"{old}@mail")
    machine.done(f"{old}@comp-charge")
    assert str(retry(machine, old, "mail")) == (
        "from: 'mail': step 'charge' before it was undone by 'comp-charge', so its result is void; "
        "run the workflow as a whole"
    )
    assert machine.live(retry(machine, old, "charge")) == ["charge"]


@pytest.mark.behaviour("WFL-4", "WFL-5")
def test_what_was_not_undone_is_undone_if_the_new_run_fails() -> None:
    definition = flow(
        step("charge", compensate="refund"),
        step("pack", for_each=[1, 2], with_={"box": "${item}"}, compensate="unpack"),
        step("ship"),
    )
    machine = FlowMachine(definition, Job(id="refund"), Job(id="unpack"))
    old = machine.begin()
    machine.done(f"{old}@charge", "c")
    machine.done(f"{old}@pack.1", "second")
    machine.done(f"{old}@pack.0", "first")
    machine.cancel(old)
    machine.done(f"{old}@ship", outcome="cancelled")
    assert machine.state_of(old) is State.CANCELLED
    new = retry(machine, old, "ship")
    machine.fail(f"{new}@ship")
    undone = []
    while machine.state_of(new) is State.UNDER_WAY:
        (name,) = machine.live(new)
        undone.append((name, machine.payload_of(f"{new}@{name}")))
        machine.done(f"{new}@{name}")
    assert undone == [
        ("comp-pack.0", {"box": 1, "result": "first"}),
        ("comp-pack.1", {"box": 2, "result": "second"}),
        ("comp-charge", {"result": "c"}),
    ]
    assert machine.state_of(new) is State.FAILED


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("restarts", [False, True])
def test_a_step_that_has_read_an_event_keeps_its_value_and_one_that_runs_again_waits_for_the_next(
    restarts: bool,
) -> None:
    machine = EventMachine(
        flow(
            step("one", event="e", needs=()),
            step("two", event="e", needs=()),
            step("event", job="work", for_each=[7], needs=(), with_={"n": "${item}"}),
            step("last", needs=("one", "two", "event"), with_={"got": "${steps.two.result}"}),
            result=["${steps.one.result}", "${steps.two.result}"],
        )
    )
    old = machine.begin()
    for value in (1, 2, "unread"):
        machine.send(old, "e", value)
    machine.done(f"{old}@event.0")
    machine.fail(f"{old}@last")
    behind = retry(machine, old, "last")
    if restarts:
        machine.restart_with_worker()
    assert machine.live(behind) == ["last"]
    assert machine.payload_of(f"{behind}@last") == {"got": 2}
    machine.done(f"{behind}@last")
    assert machine.result_of(behind) == [1, 2]
    again = retry(machine, old, "one")
    if restarts:
        machine.restart_with_worker()
    assert machine.live(again) == ["event.e.2"]
    assert machine.send(again, "e", "new").id == f"{again}@event.e.2"
    machine.done(f"{again}@last")
    assert machine.result_of(again) == ["new", 2]
