"""A workflow tried dry: the real scheduler on virtual time, with steps that only take time and return what is given.

The function of a workflow takes its turns here: it has no effect but the steps that it asks for."""

import asyncio
import io
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from random import Random
from typing import Any, TypeVar

import msgspec

from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.core.decisions import Batch
from interlock.engine.catalog import Catalog
from interlock.error import WaitTimeout
from interlock.interface.run_builder import new_run
from interlock.interface.run_view import RunInfo, info_of
from interlock.model.failure import Outcome
from interlock.model.state import State
from interlock.simulation.virtual import TimedExecutor, VirtualLoop
from interlock.simulation.virtual_cluster import VirtualCluster, quiet
from interlock.stores.memory import MemoryStore
from interlock.wire.approval_request import ApproveRun
from interlock.wire.message import Dispatch, Finished, Started
from interlock.wire.turn import Fail, TurnEnd
from interlock.worker.attempt_end import AttemptEnd
from interlock.worker.context import Context
from interlock.worker.definition import Definition
from interlock.worker.workflow_turn import take_turn

T = TypeVar("T")

LONGEST = 366 * 86400.0  # seconds of virtual time
MOST_TURNS = 2000  # of functions: one may begin rounds for ever
APPROVER = "plan"  # who answers every question with yes
NULL = b"null"


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow run to try. Steps are named as in ids: `encode`, `encode.1` for an item, `part@probe` below a step."""

    workflow: str
    payload: dict[str, Any] | None
    start: float
    results: Mapping[str, bytes]  # by step; others return null
    failing: frozenset[str]  # steps whose attempts fail
    lengths: Mapping[str, float]  # by step, in seconds
    length: float  # of all other steps
    definitions: Mapping[str, Definition] = {}  # functions of the app, by job


class _StepExecutor(TimedExecutor):
    def __init__(self, dry: DryRun) -> None:
        super().__init__({}, frozenset())
        self._dry = dry
        self._turns = 0

    def start(self, attempt: Dispatch) -> None:
        if attempt.record is None:
            super().start(attempt)
            return
        self._report(Started(*attempt.key))
        end = self._turn(attempt, attempt.record)
        asyncio.get_running_loop().call_soon(self._report, Finished(*attempt.key, **end._asdict()))

    def _turn(self, attempt: Dispatch, record: bytes) -> AttemptEnd:
        self._turns += 1
        if self._turns > MOST_TURNS:
            error = f"plan: stopped after {MOST_TURNS:,} turns"
            return AttemptEnd(Outcome.SUCCEEDED, msgspec.json.encode(TurnEnd([Fail(error=error)])))
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                return take_turn(self._dry.definitions[attempt.handler], record, Context(attempt, lambda message: None))
        finally:
            asyncio._set_running_loop(loop)

    def length_of(self, attempt: Dispatch) -> float:
        return named(self._dry.lengths, attempt.run_id, self._dry.length)

    def result_of(self, attempt: Dispatch) -> bytes | None:
        if named(dict.fromkeys(self._dry.failing, True), attempt.run_id, False):
            return None
        return named(self._dry.results, attempt.run_id, NULL)


def named(given: Mapping[str, T], run_id: str, otherwise: T) -> T:
    """Return what is given for a step, or for the group that it is an item of."""
    name = run_id.partition("@")[2]
    return given.get(name, given.get(name.rpartition(".")[0], otherwise))


class _Approving(MemoryStore):
    """Notes the runs that wait for a person."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: asyncio.Queue[str] = asyncio.Queue()

    def apply(self, batch: Batch) -> None:
        super().apply(batch)
        for run_id, entries in batch.history:
            if entries[-1].after is State.APPROVAL_REQUIRED:
                self.asked.put_nowait(run_id)


def try_dry(catalog: Catalog, dry: DryRun) -> list[RunInfo]:
    """Run a workflow on virtual time, and return it and its steps, the newest first. Every approval is given."""
    with quiet(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_try(catalog, dry))


async def _try(catalog: Catalog, dry: DryRun) -> list[RunInfo]:
    store = _Approving()
    cluster = VirtualCluster(store, catalog, dry.start, Random(0))
    known = [job.function_of or job.id for job in catalog.jobs]
    needed = sorted({capability for job in catalog.jobs for capability in job.requires})
    cluster.add_worker(_StepExecutor(dry), known, slots=1000, capabilities=needed)
    await cluster.start()
    connection = Connection(cluster.bus)
    await connection.open()
    approving = asyncio.create_task(_approve_all(store, connection))
    try:
        (handle,) = await submit(connection, [new_run(dry.workflow, dry.payload, now=dry.start)])
        with suppress(WaitTimeout):  # it waits for something that does not come; its steps show for what
            await connection.ending(handle.id, LONGEST)
    finally:
        approving.cancel()
        await connection.close()
        await cluster.stop()
    return [info_of(run) for run in reversed(store.runs_by_id.values())]


async def _approve_all(store: _Approving, connection: Connection) -> None:
    while True:
        run_id = await store.asked.get()
        await connection.ask(ApproveRun(0, run_id, "assumed by the plan").by(actor=APPROVER))
