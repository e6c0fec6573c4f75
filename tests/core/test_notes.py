"""Notes: lines about a run, live or ended, that are no transitions."""

import pytest

from interlock.core.facts import Facts
from interlock.core.transition import Pass
from interlock.model.explanation import explain_end
from interlock.model.facets import Note
from interlock.model.run import stats_of
from interlock.model.state import State
from tests.core.machine import START, Machine

END = State.CANCELLED


def a_pass(machine: Machine, *ended: str) -> Pass:
    runs = {one: machine.store.runs_by_id[one] for one in ended}
    return Pass(state=machine.state, now=machine.wall, elapsed=machine.elapsed, rng=machine.rng, facts=Facts(runs=runs))


@pytest.mark.behaviour("RUN-3")
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_note_leaves_state_and_history_as_they_are(machine: Machine, is_ended: bool) -> None:
    run_id = machine.submit()
    if is_ended:
        machine.cancel(run_id)
    before, history = machine.run(run_id), machine.history(run_id)
    state, seq, reason = before.state, before.seq, before.reason
    p = a_pass(machine, *[run_id] * is_ended)
    run = p.find(run_id)
    assert run is not None
    p.note(run, "in vain")
    p.note(run, "in vain again")
    machine.store.apply(p.finish().batch)
    machine.restart()
    after = machine.run(run_id)
    assert after.notes == (Note(START, "in vain"), Note(START, "in vain again"))
    assert (after.state, after.seq, after.reason) == (state, seq, reason)
    assert machine.history(run_id) == history
    assert stats_of(after, history, START).transitions == len(history)
    assert not is_ended or explain_end(after).notes == after.notes


@pytest.mark.behaviour("RUN-3")
@pytest.mark.parametrize("note_first", [False, True])
def test_a_note_is_kept_with_what_else_a_pass_does_to_the_run(machine: Machine, note_first: bool) -> None:
    run_id = machine.submit()
    p = a_pass(machine)
    run = machine.run(run_id)
    if note_first:
        p.note(run, "in vain")
    p.move(run, END, "enough")
    if not note_first:
        p.note(run, "in vain")
    machine.store.apply(p.finish().batch)
    stored = machine.store.runs_by_id[run_id]
    assert (stored.state, stored.notes) == (END, (Note(START, "in vain"),))


def test_the_latest_fifty_notes_of_500_characters_are_kept(machine: Machine) -> None:
    run_id = machine.submit()
    for number in range(60):
        p = a_pass(machine)
        p.note(machine.run(run_id), f"{number} " + "x" * 1000)
        machine.store.apply(p.finish().batch)
    notes = machine.store.runs_by_id[run_id].notes
    assert [int(note.text.split()[0]) for note in notes] == list(range(10, 60))
    assert {len(note.text) for note in notes} == {500}
