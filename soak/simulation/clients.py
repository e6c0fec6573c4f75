"""Programs that submit, wait and cancel, as impatient and forgetful as programs are."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.client.submission import submit
from interlock.error import (
    Draining,
    IdempotencyConflict,
    NotRunning,
    RunEnded,
    RunPruned,
    StoreUnavailable,
    UnknownRun,
    WaitTimeout,
)
from interlock.interface.run_builder import new_run
from interlock.model.bulk import RunAction
from interlock.model.run import RunFilter
from interlock.model.state import ALLOWED, TERMINAL, State
from interlock.wire import request as r
from interlock.wire.request import NewRun
from soak.simulation import executor as e
from soak.simulation.approvers import Approvers
from soak.simulation.cluster import Cluster
from soak.simulation.dispatchers import Dispatchers
from soak.simulation.families import Families
from soak.simulation.guards import GuardClients
from soak.simulation.link import AWAY, IN_DOUBT, SimulatedBus
from soak.simulation.loop import Process
from soak.simulation.operators import Operators
from soak.simulation.retriers import Retriers
from soak.simulation.sagas import SagaClients
from soak.simulation.scenario import JOBS, LANES, SCHEDULED, WALL
from soak.simulation.sessions import NAMES
from soak.simulation.workflows import WorkflowClients

_ENDS = (
    (e.SUCCEED, 40), (e.COMPLETE, 4), (e.FAIL, 16), (e.LATER, 4), (e.WRONG, 3), (e.GARBLED, 3), (e.FATAL, 4),
    (e.GIVE_UP, 2), (e.CRASH, 9), (e.IGNORE, 5), (e.HANG, 4), (e.STUBBORN, 3), (e.RETURN, 4),
)  # fmt: skip
_NEVER_ENDS = (e.HANG, e.STUBBORN)


class Clients:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._invariants = cluster.invariants
        self._scenario = cluster.scenario
        self._rng = cluster.random("clients")
        self._session_rng = cluster.random("sessions")
        self._by_key: dict[str, str] = {}
        self._waiting: dict[str, None] = {}
        self.busy = 0
        self.submitted = 0
        self.refused = 0
        self._followed = 0

    def start(self) -> None:
        rng = self._rng
        for number in range(self._scenario.clients):
            process = Process(self.cluster.loop, f"client-{number}")
            connection = Connection(SimulatedBus(self.cluster.network, process), patience=1000.0)
            share = self._scenario.runs // self._scenario.clients
            while share > 0:
                size = 1 if rng.random() < 0.7 else min(share, rng.randint(2, 5))
                share -= size
                process.spawn(self._one_submit(connection, process, size, rng.uniform(0, self._scenario.duration)))
            for place in range(number, self._scenario.bulks, self._scenario.clients):
                process.spawn(self._one_bulk(connection, f"bulk-{place}", rng.uniform(0, self._scenario.duration)))

        others: dict[type[Any], bool | int] = {
            Retriers: self._scenario.retries,
            Operators: self._scenario.lanes,
            GuardClients: self._scenario.guards,
            Approvers: self._scenario.policy,
            Dispatchers: self._scenario.routes,
            Families: self._scenario.families,
            WorkflowClients: self._scenario.workflows,
            SagaClients: self._scenario.sagas,
        }
        for kind, is_wanted in others.items():
            if is_wanted:
                kind(self).start()

    def wait_for(self, name: str, on: bool = True) -> None:
        """Note something that a client waits for, or no longer does."""
        if on:
            self._waiting[name] = None
        else:
            del self._waiting[name]

    def waiting(self) -> list[str]:
        return list(self._waiting)

    # ── submitting ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _one_submit(self, connection: Connection, process: Process, size: int, when: float) -> None:
        self.busy += 1
        await asyncio.sleep(when)
        runs = [self._run() for _ in range(size)]
        began = self.cluster.loop.time()
        handles = await self.submit(connection, runs)
        self.submitted += len(handles)
        for new, handle in zip(runs, handles, strict=False):
            if new.idempotency_key is not None:
                first = self._by_key.setdefault(new.idempotency_key, handle.id)
                if first != handle.id and first not in self._invariants.lost:
                    self._invariants.fail(f"key {new.idempotency_key} was answered with {first} and {handle.id}")
            else:
                self._invariants.spans.submitted[handle.id] = began
            process.spawn(self.follow(handle, new))
        self.busy -= 1

    def _run(self) -> NewRun:
        rng = self._rng
        job = rng.choice(JOBS)
        kinds, weights = [kind for kind, _ in _ENDS], [weight for _, weight in _ENDS]
        plan = [(kind, round(rng.expovariate(0.7), 3)) for kind in rng.choices(kinds, weights, k=rng.randint(1, 4))]
        if plan[-1][0] == e.RETURN:
            plan.append((e.SUCCEED, 0.5))
        endless = any(kind in _NEVER_ENDS for kind, _ in plan) and job.deadline is None and job.max_runtime is None
        padding = "x" * 300 if rng.random() < 0.2 else ""
        arguments = msgspec.to_builtins(e.Plan(tuple(plan), padding))
        key = f"k{rng.randint(0, 12)}" if rng.random() < 0.3 else None
        if key is not None:
            # One key, one payload, whoever uses it; now and then somebody uses it for something else.
            other = "!" if rng.random() < 0.1 else ""
            arguments = {"plan": [[e.SUCCEED, 1.0]], "padding": key + other}
            job = JOBS[len(key) % 2]
            endless = False
        occurrence = None
        if key is None and rng.random() < 0.1:
            # Whoever submits the run of an instant, it is the same one, and is there once.
            job, arguments, endless = JOBS[0], {"plan": [[e.SUCCEED, 1.0]]}, False
            occurrence = WALL + rng.randint(-20, 60)
            if self._scenario.prunes:
                # Few enough that one is submitted again after its run was pruned.
                occurrence = WALL + (occurrence - WALL) // 20 * 20
        return new_run(
            job.id,
            arguments,
            occurrence=occurrence,
            now=self.cluster.clock.now().wall,
            session=self._session(key, occurrence),
            lane=rng.choice((*LANES, "nowhere")) if rng.random() < 0.2 else None,
            idempotency_key=key,
            delay=round(rng.uniform(0.1, 20), 3) if occurrence is None and rng.random() < 0.2 else None,
            deadline=round(rng.uniform(1, 40), 3) if endless or rng.random() < 0.15 else None,
        )

    def _session(self, key: str | None, occurrence: float | None) -> str | None:
        if not self._scenario.sessions or key is not None or occurrence is not None:
            return None
        return self._session_rng.choice((None, *NAMES))

    async def submit(self, connection: Connection, runs: list[NewRun]) -> list[RunHandle[Any]]:
        while True:
            try:
                return await submit(connection, runs)
            except (StoreUnavailable, Draining, NotRunning):
                await asyncio.sleep(self._rng.uniform(0.05, 1))
            except IN_DOUBT:
                # It may or may not be there. Without a key there is no asking again.
                self.refused += len(runs)
                return []
            except IdempotencyConflict:
                self.refused += len(runs)
                return []

    # ── following ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def follow(self, handle: RunHandle[Any], new: NewRun) -> None:
        self.busy += 1
        self._followed += 1
        name = f"{handle.id} (wait {self._followed})"
        self._waiting[name] = None
        if self._rng.random() < 0.1 and not self._scenario.replica:  # which may lose the release
            await self._act(handle.hold, handle, new)
            await asyncio.sleep(self._rng.expovariate(0.3))
            await self._act(handle.release, handle, new)
        if self._rng.random() < 0.2:
            await asyncio.sleep(self._rng.expovariate(0.3))
            await self._act(handle.cancel, handle, new)
        await self._wait(handle, new)
        del self._waiting[name]
        self.busy -= 1

    async def _act(self, action: Callable[[], Awaitable[State]], handle: RunHandle[Any], new: NewRun) -> None:
        for _ in range(self._rng.randint(1, 2)):
            while True:
                try:
                    await action()
                    break
                except AWAY:
                    await asyncio.sleep(self._rng.uniform(0.05, 1))
                except UnknownRun as error:
                    self._check_pruned(handle, new, error)
                    return

    async def _one_bulk(self, connection: Connection, bulk_id: str, when: float) -> None:
        """Cancel many at once, with the id as the reason, and ask again until that has finished."""
        self.busy += 1
        await asyncio.sleep(when)
        rng = self._rng
        wanted = RunFilter(job_id=rng.choice((*JOBS, *SCHEDULED)).id) if rng.random() < 0.5 else RunFilter()
        if rng.random() < 0.2:
            wanted = RunFilter(states=frozenset(rng.choices(sorted(ALLOWED.keys() - TERMINAL), k=8)))
        self._waiting[bulk_id] = None
        while True:
            with suppress(*AWAY):
                report = await connection.ask(r.StartBulk(0, bulk_id, RunAction.CANCEL, wanted, bulk_id))
                if report.ended_at is not None:
                    break
            await asyncio.sleep(rng.uniform(0.05, 1))
        del self._waiting[bulk_id]
        self.busy -= 1

    def _check_pruned(self, handle: RunHandle[Any], new: NewRun, error: UnknownRun) -> None:
        """A run that was acknowledged is unknown only after it was pruned; where that can be known, it is said."""
        if handle.id in self._invariants.lost:
            return
        if handle.id not in self._invariants.disk.pruned:
            self._invariants.fail(f"{handle.id} was acknowledged and is unknown when it is asked for")
        if isinstance(error, RunPruned) != (new.idempotency_key is not None or new.occurrence is not None):
            self._invariants.fail(f"{handle.id} was pruned, and whoever asks for it is told {error.code}")

    async def _wait(self, handle: RunHandle[Any], new: NewRun) -> None:
        result: object = None
        while True:
            try:
                result = await handle.result(self._rng.choice((None, None, 5.0)))
                state = State.SUCCEEDED
                break
            except RunEnded as error:
                state = State(error.state)
                break
            except AWAY:
                await asyncio.sleep(self._rng.uniform(0.05, 1))
            except WaitTimeout:
                continue
            except UnknownRun as error:
                self._check_pruned(handle, new, error)
                return
        if handle.id in self._invariants.lost | self._invariants.reverted:
            return
        run = self._invariants.disk.found(handle.id)
        assert run is not None
        if state not in TERMINAL or run.state is not state:
            self._invariants.fail(f"result() of {handle.id} says {state}, the store has {run.state}")
        if state is State.SUCCEEDED and result != msgspec.json.decode(run.result or b"null"):
            self._invariants.fail(f"result() of {handle.id} is {result}, the store has {run.result!r}")
