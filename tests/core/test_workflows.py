"""Workflows in the core: a run that waits for its steps, which are runs."""

from typing import Any

import pytest

from interlock.core.effects import PendingEffects
from interlock.core.explain import explain
from interlock.core.workflows.flow import Flows
from interlock.model.bulk import RunAction
from interlock.model.job import Job, Retry
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.model.tenant import TenantSpec
from interlock.model.work import JobRun
from interlock.model.workflow import OnError
from interlock.wire.request import StartBulk
from tests.core.flows import CONTINUE, MEDIA, PROBED, FlowMachine, chain, flow, step


@pytest.mark.behaviour("WFL-1", "RUN-5", "RUN-26")
def test_each_step_is_a_run_whose_id_begins_with_that_of_its_workflow() -> None:
    machine = FlowMachine(chain(result="${steps.b.result}"))
    run_id = machine.begin({"all": 5})
    assert machine.path(run_id) == [State.PENDING, State.SCHEDULED, State.UNDER_WAY]
    first = machine.run(f"{run_id}@a")
    assert (first.parent, first.root, first.created_by) == (run_id, run_id, f"run {run_id}")
    assert first.submitters == ("client",)
    machine.done(first.id, {"n": 3})
    assert machine.payload_of(f"{run_id}@b") == {"text": "got 3 of 5"}
    machine.done(f"{run_id}@b", "fine")
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.SUCCEEDED, "fine")


@pytest.mark.behaviour("WFL-1")
def test_the_pass_that_ends_a_step_starts_the_next() -> None:
    machine = FlowMachine(chain())
    run_id = machine.begin({"all": 5})
    decisions = machine.finished(f"{run_id}@a", result=b'{"n": 1}')
    assert {run.id for run in decisions.changed.values()} == {f"{run_id}@a", f"{run_id}@b"}
    assert machine.state_of(f"{run_id}@b") is State.DISPATCHED


@pytest.mark.behaviour("WFL-1")
def test_a_step_whose_condition_is_false_is_skipped_and_counts_as_done() -> None:
    machine = FlowMachine(flow(step("a", if_="${input.wanted}"), step("b"), result="${steps.a.state}"))
    run_id = machine.begin({"wanted": False})
    assert machine.path(f"{run_id}@a") == [State.PRERUN, State.SKIPPED]
    machine.done(f"{run_id}@b")
    assert machine.result_of(run_id) == "skipped"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"with_": {"x": "${input.no}"}}, "with: ${input.no} has no value: there is no 'no'"),
        ({"with_": {"x": "${input.a + 'x'}"}}, "with: ${input.a + 'x'} has no value: "),
        ({"if_": "${input.a}"}, "if: the value is a number; it must be true or false"),
        ({"job": "gone"}, "job: 'gone' is not defined"),
        ({"sleep": "${input.text}"}, "sleep: 'soon' is not a duration"),
        ({"until": "${input.text}"}, "until: 'soon' is not a time"),
    ],
)
def test_a_step_that_cannot_start_has_failed(fields: dict[str, Any], error: str) -> None:
    machine = FlowMachine(flow(step("a", **fields)))
    run_id = machine.begin({"a": 1, "text": "soon"})
    assert error in str(machine.run(f"{run_id}@a").error)
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-2")
def test_a_step_has_retries_of_its_own_and_a_lane() -> None:
    retry = Retry(max_retries=1, initial_delay=5.0, jitter=0)
    machine = FlowMachine(flow(step("a", retry=retry, lane="team"), step("b", run=JobRun(shell="true"))))
    run_id = machine.begin()
    assert machine.run(f"{run_id}@a").lane == "team"
    machine.finished(f"{run_id}@a", "failed")
    assert machine.state_of(f"{run_id}@a") is State.RETRYING
    machine.advance(5.0)
    machine.restart_with_worker()
    machine.done(f"{run_id}@a")
    assert machine.run(f"{run_id}@b").job_id == "flow.b"


@pytest.mark.behaviour("WFL-3")
def test_delays_keep_their_time_over_a_restart_and_do_not_overwrite_each_other() -> None:
    steps = step("short", sleep="1h", needs=()), step("long", sleep="30d", needs=()), step("a", needs=("short",))
    machine = FlowMachine(flow(*steps))
    run_id = machine.begin()
    assert machine.path(f"{run_id}@short") == [State.UNDER_WAY]
    machine.advance(3599)
    machine.restart()
    assert machine.live(run_id) == ["long", "short"]
    machine.advance(1)
    assert machine.live(run_id) == ["a", "long"]
    machine.wall, machine.elapsed = machine.wall + 40 * 86400, machine.elapsed + 40 * 86400
    machine.restart()
    assert machine.live(run_id) == ["a"]


@pytest.mark.behaviour("WFL-3")
def test_a_step_sleeps_until_an_instant() -> None:
    machine = FlowMachine(flow(step("a", until="${input.at}")))
    run_id = machine.begin({"at": machine.wall + 100})
    machine.advance(99.9)
    assert machine.live(run_id) == ["a"]
    assert "sleeps" in explain(machine.state, machine.run(f"{run_id}@a"), machine.now).sentence
    machine.advance(0.1)
    assert machine.state_of(run_id) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-1")
@pytest.mark.parametrize("size", [10, 5000])
def test_after_a_restart_no_ended_step_runs_again(size: int) -> None:
    machine = FlowMachine(flow(step("a"), step("b"), step("c", with_={"a": "${steps.a.result}", "in": "${input}"})))
    run_id = machine.begin({"text": "i" * size})
    machine.done(f"{run_id}@a", "r" * size)
    machine.restart_with_worker()
    machine.done(f"{run_id}@b")
    assert machine.payload_of(f"{run_id}@c") == {"a": "r" * size, "in": {"text": "i" * size}}
    machine.restart_with_worker()
    machine.done(f"{run_id}@c")
    assert machine.state_of(run_id) is State.SUCCEEDED
    assert [name for name in machine.dispatched() if name.endswith("@a")] == [f"{run_id}@a"]


@pytest.mark.behaviour("WFL-1")
def test_a_sub_workflow_is_a_step() -> None:
    inner = flow(step("x", with_={"n": "${input.n}"}), id="inner", result="${steps.x.result}")
    machine = FlowMachine(flow(step("a", workflow="inner", with_={"n": 4}), result="${steps.a.result}"), inner)
    run_id = machine.begin()
    assert machine.live(run_id) == ["a", "a@x"]
    assert machine.run(f"{run_id}@a@x").root == run_id
    machine.done(f"{run_id}@a@x", 7)
    assert machine.result_of(run_id) == 7


@pytest.mark.behaviour("WFL-13")
def test_at_most_16_levels() -> None:
    machine = FlowMachine(flow(step("a", workflow="flow")))
    run_id = machine.begin()
    deepest = max(machine.store.runs_by_id, key=len)
    assert deepest == run_id + "@a" * 16
    assert machine.run(deepest).reason == "workflows are nested more than 16 levels deep"
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("WFL-8")
def test_a_lane_of_one_slot_with_workflow_sub_workflow_and_steps_in_it() -> None:
    inner = flow(step("x"), step("y"), id="inner", lane="one")
    jobs = Job(id="one-work", lane="one"), inner
    machine = FlowMachine(
        flow(step("a", job="one-work"), step("b", workflow="inner"), lane="one"), *jobs, lanes={"one": 1, "main": 1}
    )
    runs = [machine.begin() for _ in range(3)]
    for run_id in runs:
        assert machine.play(run_id, lambda name: 1) is State.SUCCEEDED


@pytest.mark.behaviour("WFL-8")
def test_a_workflow_needs_no_worker_and_waits_only_for_its_lane() -> None:
    machine = FlowMachine(flow(step("a", sleep="1s"), lane="team"), lanes={"team": 1, "main": 1})
    machine.worker_down()
    run_id = machine.begin()
    assert machine.state_of(run_id) is State.UNDER_WAY
    machine.advance(1)
    assert machine.state_of(run_id) is State.SUCCEEDED


def test_the_older_workflow_finishes_first() -> None:
    machine = FlowMachine(flow(step("a"), step("b")), lanes={"main": 1})
    first, second = machine.begin(), machine.begin()
    machine.done(f"{first}@a")
    assert machine.dispatched()[-1] == f"{first}@b"
    machine.done(f"{first}@b")
    assert machine.dispatched()[-1] == f"{second}@a"


@pytest.mark.behaviour("RUN-21")
def test_explain_names_the_steps_that_a_workflow_waits_for() -> None:
    machine = FlowMachine(MEDIA)
    run_id = machine.begin({"url": "x"})
    explanation = explain(machine.state, machine.run(run_id), machine.now)
    assert explanation.reasons[0].holders == [f"{run_id}@probe"]
    assert "waits for step probe (dispatched)" in explanation.sentence


@pytest.mark.behaviour("WFL-11")
def test_a_live_run_keeps_the_graph_that_it_began_with() -> None:
    machine = FlowMachine(flow(step("a"), step("b")))
    run_id = machine.begin()
    machine.jobs[0] = flow(step("z"))
    machine.step(("", machine.define()))
    machine.restart_with_worker()
    machine.done(f"{run_id}@a")
    assert machine.live(run_id) == ["b"]


@pytest.mark.behaviour("RUN-22")
def test_a_lost_answer_is_asked_for_again() -> None:
    machine = FlowMachine(
        flow(step("a"), step("b", with_={"a": "${steps.a.result}"}), step("c", with_={"a": "${steps.a.result}"}))
    )
    run_id = machine.begin()
    machine.done(f"{run_id}@a", "r" * 1000)
    machine.holds_answers = True
    machine.done(f"{run_id}@b")
    assert machine.state.of(PendingEffects).pending
    machine.answers.clear()
    machine.holds_answers = False
    machine.advance(5.1)
    assert machine.live(run_id) == ["c"]
    assert machine.state.of(Flows)[run_id].read == {}


BRANCHES = flow(
    step("a"),
    step("p", parallel=[
        [step("b"), step("c", with_={"b": "${steps.b.result}"})], step("d"), step("q", parallel=[step("e"), step("f")]),
    ], on_error=OnError(step="mend")),
    step("mend", with_={"e": "${steps.e.result}"}),
    step("z", with_={"c": "${steps.c.result}"}),
    result=["${steps.z.result}", "${steps.f.result}"],
)  # fmt: skip


@pytest.mark.behaviour("WFL-1", "REC-6")
@pytest.mark.parametrize("fails", ["", "encode.1", "c"])
@pytest.mark.parametrize("workflow", [MEDIA, BRANCHES], ids=["media", "branches"])
def test_killed_after_every_commit_it_comes_to_the_same_end_with_the_same_steps(workflow: Job, fails: str) -> None:
    def play(killed_after: int) -> tuple[State, Any, list[str]]:
        machine = FlowMachine(workflow)
        run_id = machine.begin({"url": "x" * 300})
        passes = 0
        while run_id in machine.state.runs:
            passes += 1
            if passes == killed_after:
                machine.restart()
                held = [machine.held(run.id) for run in machine.state.runs.values() if run.worker_id is not None]
                machine.worker_up(held=held)
            executing = sorted(run.id for run in machine.state.runs.values() if run.worker_id is not None)
            name = executing[-1].partition("@")[2]
            if machine.run(executing[-1]).stop is not None:
                machine.done(executing[-1], outcome="cancelled")
            elif name == fails:
                machine.fail(executing[-1])
            else:
                machine.done(executing[-1], PROBED if name == "probe" else name * 100)
        return machine.state_of(run_id), machine.result_of(run_id), machine.dispatched()

    undisturbed = play(0)
    failing = {"encode.1"} if workflow is MEDIA else {"c"}
    assert undisturbed[0] is (State.FAILED if fails in failing else State.SUCCEEDED)
    for number in range(1, 10):
        assert play(number) == undisturbed


@pytest.mark.behaviour("RUN-25")
def test_a_retry_of_many_leaves_steps_to_their_workflow() -> None:
    machine = FlowMachine(flow(step("a")))
    run_id = machine.begin()
    machine.fail(f"{run_id}@a")
    machine.step(("client", StartBulk(3, "again", RunAction.RETRY, RunFilter(), "again", "ann")))
    machine.step()
    again = [run for run in machine.store.runs_by_id.values() if run.id not in (run_id, f"{run_id}@a")]
    assert [run.job_id for run in again] == ["flow", "work"]
    assert again[1].id == f"{again[0].id}@a"


@pytest.mark.behaviour("SEC-5")
def test_a_secret_stays_one_in_the_values_of_a_workflow() -> None:
    whole = step("a", with_={"token": "${input.token}", "cel": "${'x' + input.token}"})
    longer = step("b", with_={"header": "Bearer ${input.token}"}, on_error=CONTINUE)
    machine = FlowMachine(flow(whole, longer, step("c", sleep="${input.token}"), result="${input}"))
    run_id = machine.begin({"token": {"$secret": "hunter2"}})
    assert machine.payload_of(f"{run_id}@a") == {"token": {"$secret": "hunter2"}, "cel": "x•••"}
    machine.done(f"{run_id}@a")
    assert "a secret cannot be a part of a longer text" in str(machine.run(f"{run_id}@b").error)
    assert "hunter2" not in str(machine.run(f"{run_id}@c").error)
    machine = FlowMachine(flow(step("a"), result="${input}"))
    run_id = machine.begin({"token": {"$secret": "hunter2"}})
    machine.done(f"{run_id}@a")
    run = machine.run(run_id)
    assert (run.state, run.result, "hunter2" in str(run.error)) == (State.FAILED, None, False)


@pytest.mark.behaviour("RUN-26", "WFL-14")
def test_a_step_gets_no_lane_that_its_tenant_may_not_use() -> None:
    machine = FlowMachine(flow(step("a", lane="team")), tenants={"acme": TenantSpec(lanes=("main",))})
    run_id = machine.begin(tenant="acme")
    assert machine.run(f"{run_id}@a").error == "lane: 'team' is not a lane of tenant 'acme'; use one of main"
    assert machine.state_of(run_id) is State.FAILED


@pytest.mark.behaviour("SES-4")
def test_workflows_of_a_session_do_not_collapse() -> None:
    machine = FlowMachine(flow(step("a", with_={"n": "${input.n}"})))
    runs = [machine.begin({"n": number}, session="s") for number in (1, 2)]
    machine.advance(0.8)
    machine.done(f"{runs[0]}@a")
    machine.done(f"{runs[1]}@a")
    assert [machine.state_of(run_id) for run_id in runs] == [State.SUCCEEDED] * 2
    assert [machine.payload_of(f"{run_id}@a") for run_id in runs] == [{"n": 1}, {"n": 2}]


@pytest.mark.behaviour("WFL-1")
def test_a_record_that_was_read_before_another_recovery_does_not_count() -> None:
    machine = FlowMachine(flow(step("a"), step("b")))
    run_id = machine.begin()
    machine.holds_answers = True
    machine.recover()
    stale = list(machine.answers)  # `a` had not ended yet
    assert stale
    machine.advance(1)
    machine.worker_up(held=[machine.held(f"{run_id}@a")])
    machine.done(f"{run_id}@a")
    machine.recover()
    machine.answers = stale
    machine.holds_answers = False
    machine.advance(1)
    assert f"{run_id}@a" not in machine.state.runs
    machine.worker_up()
    machine.advance(10)
    assert machine.live(run_id) == ["b"]
