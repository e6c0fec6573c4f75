"""The state table, pair by pair, against a table written down a second time from the contract."""

import itertools
from random import Random

import pytest

from interlock.core.facts import Facts
from interlock.core.lanes.fill import enqueue
from interlock.core.state import DEFAULT_LANES, CoreLimits
from interlock.core.step import new_state
from interlock.core.transition import Pass
from interlock.error import InvalidTransition
from interlock.model.job import Job
from interlock.model.lane import with_limits
from interlock.model.run import Run
from interlock.model.state import ALLOWED, HOLDS_SLOT, TERMINAL, State
from soak.simulation.history import replay
from tests.core.machine import Machine

CONTRACT = {
    "prerun": "pending skipped cancelled failed",
    "pending": "approval_required condition_pending scheduled under_way denied cancelled failed timeout",
    "approval_required": "pending denied cancelled timeout",
    "condition_pending": "condition_running cancelled failed timeout",
    "condition_running": "action_pending scheduled cancelled failed timeout",
    "action_pending": "action_running cancelled failed timeout",
    "action_running": "condition_pending scheduled skipped cancelled failed timeout",
    "scheduled": "pending dispatched under_way skipped cancelled failed timeout",
    "under_way": "succeeded output_quarantined failed timeout cancelled denied",
    "dispatched": "starting running scheduled retrying cancelled failed timeout orphaned",
    "starting": "running retrying cancelled failed timeout orphaned",
    "running": "terminating retrying cancelled failed timeout orphaned",
    "terminating": "succeeded failed timeout retrying output_quarantined cancelled orphaned",
    "retrying": "pending cancelled failed timeout orphaned",
    "succeeded": "output_quarantined",
    "failed": "",
    "timeout": "",
    "cancelled": "",
    "denied": "",
    "skipped": "",
    "orphaned": "",
    "output_quarantined": "",
}
ENDS = {"succeeded", "failed", "timeout", "cancelled", "denied", "skipped", "orphaned", "output_quarantined"}

PAIRS = list(itertools.product(CONTRACT, CONTRACT))


def run_in(state: State) -> tuple[Pass, Run]:
    """A run in any state; one that has not ended is in books of its own."""
    scheduler = new_state(CoreLimits(), with_limits(DEFAULT_LANES))
    p = Pass(state=scheduler, now=2000.0, elapsed=10.0, rng=Random(0), facts=Facts())
    run = Run(
        "r1",
        "work",
        "default",
        None,
        None,
        1000.0,
        1000.0,
        b"{}",
        None,
        "test",
        None,
        "v1",
        "main",
        state,
        None,
        "put",
        "test",
        1500.0,
    )
    run.seq = 7
    if state in TERMINAL:
        run.ended_at = 1500.0
    else:
        scheduler.runs[run.id] = run
    if state in HOLDS_SLOT:
        scheduler.lanes["main"].holding[run.id] = run
    elif state is State.SCHEDULED:
        scheduler.versions["v1"] = Job(id="work", version="v1")
        enqueue(scheduler, run)
    return p, run


def test_the_table_knows_every_state_of_the_contract_and_no_other() -> None:
    assert {str(state) for state in State} == set(CONTRACT)
    assert len(PAIRS) == 22 * 22
    assert set(ALLOWED) == set(State)


@pytest.mark.behaviour("RUN-1")
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_only_the_transitions_of_the_contract_succeed(before: str, after: str) -> None:
    p, run = run_in(State(before))
    untouched = repr(run)
    if after in CONTRACT[before].split():
        p.move(run, State(after), "because", "somebody")
        assert (run.state, run.previous, run.reason, run.actor, run.seq) == (after, before, "because", "somebody", 8)
        assert run.changed_at == 2000.0
        return
    with pytest.raises(InvalidTransition) as caught:
        p.move(run, State(after), "because", "somebody")
    assert f"{before} cannot become {after}" in str(caught.value)
    assert (caught.value.before, caught.value.after, caught.value.code) == (before, after, "invalid_transition")
    assert repr(run) == untouched
    decisions = p.finish()
    assert not decisions.batch
    assert not decisions.ended
    assert p.state.runs == ({} if before in ENDS else {run.id: run})
    assert (run.id in p.state.lanes["main"].holding) == (State(before) in HOLDS_SLOT)


@pytest.mark.behaviour("RUN-4")
def test_terminal_states_are_those_of_the_contract_and_lead_nowhere() -> None:
    assert {str(state) for state in TERMINAL} == ENDS
    for end, after in itertools.product(ENDS, CONTRACT):
        p, run = run_in(State(end))
        if (end, after) == ("succeeded", "output_quarantined"):
            continue
        with pytest.raises(InvalidTransition):
            p.move(run, State(after), "because", "somebody")
        assert run.state == end


@pytest.mark.behaviour("RUN-1")
def test_the_machine_reports_a_refused_transition_and_goes_on() -> None:
    machine = Machine()
    machine.worker_up()
    broken, other = machine.submit(), machine.submit()
    # Nothing the machine does leads here, so the disorder is made by hand.
    machine.state.runs[broken].state = State.RETRYING
    stored = repr(machine.store.runs_by_id[broken])
    fence = machine.run(broken).fence

    decisions = machine.step(
        machine.finish_command(broken),
        machine.finish_command(other),
    )

    assert decisions.problems == [f"run {broken}: retrying cannot become running"]
    assert machine.state_of(broken) is State.RETRYING
    assert machine.run(broken).fence == fence
    assert repr(machine.store.runs_by_id[broken]) == stored
    assert machine.state_of(other) is State.SUCCEEDED


@pytest.mark.behaviour("RUN-3")
def test_a_history_with_a_gap_or_a_break_does_not_replay(machine: Machine) -> None:
    run_id = machine.running()
    machine.finished(run_id)
    history = machine.history(run_id)
    assert replay(history) is State.SUCCEEDED
    for place in range(len(history) - 1):
        with pytest.raises(ValueError, match="starts at"):
            replay(history[:place] + history[place + 1 :])
    with pytest.raises(ValueError, match="starts at"):
        replay([history[0], history[2], history[1], *history[3:]])
    assert replay([]) is None
