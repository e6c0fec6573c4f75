"""The scheduler's loop: take everything that arrived, decide, commit once, and only then answer and send.

The engine may decide the next batch while one is being committed. The next commit begins when the first has ended, so
commits never overtake each other, and no answer is ahead of the store.

A failed commit is handled like a crash: its submits are refused, and the state in memory is dropped. Once the store
works again, the state is rebuilt from it, and the workers reconnect and list their attempts.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec

from interlock.core.decisions import Decisions
from interlock.core.rebuild import LOADED, rebuild
from interlock.core.state import Limits, SchedulerState
from interlock.core.step import NO_FACTS, Command, needs, step
from interlock.engine import facts
from interlock.engine.catalog import Catalog, Declarations
from interlock.engine.delivery import Handover
from interlock.engine.effects import Effects
from interlock.engine.inbox import Inbox
from interlock.engine.links import Links
from interlock.engine.metrics import Metrics, pass_age
from interlock.engine.ownership import Ownership
from interlock.engine.requests import Requests
from interlock.engine.sender_link import SenderLink
from interlock.engine.stall import StallWatch
from interlock.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable
from interlock.model.exposition import Family
from interlock.model.lane import LaneStatus
from interlock.ports.clock import Clock
from interlock.ports.leases import Leases
from interlock.ports.store import Store
from interlock.wire.command import NoteServices, StartDraining
from interlock.wire.request import StatusReport

logger = logging.getLogger("interlock.engine")

AFTER_FAULT = 0.2  # seconds of rest after an internal error, in case it repeats
MOST_WAITING = 20_000  # runs and messages that may wait for a pass before clients must wait
MOST_OF_ONE = 4000  # runs of one client that may wait before it must, so that it does not keep the loop busy
MOST_BYTES = 64 * 1024 * 1024  # bytes of payloads that may wait likewise


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits = Limits()
    lease_ttl: float = 10.0
    batch_runs: int = 2000  # most runs that one pass takes in
    cell: str = "main"  # name of the lease, and of the data it protects, such as positions
    holder: str = "scheduler"
    instance: str = ""  # id of this start; a worker of an earlier start finishes its work and leaves
    longest_wait: float = 1.0  # seconds until a jump of the wall clock is noticed


class _Flight(msgspec.Struct):
    """A batch on its way into the store."""

    commit: "asyncio.Future[None]"
    decisions: Decisions
    commands: Sequence[Command]
    began: float  # elapsed time of the start of the commit


def _refusal(error: Exception) -> StoreUnavailable:
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))


class Engine:
    def __init__(
        self, *, store: Store, leases: Leases, clock: Clock, rng: Random, catalog: Catalog, settings: EngineSettings
    ) -> None:
        self._store = store
        self._owner = Ownership(leases, settings.cell, settings.holder, settings.lease_ttl)
        self._clock = clock
        self._rng = rng
        self.catalog = catalog
        self.settings = settings
        self.state: SchedulerState = SchedulerState(settings.limits, catalog.lanes)
        self.links = Links(self, settings.instance)
        self.requests = Requests(self, store, self.links.tell)
        self.sender: SenderLink = SenderLink(self)
        self.effects = Effects(store, self.post, self.sender.call)
        self.delivery = Handover(self)
        self._inbox = Inbox()
        self._position = 0  # the last one given to a row
        self._stored = 0  # the last one stored
        self._passed_at = 0.0
        self._starved_since: float | None = None  # elapsed time since which runs wait without any worker
        self._wrote_at = 0.0
        self._flight: _Flight | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._wake_at: float | None = None
        self._stall = StallWatch(clock)
        self._draining = False
        self._stopping = False
        self.is_over = False  # whether it has carried out everything, and looks at nothing more
        self.available = False
        self._has_led = False  # whether `state` was ever loaded from the store
        self.trouble = StoreUnavailable("it is being recovered")  # reason while the store is unavailable
        self.is_settled = False
        self.declarations = Declarations(self)
        self.metrics = Metrics()
        self.decide = step
        self.on_noted: Callable[[NoteServices], None] = lambda command: None  # called when this command is stored
        self.on_failed: Callable[[], None] = lambda: None  # called when all waiting commands are void
        self.watch_worker: Callable[[str, Callable[[], None]], None] = lambda worker_id, call: None
        """calls back when the process of a worker without a link ends, if the system can report it"""

    def post(self, origin: str, content: object) -> None:
        """Add a command to the next pass."""
        self._inbox.add(origin, content)
        self.wake()

    def post_all(self, commands: Sequence[Command]) -> None:
        """Add commands of a worker that belong together."""
        self._inbox.add_all(commands)
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def is_behind(self, name: str, share: float = 1.0) -> bool:
        """Return whether waiting commands, or those of one client, exceed this share of a limit, so that it waits."""
        inbox = self._inbox
        own = inbox.runs_of.get(name, 0)
        return own > MOST_OF_ONE * share or inbox.weight > MOST_WAITING * share or inbox.bytes > MOST_BYTES * share

    def status(self, request: int) -> StatusReport:
        now = self._clock.now().elapsed
        return StatusReport(
            request=request,
            available=self.available,
            draining=self._draining,
            since_pass=max(0.0, now - self._passed_at),
            since_write=max(0.0, now - self._wrote_at),
            live=len(self.state.runs),
            workers=sum(worker.takes_work for worker in self.state.workers.values()),
            starved=0.0 if self._starved_since is None else now - self._starved_since,
            position=self._stored,
        )

    def families(self) -> list[Family]:
        found = self.metrics.latest(self._clock, available=self.available, position=self._stored)
        return [*found, pass_age(max(0.0, self._clock.now().elapsed - self._passed_at))]

    async def start(self) -> None:
        """Take the lease and load the state. Raise if another scheduler has the lease, or a job cannot be declared."""
        if not await self._take_over():
            raise LeaseLost(self.settings.cell, "held by another scheduler")
        self.declarations.check(self.catalog)

    def now(self) -> float:
        return self._clock.now().wall

    def elapsed(self) -> float:
        return self._clock.now().elapsed

    def drain(self) -> None:
        """Refuse new runs and dispatch no more."""
        self._draining = True
        self.post("", StartDraining())

    def stop(self) -> None:
        """Make `run` return once everything that has arrived is stored."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        self._stall.start()
        try:
            await self._run()
        finally:
            self._stall.stop()
            await self.effects.close()
        await self._owner.release()

    async def _run(self) -> None:
        while True:
            await self._wait()
            if self.state.has_more:
                # A pass without rows does not await, but other tasks need the loop.
                await asyncio.sleep(0)
            self._passed_at = self._clock.now().elapsed
            self._note_starvation(self._passed_at)
            if not self.available:
                if self._stopping:
                    break
                await self._recover()
                continue
            try:
                if self._flight is not None and self._flight.commit.done():
                    await self._land()
                elif self._stopping and not self._inbox and self._flight is None:
                    self.is_over = True
                    break
                else:
                    if await self._owner.renew(self._clock.now()):
                        self._wrote_at = self._clock.now().elapsed
                    await self._pass()
            except (StoreUnavailable, StaleEpoch, LeaseLost) as error:
                await self._fail(error)
            except Exception as error:
                # A bug of ours: memory may be half changed, but the store is whole, so continue from it.
                logger.exception("internal error")
                await self._fail(InterlockError(f"internal error: {error!r}"))
                await self._sleep(AFTER_FAULT)

    def _note_starvation(self, now: float) -> None:
        served = any(worker.takes_work for worker in self.state.workers.values())
        lanes = self.state.lanes.values()
        if served or not any(lane.holding or (lane.waiting and lane.status is LaneStatus.OPEN) for lane in lanes):
            self._starved_since = None
        elif self._starved_since is None:
            self._starved_since = now

    async def _wait(self) -> None:
        """Sleep until a command arrives, a timer is due, or the pending commit has ended."""
        while (delay := self._idle_for()) > 0:
            await self._sleep(delay)
            if self._flight is None:
                return

    async def _sleep(self, delay: float) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        forget = self._clock.wake_after(delay, self.wake)
        try:
            await self._waiter
        finally:
            forget()
            self._waiter = None

    def _idle_for(self) -> float:
        if not self.available:
            return 0.0
        if self._flight is not None:
            # Deciding ahead pays only for a batch that is worth its own commit.
            ahead = self._inbox.weight >= self.settings.batch_runs // 4 or (self.state.has_more and not self._stopping)
            is_due = self._flight.commit.done() or ahead or self._inbox.answers
            return 0.0 if is_due else self.settings.longest_wait
        if self._inbox or self._stopping or self.state.has_more:
            return 0.0
        now = self._clock.now()
        delay = min(self.settings.longest_wait, self._owner.renew_at - now.elapsed)
        if self._wake_at is not None:
            delay = min(delay, self._wake_at - now.wall)
        if self.state.spans:
            delay = min(delay, self.state.spans[0][0] - now.elapsed)
        if self.state.liveness_due is not None:
            delay = min(delay, self.state.liveness_due - now.elapsed)
        return min(delay, self.state.effects_due - now.elapsed)

    async def _pass(self) -> None:
        """Decide on the commands that arrived, and begin the commit once the previous one has ended."""
        if not self.is_settled:
            # The new state has asked for nothing; the answers belong to the previous one.
            self._inbox.answers.clear()
        only_answers = bool(self._inbox.answers)
        commands = self._inbox.take(self.settings.batch_runs)
        try:
            needed = needs(self.state, commands)
            if needed:
                # Store every decision before reading facts.
                await self._land()
            found = await facts.read(needed, self._store, self.now()) if needed else NO_FACTS
            now = self._clock.now()
            self._stall.notice(now, commands)
            commands[:0] = self.delivery.take_sent()
            decisions = self.decide(self.state, commands, now, self._rng, found)
            if decisions.outputs_judged:
                self.metrics.judged(decisions.outputs_judged, self._clock.now().elapsed - now.elapsed)
            if not self.is_settled:
                self.is_settled = True
                self.requests.settled()
            self._wake_at = decisions.wake_at
            if decisions.batch or decisions.effects or not only_answers:
                # Otherwise the pass only sends stored dispatches.
                await self._land()
            if not decisions.batch:
                self.delivery.deliver(decisions, commands, 0.0, self._stored)
                return
            decisions.batch.position = self._position + 1
            self._position = decisions.batch.last_position
            commit = asyncio.ensure_future(self._store.commit(decisions.batch, self.settings.cell, self._owner.epoch))
        except Exception as error:
            self.delivery.refuse(commands, _refusal(error))
            raise
        commit.add_done_callback(lambda _: self.wake())
        self._flight = _Flight(commit, decisions, commands, self._clock.now().elapsed)

    async def _land(self) -> None:
        """Wait for the pending commit, then deliver its decisions."""
        flight = self._flight
        if flight is None:
            return
        try:
            await flight.commit
            self._wrote_at = self._clock.now().elapsed
            self._stored = flight.decisions.batch.last_position
        except Exception as error:
            self.delivery.refuse(flight.commands, _refusal(error))
            raise
        finally:
            self._flight = None
        self.delivery.deliver(flight.decisions, flight.commands, self._wrote_at - flight.began, self._stored)

    @property
    def position(self) -> int:
        """The last position given to a row, stored or not."""
        return self._position

    @property
    def writing(self) -> "asyncio.Future[None] | None":
        """The pending commit."""
        return None if self._flight is None else self._flight.commit

    async def _take_over(self) -> bool:
        now, settings = self._clock.now(), self.settings
        if not await self._owner.take(now, self._rng):
            self.metrics.lease_waits += 1
            return False
        self._wrote_at = now.elapsed
        snapshot = await self._store.load(settings.limits.small_payload, LOADED)
        before = self.state if self._has_led else None
        self.state = rebuild(settings.limits, self.catalog.lanes, snapshot, self._clock.now(), before)
        self.metrics.begin(self.state)
        self._position = self._stored = snapshot.position
        if self._draining:
            self._inbox.put_first(StartDraining())
        self._inbox.put_first(self.catalog.define(0, position=self._position, claim_key=os.urandom(32)))
        self.available = self._has_led = True
        self.is_settled = False
        self.requests.check_watched()
        for worker_id in self.state.workers:
            self.watch_worker(worker_id, partial(self.links.worker_died, worker_id))
        return True

    async def _fail(self, error: InterlockError) -> None:
        """Drop all unstored decisions, refuse their commands, and rebuild from the store."""
        logger.error("%s; continuing from the store", error)
        self.metrics.failed(error)
        if self._flight is not None:
            try:
                await self._land()
            except Exception:
                logger.exception("the pending commit failed too")
        if isinstance(error, (StaleEpoch, LeaseLost)):
            self._owner.lose()
        self.available = False
        self.trouble = _refusal(error)
        waiting, self._inbox = self._inbox, Inbox()
        self.delivery.refuse(waiting.every(), self.trouble)
        self.delivery.take_sent()
        self.links.drop_workers()
        self.requests.settled()
        self.on_failed()

    async def _recover(self) -> None:
        delay = 0.05
        while not self.available and not self._stopping:
            try:
                if await self._take_over():
                    logger.warning("the store works again; %d live runs", len(self.state.runs))
                    return
                why = "another scheduler holds the lease"
            except StoreUnavailable as error:
                self.trouble, why = error, str(error)
            except Exception as error:
                logger.exception("internal error")
                why = repr(error)
            logger.warning("the store is still unavailable: %s", why)
            await self._sleep(delay)
            delay = min(delay * 2, 1.0)
        if self._stopping:
            self._inbox = Inbox()
