"""The snapshot of the workers: when it is written, and what a scheduler that starts makes of it."""

import pytest

from interlock.core.decisions import Batch
from interlock.core.explain import explain
from interlock.core.routing.warm_start import LOOK, MEMO, KeptWorkers
from interlock.model.explanation import Obstacle
from interlock.model.record import Memo
from interlock.model.state import State
from interlock.wire.command import StartDraining, WorkerUp
from interlock.wire.message import Leaving
from tests.core.machine import WORK, Machine

pytestmark = pytest.mark.behaviour("ROU-11")

S = State
UP = WorkerUp(
    "far", 8, 2, {WORK.id: WORK.code}, [], False, pool="gpu", capabilities=["cuda"], labels={"region": "eu"},
    tenants=frozenset({"b", "a"}),
)  # fmt: skip


def written(machine: Machine) -> bool:
    """Return whether the latest pass has written the snapshot."""
    return (Memo.kind, MEMO) in machine.last.batch.records


def test_the_snapshot_is_written_when_a_worker_joins_or_leaves_and_not_again(machine: Machine) -> None:
    assert not written(machine), "nobody has joined yet"
    machine.worker_up()
    assert written(machine)
    for _ in range(10):
        machine.running()
        machine.advance(LOOK)  # loads arrive too
        assert not written(machine)
    machine.worker_up()
    assert not written(machine), "the same worker came back"
    machine.worker_down(dead=True)
    machine.advance(LOOK)
    assert written(machine)
    assert machine.store.memos[MEMO] == b"[]"


def test_changes_within_five_seconds_share_a_snapshot(machine: Machine) -> None:
    machine.worker_up("one")
    wrote = []
    for number in range(30):
        machine.worker_up(f"more-{number}")
        wrote.append(written(machine))
        machine.advance(1.0)
        wrote.append(written(machine))
    assert sum(wrote) == 6, "in 30 seconds"
    machine.advance(5.0)
    assert machine.store.memos[MEMO].count(b'"id"') == 31


def test_a_stop_leaves_no_worker_that_has_left(machine: Machine) -> None:
    machine.worker_up()
    machine.step(("", StartDraining()))
    machine.step(("one", Leaving()))
    assert machine.store.memos[MEMO] == b"[]"


def test_a_restarted_scheduler_expects_its_workers_and_fails_no_run_meanwhile() -> None:
    machine = Machine()
    machine.step(("", UP))
    machine.state.workers["far"].drained = True
    machine.advance(5.0)
    machine.restart()
    known = machine.state.workers["far"]
    assert not known.connected
    assert (known.slots, known.processes, known.pool, known.drained) == (8, 2, "gpu", True)
    assert (known.capabilities, known.labels, known.tenants) == (["cuda"], {"region": "eu"}, {"a", "b"})
    assert machine.state.of(KeptWorkers).warm_until == machine.elapsed + machine.limits.silence
    run_id = machine.submit(tenant="a")
    (fit,) = explain(machine.state, machine.state.runs[run_id], machine.now).workers
    assert (fit.id, fit.obstacle) == ("far", Obstacle.DISCONNECTED)
    machine.advance(machine.limits.silence - 0.01)
    assert machine.path(run_id) == [S.PENDING, S.SCHEDULED], "no look in vain is counted"
    machine.step(("", UP))
    assert machine.state.workers["far"].drained, "what a person asked for outlasts a restart"
    assert machine.warned == []


def test_a_hello_wins_over_the_snapshot_and_gets_the_work_at_once(machine: Machine) -> None:
    machine.worker_up("one", slots=1)
    machine.restart()
    first, second = machine.submit_many(2)
    assert machine.dispatched() == []
    machine.worker_up("one", slots=5)
    assert machine.dispatched() == [first, second]


def test_a_worker_that_does_not_come_back_is_forgotten_after_the_silence(machine: Machine) -> None:
    machine.worker_up()
    machine.restart()
    machine.advance(machine.limits.silence - 0.01)
    assert list(machine.state.workers) == ["one"]
    machine.advance(0.02)
    assert not machine.state.workers
    machine.advance(LOOK)
    machine.restart()
    assert not machine.state.workers
    assert machine.state.of(KeptWorkers).warm_until == 0.0


@pytest.mark.parametrize(
    "memo", [b"", b"[", b"\xff\xfe", b"{}", b'[{"slots": 3}]', b'[{"id": "one", "slots": "x"}]', b"[" * 100_000]
)
def test_a_snapshot_that_cannot_be_read_means_a_cold_start_with_a_warning(machine: Machine, memo: bytes) -> None:
    machine.worker_up()
    machine.store.put_record(Memo(MEMO, memo))
    machine.restart()
    assert not machine.state.workers
    assert machine.state.of(KeptWorkers).warm_until == 0.0
    (warning,) = machine.warned
    assert warning.startswith("the snapshot of the workers cannot be read, so none is expected back: ")
    machine.worker_up()
    run_id = machine.submit()
    assert machine.dispatched() == [run_id]
    machine.restart()
    assert list(machine.state.workers) == ["one"], "the next snapshot is whole"
    assert len(machine.warned) == 1


def test_a_missing_snapshot_is_told_of_if_there_were_workers(machine: Machine) -> None:
    machine.restart()
    assert machine.warned == []
    machine.running()
    machine.store.apply(Batch(records={(Memo.kind, MEMO): None}))
    machine.restart()
    assert machine.warned == ["the store has no snapshot of the workers; only those with runs are expected back"]
