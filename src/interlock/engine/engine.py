"""The scheduler's loop: take everything that arrived, decide, commit once, and only then tell anybody.

While one batch is being committed the next may already be decided on; its commit begins when the first one is there,
so commits never overtake each other and nobody hears of anything that is not durable.

A commit that fails is handled like a crash: whoever submitted is told, the state in memory is thrown away, and once the
store works again it is rebuilt from there while the workers come back and say what they hold. There is one way to
recover, and it is used for both.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec

from interlock.core.decisions import Batch, Decisions, Defined, Failed
from interlock.core.state import Limits, SchedulerState, rebuild
from interlock.core.step import NO_FACTS, Command, needs, step
from interlock.engine import facts, logs
from interlock.engine.catalog import Catalog
from interlock.engine.declarations import Declarations
from interlock.engine.effects import Effects
from interlock.engine.inbox import Inbox
from interlock.engine.links import Links
from interlock.engine.metrics import Metrics
from interlock.engine.requests import Requests
from interlock.engine.stall import StallWatch
from interlock.model.command import Create, HandedOver, NoteServices, StartDraining, WorkerUp
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable
from interlock.model.exposition import Family
from interlock.model.message import Dispatch, Message, Returned
from interlock.model.request import StatusReport
from interlock.ports.clock import Clock
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import Store

logger = logging.getLogger("interlock.engine")

LONGEST_WAIT = 1.0
"""seconds: how soon a jump of the wall clock is noticed"""
AFTER_FAULT = 0.2
"""seconds before going on after an error that should not exist, should it come again at once"""
FRESH = 0.1
"""seconds for which metrics are told again as they are"""
MOST_WAITING = 20_000
"""runs and messages that may wait for a pass before those who submit are made to wait"""
MOST_BYTES = 64 * 1024 * 1024
"""of payloads that may wait so"""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    lanes: dict[str, int]
    limits: Limits = Limits()
    lease_ttl: float = 10.0
    failed_renewals: int = 3
    batch_runs: int = 2000
    """how many runs one pass takes in at the most"""
    cell: str = "main"
    """what this engine owns, and the name of its lease: positions, the order of events, are those of the cell"""
    holder: str = "scheduler"
    instance: str = ""
    """names this start; a worker of an earlier one finishes its work and leaves"""
    longest_wait: float = LONGEST_WAIT


class _Flight(msgspec.Struct):
    """A batch on its way into the store, and what is to happen once it is there."""

    commit: "asyncio.Future[None]"
    decisions: Decisions
    commands: Sequence[Command]
    began: float
    """elapsed time at which the commit was begun"""


def _shorten(decisions: Decisions, passed: float) -> None:
    """Leave out the time that has passed since it was decided how long workers are to keep what they are given."""
    for messages in decisions.sends.values():
        for message in messages:
            if type(message) is Dispatch and message.hold:
                msgspec.structs.force_setattr(message, "hold", max(0.0, message.hold - passed))


def _refusal(error: Exception) -> StoreUnavailable:
    return error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))


class Engine:
    def __init__(
        self, *, store: Store, leases: Leases, clock: Clock, rng: Random, catalog: Catalog, settings: EngineSettings
    ) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._rng = rng
        self._catalog = catalog
        self.settings = settings
        self.state: SchedulerState = SchedulerState(settings.limits, settings.lanes)
        self.links = Links(self, settings.instance)
        self.requests = Requests(self, catalog, store, self.links.tell)
        self.effects = Effects(store, self.post)
        self._inbox = Inbox()
        self._position = 0
        """of the last row that was given one"""
        self._stored = 0
        """of the last row that is stored"""
        self._passed_at = 0.0
        self._starved_since: float | None = None
        """since when runs are due and nobody is there to take them"""
        self._families: list[Family] = []
        self._families_until = 0.0
        self._wrote_at = 0.0
        self._sent: list[Command] = []
        """what went out since the last pass; the next one begins with it, and it is no reason for a pass"""
        self._flight: _Flight | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._failed_renewals = 0
        self._wake_at: float | None = None
        self._stall = StallWatch(clock)
        self._draining = False
        self._stopping = False
        self.available = False
        self._has_led = False
        """whether `state` was ever taken over from the store"""
        self.trouble = StoreUnavailable("it is being recovered")
        """why it is not available, while it is not"""
        self.is_settled = False
        self.declarations = Declarations(self, catalog)
        self.metrics = Metrics()
        self.on_noted: Callable[[NoteServices, bool], None] = lambda command, stored: None
        """told of every such command that was handed in whether it is stored, or void and to be handed in again"""
        self.watch_worker: Callable[[str, Callable[[], None]], None] = lambda worker_id, call: None
        """calls when the process of a worker without a link has ended, where that can be known"""

    # ── from outside ────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, origin: str, content: object) -> None:
        """Hand in a command; it is part of the next pass."""
        self._inbox.add(origin, content)
        self.wake()

    def post_all(self, commands: Sequence[Command]) -> None:
        """Hand in what a worker said together."""
        self._inbox.add_all(commands)
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def is_behind(self, share: float = 1.0) -> bool:
        """Whether so much waits that whoever submits should wait too."""
        return self._inbox.weight > MOST_WAITING * share or self._inbox.bytes > MOST_BYTES * share

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
        """The metrics, made anew as often as takes a hundredth of the time, however many runs have to be counted."""
        now = self._clock.now().elapsed
        if now >= self._families_until:
            self._families = self.metrics.families(available=self.available, position=self._stored)
            self._families_until = now + max(FRESH, 100 * (self._clock.now().elapsed - now))
        return self._families

    async def start(self) -> None:
        """Take the lease and the state. Raises if somebody else has it, or if a job cannot be declared as it is."""
        if not await self._take_over():
            raise LeaseLost(self.settings.cell, "held by another scheduler")
        self.declarations.check(self._catalog)

    def now(self) -> float:
        return self._clock.now().wall

    def elapsed(self) -> float:
        return self._clock.now().elapsed

    def drain(self) -> None:
        """Refuse new runs and hand out no more."""
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
            self._clock.close()
            await self.effects.close()
        if self._lease is not None:
            try:
                await self._leases.release(self._lease)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

    async def _run(self) -> None:
        while True:
            await self._wait()
            if self.state.walks:
                # A pass that finds nothing to store waits for nothing, and others want the loop.
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
                    break
                else:
                    await self._renew()
                    await self._pass()
            except (StoreUnavailable, StaleEpoch, LeaseLost) as error:
                await self._fail(error)
            except Exception as error:
                # A fault of ours: what is in memory may be half done, what is stored is whole, so go on from there.
                logger.exception("internal error")
                await self._fail(InterlockError(f"internal error: {error!r}"))
                await self._sleep(AFTER_FAULT)

    def _note_starvation(self, now: float) -> None:
        served = any(worker.takes_work for worker in self.state.workers.values())
        if served or not any(lane.holding or lane.waiting() for lane in self.state.lanes.values()):
            self._starved_since = None
        elif self._starved_since is None:
            self._starved_since = now

    # ── one pass ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _wait(self) -> None:
        """Sleep until something arrives or falls due, or what is being committed is there."""
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
            # Deciding ahead pays only for a batch worth a commit of its own; less is better off in a larger one.
            ahead = self._inbox.weight >= self.settings.batch_runs // 4 or (self.state.walks and not self._stopping)
            return 0.0 if self._flight.commit.done() or ahead else self.settings.longest_wait
        if self._inbox or self._stopping or self.state.walks:
            return 0.0
        now = self._clock.now()
        delay = min(self.settings.longest_wait, self._renew_at - now.elapsed)
        if self._wake_at is not None:
            delay = min(delay, self._wake_at - now.wall)
        if self.state.spans:
            delay = min(delay, self.state.spans[0][0] - now.elapsed)
        if self.state.liveness_due is not None:
            delay = min(delay, self.state.liveness_due - now.elapsed)
        return min(delay, self.state.effects_due - now.elapsed)

    async def _pass(self) -> None:
        """Decide on what has arrived, and begin to commit it as soon as what was decided before is there."""
        commands = self._inbox.take(self.settings.batch_runs)
        try:
            needed = needs(self.state, commands)
            if needed:
                # What the store knows must be everything that is decided.
                await self._land()
            found = await facts.read(needed, self._store, self.now()) if needed else NO_FACTS
            now = self._clock.now()
            self._stall.notice(now, commands)
            commands[:0], self._sent = self._sent, []
            decisions = step(self.state, commands, now, self._rng, found)
            if not self.is_settled:
                self.is_settled = True
                self.requests.settled()
            self._wake_at = decisions.wake_at
            await self._land()
            if not decisions.batch:
                self._deliver(decisions, commands, 0.0)
                return
            self._number(decisions.batch)
            commit = asyncio.ensure_future(self._store.commit(decisions.batch, self.settings.cell, self._epoch))
        except Exception as error:
            self._refuse(commands, error)
            raise
        commit.add_done_callback(lambda _: self.wake())
        self._flight = _Flight(commit, decisions, commands, self._clock.now().elapsed)

    def _number(self, batch: Batch) -> None:
        """Give what happened its place in the order of everything that ever happened."""
        batch.position = self._position + 1
        self._position = batch.last_position

    async def _land(self) -> None:
        """Wait for the batch that is being committed, then tell whom it concerns."""
        flight = self._flight
        if flight is None:
            return
        try:
            await flight.commit
            self._wrote_at = self._clock.now().elapsed
            self._stored = flight.decisions.batch.last_position
        except Exception as error:
            self._refuse(flight.commands, error)
            raise
        finally:
            self._flight = None
        self._deliver(flight.decisions, flight.commands, self._wrote_at - flight.began)

    def _deliver(self, decisions: Decisions, commands: Sequence[Command], seconds: float) -> None:
        for _, content in commands:
            if type(content) is WorkerUp:
                self.links.joined(content)
        self._send(decisions)
        if decisions.effects:
            self.effects.begin(decisions.effects)
        self._answer(decisions)
        self.metrics.add(decisions, seconds)
        logs.write(decisions)
        self.requests.announce(decisions.ended)
        if decisions.batch.kept or decisions.batch.service_log:
            self._tell_noted(commands, True)
        if decisions.batch or decisions.progressed:
            self.requests.news(self._stored, decisions.progressed)
        self.links.relieve()

    def _tell_noted(self, commands: Sequence[Command], stored: bool) -> None:
        for _, content in commands:
            if type(content) is NoteServices:
                self.on_noted(content, stored)

    @property
    def writing(self) -> "asyncio.Future[None] | None":
        """The commit that is under way."""
        return None if self._flight is None else self._flight.commit

    @property
    def _epoch(self) -> int:
        return 0 if self._lease is None else self._lease.epoch

    def _send(self, decisions: Decisions) -> None:
        out, now = {}, self._clock.now().elapsed
        _shorten(decisions, now - decisions.elapsed)
        for worker_id, messages in decisions.sends.items():
            if self.links.send_to_worker(worker_id, messages):
                out[worker_id] = messages
            else:
                self._take_back(worker_id, messages)
        if out:
            self._sent.append(("", HandedOver(out, now)))

    def _take_back(self, worker_id: str, messages: Sequence[Message]) -> None:
        for message in messages:
            if type(message) is Dispatch:
                self.post(worker_id, Returned(message.run_id, message.fence, "the worker left before it was sent"))

    def _answer(self, decisions: Decisions) -> None:
        for origin, answer in decisions.answers:
            if isinstance(answer, Defined):
                self.declarations.settle(answer.request, answer.difference)
            elif not isinstance(answer, Failed):
                self.links.tell(origin, answer)
            else:
                self._refuse_one(origin, answer.request, answer.error)
                self.metrics.refused(answer.error.code)

    def _refuse_one(self, origin: str, request: int, error: InterlockError) -> None:
        if origin:
            self.requests.problem(origin, request, error)
        else:
            self.declarations.settle(request, error)

    # ── ownership and recovery ──────────────────────────────────────────────────────────────────────────────────────

    async def _take_over(self) -> bool:
        now = self._clock.now()
        token = f"{self._rng.getrandbits(128):032x}" if self._lease is None else self._lease.token
        settings = self.settings
        lease = await self._leases.acquire(settings.cell, settings.holder, token, settings.lease_ttl, now.wall)
        if lease is None:
            return False
        self._lease = lease
        self._wrote_at = now.elapsed
        self._renew_at = now.elapsed + settings.lease_ttl / 3
        self._failed_renewals = 0
        snapshot = await self._store.load(settings.limits.small_payload)
        now = self._clock.now()
        self.state = rebuild(
            settings.limits,
            settings.lanes,
            snapshot.runs,
            snapshot.jobs,
            now,
            snapshot.log_sizes,
            snapshot.log_marks,
            snapshot.put_jobs,
            snapshot.schedules,
            snapshot.bulks,
            self.state if self._has_led else None,
        )
        self.metrics.begin(self.state)
        self._position = self._stored = snapshot.position
        if self._draining:
            self._inbox.put_first(StartDraining())
        self._inbox.put_first(self._catalog.define(0))
        self.available = self._has_led = True
        self.is_settled = False
        self._families_until = 0.0
        self.requests.check_watched()
        for worker_id in self.state.workers:
            self.watch_worker(worker_id, partial(self.links.worker_died, worker_id))
        return True

    async def _renew(self) -> None:
        now = self._clock.now()
        if self._lease is None or now.elapsed < self._renew_at:
            return
        self._renew_at = now.elapsed + self.settings.lease_ttl / 3
        try:
            self._lease = await self._leases.renew(self._lease, self.settings.lease_ttl, now.wall)
            self._failed_renewals = 0
            self._wrote_at = self._clock.now().elapsed
        except StoreUnavailable as error:
            self._failed_renewals += 1
            logger.warning("renewing the lease failed %d times: %s", self._failed_renewals, error)
            if self._failed_renewals >= self.settings.failed_renewals:
                raise

    async def _fail(self, error: InterlockError) -> None:
        """What was decided and is not stored is void. Tell whoever waits for it, and begin again from the store."""
        logger.error("%s: starting again from the store", error)
        self.metrics.failed(error)
        if self._flight is not None:
            try:
                await self._land()
            except Exception:
                logger.exception("the write that was under way failed too")
        if isinstance(error, (StaleEpoch, LeaseLost)):
            self._lease = None
        self.available = False
        self.trouble = _refusal(error)
        self._families_until = 0.0
        waiting, self._inbox = self._inbox, Inbox()
        self._refuse(waiting.take(waiting.weight), error)
        self._sent = []
        self.links.drop_workers()

    def _refuse(self, commands: Sequence[Command], error: Exception) -> None:
        refusal = _refusal(error)
        for origin, content in commands:
            request = getattr(content, "request", None)
            if request is not None:
                self._refuse_one(origin, request, refusal)
                if type(content) is Create:
                    self.metrics.refused(refusal.code)
        self._tell_noted(commands, False)

    async def _recover(self) -> None:
        delay = 0.05
        while not self.available and not self._stopping:
            try:
                if await self._take_over():
                    logger.warning("the store works again: %d runs are live", len(self.state.runs))
                    return
                why = "another scheduler holds the lease"
            except StoreUnavailable as error:
                self.trouble, why = error, str(error)
            except Exception as error:
                logger.exception("internal error")
                why = repr(error)
            logger.warning("cannot go on yet: %s", why)
            await self._sleep(delay)
            delay = min(delay * 2, 1.0)
        if self._stopping:
            self._inbox = Inbox()
