"""What a pass hands to the store: state, history and result together; the same thing twice is nothing."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from interlock.core.decisions import Batch, Row
from interlock.core.facts import Facts
from interlock.core.transition import Pass
from interlock.interface.run_view import info_of
from interlock.model.facets import Facets, Hold
from interlock.model.job import Job, Retry
from interlock.model.letter import DeadLetter
from interlock.model.run import UPDATES, Run, Transition, as_fields, stats_of, update_id
from interlock.model.state import State
from interlock.stores.memory import MemoryStore
from interlock.wire.message import Checkpoint, LogMessage
from soak.simulation.history import replay
from tests.core.machine import START, Machine, retrying_job


def updated(batch: Batch, run_id: str) -> dict[str, object]:
    rows = [dict(zip(UPDATES[group], row[1:], strict=True)) for group, row in updates(batch) if row[0] == run_id]
    assert len(rows) == 1
    return rows[0]


def updates(batch: Batch) -> list[tuple[str, Row]]:
    return [(group, row) for group, rows in batch.updated.items() for row in rows]


def contents(store: MemoryStore) -> str:
    kept = (store.runs_by_id, store.entries, store.job_versions, store.keys, store.checkpoints, store.lines)
    return repr((*kept, store.all_of(DeadLetter)))


@pytest.mark.behaviour("RUN-2", "RUN-3")
def test_one_batch_carries_the_state_and_the_history_entry_that_led_to_it(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.wall += 3
    batch = machine.started(run_id).batch
    row = updated(batch, run_id)
    assert batch.history == [(run_id, [Transition(4, State.DISPATCHED, State.RUNNING, START + 3, 1, "started", "one")])]
    assert (row["state"], row["previous"], row["changed_at"], row["seq"]) == ("running", "dispatched", START + 3, 4)
    assert (row["reason"], row["actor"]) == ("started", "one")


@pytest.mark.behaviour("RUN-2", "RUN-3")
def test_a_created_run_and_its_first_entries_are_in_one_batch(machine: Machine) -> None:
    run_id = machine.submit()
    batch = machine.last.batch
    assert [row[0] for row in batch.created] == [run_id]
    created = Run(*batch.created[0])
    (of_run, entries) = batch.history[0]
    assert of_run == run_id
    assert [entry.seq for entry in entries] == [1, 2]
    assert replay(entries) is created.state is State.SCHEDULED
    assert created.seq == 2


@pytest.mark.behaviour("RUN-3")
def test_every_transition_is_one_entry_and_the_history_replays_to_the_state() -> None:
    machine = Machine(retrying_job(1))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    assert replay(machine.history(run_id)) is machine.state_of(run_id) is State.RETRYING
    machine.advance(2)
    machine.started(run_id)
    machine.finished(run_id)
    assert machine.path(run_id) == [
        "pending", "scheduled", "dispatched", "running", "terminating", "retrying",
        "pending", "scheduled", "dispatched", "running", "terminating", "succeeded",
    ]  # fmt: skip
    history = machine.history(run_id)
    assert [entry.seq for entry in history] == list(range(1, 13))
    assert [entry.attempt for entry in history] == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert all(entry.reason and entry.actor for entry in history)


def test_an_update_writes_the_group_that_changed() -> None:
    machine = Machine(retrying_job(1))
    run_id = machine.submit()
    steps: list[tuple[Callable[[], object], str]] = [
        (machine.worker_up, "entry"),
        (lambda: machine.started(run_id), "execution"),
        (lambda: machine.finished(run_id, "failed"), "all"),
        (lambda: machine.advance(2), "entry"),
        (lambda: machine.started(run_id), "execution"),
        (lambda: machine.cancel(run_id), "all"),
        (lambda: machine.finished(run_id), "execution"),
    ]
    for do, group in steps:
        do()
        assert [*machine.last.batch.updated] == [group], machine.path(run_id)


def test_a_facet_is_stored_with_the_run_until_it_is_taken_away(machine: Machine) -> None:
    run_id = machine.submit()
    run = machine.run(run_id)
    for hold, kept in ((Hold(by="ann", at=START), Facets(hold=Hold(by="ann", at=START))), (None, None)):
        p = Pass(state=machine.state, now=machine.wall, elapsed=machine.elapsed, rng=machine.rng, facts=Facts())
        p.set_facet(run, hold=hold)
        assert updated(p.finish().batch, run_id)["facets"] == run.facets == kept
        named = {"hold": {"by": "ann", "at": START}} if kept else {}
        assert info_of(run).facets == as_fields(run)["facets"] == named


@pytest.mark.parametrize("field", [name for name in Batch.__struct_fields__ if name != "position"])
def test_a_batch_with_anything_to_store_is_true(field: str) -> None:
    assert not Batch(position=7)
    something: dict[str, Any] = {field: {"all": [("r1",)]} if field == "updated" else [("r1",)]}
    assert Batch(**something)


@pytest.mark.behaviour("RUN-12", "RUN-2")
def test_the_result_is_stored_with_the_state_it_ends_in(machine: Machine) -> None:
    run_id = machine.running()
    row = updated(machine.finished(run_id, result=b'{"answer":42}', exit_code=0).batch, run_id)
    assert row["state"] == "succeeded"
    assert row["result"] == b'{"answer":42}'
    assert row["ended_at"] == machine.wall
    assert (row["outcome"], row["exit_code"]) == ("succeeded", 0)


@pytest.mark.behaviour("RUN-12")
def test_an_error_is_stored_with_the_failure(machine: Machine) -> None:
    run_id = machine.running()
    row = updated(machine.finished(run_id, "failed", error="ValueError: no", exit_code=3).batch, run_id)
    assert (row["state"], row["error"], row["exit_code"], row["result"]) == ("failed", "ValueError: no", 3, None)


@pytest.mark.behaviour("RUN-15")
def test_a_batch_applied_twice_changes_nothing() -> None:
    machine = Machine(retrying_job(1, max_crashes=1))
    batches = [machine.last.batch]
    machine.worker_up()
    run_id = machine.submit(idempotency_key="k")
    batches.append(machine.last.batch)
    batches.append(machine.started(run_id).batch)
    fence = machine.run(run_id).fence
    machine.step(
        ("one", LogMessage(run_id, fence, 1, START, "info", "hello")), ("one", Checkpoint(run_id, fence, b"1"))
    )
    batches.append(machine.last.batch)
    batches.append(machine.finished(run_id, "failed").batch)
    batches.append(machine.advance(2).batch)
    batches.append(machine.worker_down(dead=True).batch)
    assert machine.state_of(run_id) is State.ORPHANED
    stored = contents(machine.store)
    for batch in batches:
        machine.store.apply(copy.deepcopy(batch))
    assert contents(machine.store) == stored

    again = MemoryStore()
    for batch in batches:
        again.apply(batch)
        once = contents(again)
        again.apply(batch)
        assert contents(again) == once
    assert contents(again) == stored


@pytest.mark.behaviour("RUN-15")
def test_an_updates_id_is_made_of_run_attempt_and_sequence() -> None:
    assert update_id("r1", 1, 4) == update_id("r1", 1, 4)
    others = {
        update_id(*of) for of in [("r1", 1, 4), ("r2", 1, 4), ("r1", 2, 4), ("r1", 1, 5), ("r11", 1, 4), ("r1", 11, 4)]
    }
    assert len(others) == 6
    assert update_id("r1", 1, 4) == "e3a1e91e32a6f05de8689f02ddaf6139", "the id is the same in every process, for ever"


@pytest.mark.behaviour("RUN-15")
def test_no_two_updates_of_a_run_share_an_id() -> None:
    machine = Machine(retrying_job(2))
    run_id = machine.running()
    for _ in range(2):
        machine.finished(run_id, "failed")
        machine.advance(60)
        machine.started(run_id)
    machine.finished(run_id)
    ids = [update_id(run_id, entry.attempt, entry.seq) for entry in machine.history(run_id)]
    assert len(set(ids)) == len(ids) == 18


@pytest.mark.behaviour("RUN-18")
def test_a_run_records_what_it_went_through() -> None:
    retry = Retry(max_retries=1, initial_delay=2, jitter=0)
    machine = Machine(Job(id="work", retry=retry))
    run_id = machine.submit(at=START + 60)
    machine.advance(60)
    machine.advance(5)
    machine.worker_up()
    machine.advance(0.5)
    machine.started(run_id)
    machine.advance(8)
    machine.heartbeat("one", run_id)
    machine.advance(2)
    machine.finished(run_id, "failed", error="first", exit_code=1)
    machine.advance(2)
    machine.advance(0.25)
    machine.started(run_id)
    machine.advance(4)
    machine.heartbeat("one", run_id)
    machine.finished(run_id, exit_code=0)
    machine.advance(1000)

    stats = stats_of(machine.run(run_id), machine.history(run_id), machine.wall)

    assert stats.seconds_in == {
        State.PRERUN: 60.0,
        State.PENDING: 0.0,
        State.SCHEDULED: 5.0,
        State.DISPATCHED: 0.75,
        State.RUNNING: 14.0,
        State.TERMINATING: 0.0,
        State.RETRYING: 2.0,
    }
    assert (stats.transitions, stats.attempts, stats.failures, stats.crashes, stats.heartbeats) == (13, 2, 1, 0, 2)
    assert stats.start_latency == 5.5
    assert (stats.exit_code, stats.outcome) == (0, "succeeded")
    assert (stats.constraints_checked, stats.constraints_violated, stats.actions_run, stats.actions_failed) == (0,) * 4


@pytest.mark.behaviour("RUN-18")
def test_the_figures_of_a_run_that_goes_on_count_up_to_now(machine: Machine) -> None:
    run_id = machine.submit()
    machine.advance(7)
    stats = stats_of(machine.run(run_id), machine.history(run_id), machine.wall)
    assert stats.seconds_in == {State.PENDING: 0.0, State.SCHEDULED: 7.0}
    assert (stats.start_latency, stats.exit_code, stats.outcome) == (None, None, None)


def test_rows_are_copies_that_later_passes_do_not_reach(machine: Machine) -> None:
    machine.submit()
    batch = machine.last.batch
    before = msgspec.json.encode(batch.created)
    machine.worker_up()
    assert msgspec.json.encode(batch.created) == before


def test_a_batch_with_rows_of_any_kind_is_to_be_stored() -> None:
    assert not Batch(position=7)
    for name in Batch.__struct_fields__:
        if name != "position":
            assert Batch(**{name: [None]}), name  # type: ignore[arg-type]  # a row of any kind will do
