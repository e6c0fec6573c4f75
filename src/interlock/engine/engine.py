"""The scheduler's loop: take everything that arrived, decide, commit once, and only then tell anybody.

While one batch is being committed the next may already be decided on; its commit begins when the first one is there,
so commits never overtake each other and nobody hears of anything that is not durable.

A commit that fails is handled like a crash: whoever submitted is told, the state in memory is thrown away, and once the
store works again it is rebuilt from there while the workers come back and say what they hold. There is one way to
recover, and it is used for both.
"""

import asyncio
import logging
from collections.abc import Sequence
from random import Random

import msgspec

from interlock.core.decisions import Cancelling, Created, Decisions, Failed
from interlock.core.state import Limits, SchedulerState, rebuild
from interlock.core.step import Command, step
from interlock.engine import intake, logs
from interlock.engine.catalog import Catalog
from interlock.engine.desk import Desk
from interlock.model.command import CancelRun, Create, Define, Stalled, StartDraining, WorkerUp
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable, UnknownRun
from interlock.model.message import Dispatch, Message, Returned, Started
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import Store

logger = logging.getLogger("interlock.engine")

LEASE = "scheduler"
LONGEST_WAIT = 1.0
"""seconds: how soon a jump of the wall clock is noticed"""
AFTER_FAULT = 0.2
"""seconds before going on after an error that should not exist, should it come again at once"""
STALL = 2.0
"""seconds the loop may be late before it counts as having stood still"""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    lanes: dict[str, int]
    limits: Limits = Limits()
    lease_ttl: float = 10.0
    failed_renewals: int = 3
    batch_runs: int = 2000
    """how many runs one pass takes in at the most"""
    holder: str = "scheduler"
    instance: str = ""
    """names this start; a worker of an earlier one finishes its work and leaves"""


class _Flight(msgspec.Struct):
    """A batch on its way into the store, and what is to happen once it is there."""

    commit: "asyncio.Future[None]"
    decisions: Decisions
    commands: Sequence[Command]


def _weight(content: object) -> int:
    """How much of a pass a command takes. A start takes nothing: it shares a row with the end that often follows it."""
    if type(content) is Create:
        return len(content.runs)
    return 0 if type(content) is Started else 1


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
        self.state = SchedulerState(settings.limits, settings.lanes)
        self.desk = Desk(self, catalog, store, clock, settings.instance)
        self._inbox: list[Command] = []
        self._inbox_weight = 0
        self._flight: _Flight | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._failed_renewals = 0
        self._wake_wall: float | None = None
        self._wake_elapsed: float | None = None
        self._alive_at = 0.0
        self._stopping = False
        self.available = False
        self.totals = logs.Totals()

    # ── from outside ────────────────────────────────────────────────────────────────────────────────────────────────

    def post(self, origin: str, content: object) -> None:
        """Hand in a command; it is part of the next pass."""
        self._inbox.append((origin, content))
        self._inbox_weight += _weight(content)
        self.wake()

    def post_all(self, commands: Sequence[Command]) -> None:
        """Hand in what came together; it is worked on together, up to the size of a pass."""
        self._inbox.extend(commands)
        self._inbox_weight += sum(type(content) is not Started for _, content in commands)
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def backlog(self) -> int:
        return len(self._inbox)

    async def start(self) -> None:
        """Take the lease and the state. Raises if somebody else has it."""
        if not await self._take_over():
            raise LeaseLost(LEASE, "held by another scheduler")

    def drain(self) -> None:
        """Refuse new runs and hand out no more."""
        self.post("", StartDraining())

    def stop(self) -> None:
        """Make `run` return once everything that has arrived is stored."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        while True:
            await self._wait()
            if not self.available:
                if self._stopping:
                    break
                await self._recover()
                continue
            try:
                if self._flight is not None and self._flight.commit.done():
                    await self._land()
                elif self._stopping and not self._inbox and not self.desk.questions and self._flight is None:
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
        if self._lease is not None:
            try:
                await self._leases.release(self._lease)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

    # ── one pass ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _wait(self) -> None:
        """Sleep until something arrives or falls due, or what is being committed is there."""
        while (delay := self._idle_for()) > 0:
            await self._sleep(delay)
            if self._flight is None:
                return

    async def _sleep(self, delay: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(delay, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _idle_for(self) -> float:
        if not self.available:
            return 0.0
        if self._flight is not None:
            # Deciding ahead pays only for a batch worth a commit of its own; less is better off in a larger one.
            ahead = self._inbox_weight >= self.settings.batch_runs // 4
            return 0.0 if self._flight.commit.done() or ahead else LONGEST_WAIT
        if self._inbox or self.desk.questions or self._stopping:
            return 0.0
        now = self._clock.now()
        delay = min(LONGEST_WAIT, self._renew_at - now.elapsed)
        if self._wake_wall is not None:
            delay = min(delay, self._wake_wall - now.wall)
        if self._wake_elapsed is not None:
            delay = min(delay, self._wake_elapsed - now.elapsed)
        return delay

    def _take(self) -> list[Command]:
        """What one pass works on: everything, unless that is more than one commit should carry."""
        inbox, most = self._inbox, self.settings.batch_runs
        if self._inbox_weight <= most:
            self._inbox, self._inbox_weight = [], 0
            return inbox
        weight, limit = 0, 0
        while limit < len(inbox) and weight < most:
            weight += _weight(inbox[limit][1])
            limit += 1
        self._inbox = inbox[limit:]
        self._inbox_weight -= weight
        return inbox[:limit]

    def _notice_stall(self, now: Now, commands: list[Command]) -> None:
        """Only silence that a pass could have heard counts: not while the process, or the store, stood still."""
        late = now.elapsed - self._alive_at - LONGEST_WAIT
        self._alive_at = now.elapsed
        if late > STALL:
            logger.warning("the scheduler stood still for %.1fs", late)
            commands.insert(0, ("", Stalled(late + LONGEST_WAIT)))

    async def _pass(self) -> None:
        """Decide on what has arrived, and begin to commit it as soon as what was decided before is there."""
        commands, questions = self._take(), self.desk.take_questions()
        try:
            looks_up = any(type(content) is Create and content.look_up for _, content in commands)
            if looks_up or questions:
                # Both speak of what is stored, so there must be nothing decided that is not.
                await self._land()
            if looks_up:
                commands = await self._look_up(commands)
            now = self._clock.now()
            self._notice_stall(now, commands)
            self.desk.answer_questions(questions)
            questions = []
            decisions = step(self.state, commands, now, self._rng)
            self._wake_wall, self._wake_elapsed = decisions.wake_wall, decisions.wake_elapsed
            await self._land()
            if not decisions.batch:
                self._deliver(decisions, commands)
                return
            commit = asyncio.ensure_future(self._store.commit(decisions.batch, LEASE, self._epoch))
        except Exception as error:
            self._refuse(commands, error)
            self.desk.refuse(questions, _refusal(error))
            raise
        commit.add_done_callback(lambda _: self.wake())
        self._flight = _Flight(commit, decisions, commands)

    async def _land(self) -> None:
        """Wait for the batch that is being committed, then tell whom it concerns."""
        flight = self._flight
        if flight is None:
            return
        try:
            await flight.commit
            await self._fill_dispatches(flight.decisions)
        except Exception as error:
            self._refuse(flight.commands, error)
            raise
        finally:
            self._flight = None
        self._deliver(flight.decisions, flight.commands)

    def _deliver(self, decisions: Decisions, commands: Sequence[Command]) -> None:
        for _, content in commands:
            if type(content) is WorkerUp:
                self.desk.joined(content.worker_id)
        self._send(decisions)
        self._answer(decisions)
        self.totals.add(decisions)
        logs.write(decisions, self.state)
        self.desk.announce(decisions.ended)
        self.desk.relieve()

    @property
    def _epoch(self) -> int:
        return 0 if self._lease is None else self._lease.epoch

    async def _look_up(self, commands: list[Command]) -> list[Command]:
        """Fetch what the store knows of keys and occurrences that submits in this batch carry."""
        places = [place for place, (_, content) in enumerate(commands) if type(content) is Create and content.look_up]
        found = await intake.look_up([commands[place][1] for place in places], self._store)
        commands = list(commands)
        for place, create in zip(places, found, strict=True):
            commands[place] = (commands[place][0], create)
        return commands

    async def _fill_dispatches(self, decisions: Decisions) -> None:
        """Payloads too large to keep in memory, and checkpoints, go out straight from the store."""
        wanted = [
            message.run_id
            for messages in decisions.sends.values()
            for message in messages
            if type(message) is Dispatch and (message.payload is None or message.attempt > 1)
        ]
        if not wanted:
            return
        inputs = await self._store.inputs(wanted)
        for messages in decisions.sends.values():
            for place, message in enumerate(messages):
                if type(message) is Dispatch and message.run_id in inputs:
                    found = inputs[message.run_id]
                    messages[place] = msgspec.structs.replace(
                        message, payload=found.payload, checkpoint=found.checkpoint
                    )

    def _send(self, decisions: Decisions) -> None:
        for worker_id, messages in decisions.sends.items():
            if not self.desk.send_to_worker(worker_id, messages):
                self._take_back(worker_id, messages)

    def _take_back(self, worker_id: str, messages: Sequence[Message]) -> None:
        for message in messages:
            if type(message) is Dispatch:
                self.post(worker_id, Returned(message.run_id, message.fence, "the worker left before it was sent"))

    def _answer(self, decisions: Decisions) -> None:
        for origin, answer in decisions.answers:
            if type(answer) is Created:
                self.desk.accepted(origin, answer)
            elif type(answer) is Cancelling:
                self.desk.cancelling(origin, answer)
            elif type(answer) is Failed and isinstance(answer.error, UnknownRun):
                # It was alive when its cancel came in and has ended since: the store knows how.
                self.desk.ask_state(origin, answer.request, answer.error.run_id)
            elif type(answer) is Failed:
                self.desk.problem(origin, answer.request, answer.error)

    # ── ownership and recovery ──────────────────────────────────────────────────────────────────────────────────────

    async def _take_over(self) -> bool:
        now = self._clock.now()
        token = f"{self._rng.getrandbits(128):032x}" if self._lease is None else self._lease.token
        settings = self.settings
        lease = await self._leases.acquire(LEASE, settings.holder, token, settings.lease_ttl, now.wall)
        if lease is None:
            return False
        self._lease = lease
        self._renew_at = now.elapsed + settings.lease_ttl / 3
        self._failed_renewals = 0
        snapshot = await self._store.load(settings.limits.small_payload)
        now = self._clock.now()
        self.state = rebuild(settings.limits, settings.lanes, snapshot.runs, snapshot.jobs, now.elapsed)
        self._inbox = [("", Define(self._catalog.jobs())), *self._inbox]
        self._alive_at = now.elapsed
        self.available = True
        self.desk.check_watched()
        return True

    async def _renew(self) -> None:
        now = self._clock.now()
        if self._lease is None or now.elapsed < self._renew_at:
            return
        self._renew_at = now.elapsed + self.settings.lease_ttl / 3
        try:
            self._lease = await self._leases.renew(self._lease, self.settings.lease_ttl, now.wall)
            self._failed_renewals = 0
        except StoreUnavailable as error:
            self._failed_renewals += 1
            logger.warning("renewing the lease failed %d times: %s", self._failed_renewals, error)
            if self._failed_renewals >= self.settings.failed_renewals:
                raise

    async def _fail(self, error: InterlockError) -> None:
        """What was decided and is not stored is void. Tell whoever waits for it, and begin again from the store."""
        logger.error("%s: starting again from the store", error)
        if self._flight is not None:
            try:
                await self._land()
            except Exception:
                logger.exception("the write that was under way failed too")
        if isinstance(error, (StaleEpoch, LeaseLost)):
            self._lease = None
        self.available = False
        draining = self.state.draining
        inbox, self._inbox, self._inbox_weight = self._inbox, [], 0
        self._refuse(inbox, error)
        if draining or any(type(content) is StartDraining for _, content in inbox):
            self._inbox.append(("", StartDraining()))
        self.desk.drop_workers()

    def _refuse(self, commands: Sequence[Command], error: Exception) -> None:
        for origin, content in commands:
            if isinstance(content, (Create, CancelRun)):
                self.desk.problem(origin, content.request, _refusal(error))

    async def _recover(self) -> None:
        delay = 0.05
        while not self.available and not self._stopping:
            try:
                if await self._take_over():
                    logger.warning("the store works again: %d runs are live", len(self.state.runs))
                    return
                why = "another scheduler holds the lease"
            except StoreUnavailable as error:
                why = str(error)
            logger.warning("cannot go on yet: %s", why)
            await self._sleep(delay)
            delay = min(delay * 2, 1.0)
        if self._stopping:
            self._inbox.clear()
            self.desk.refuse(self.desk.take_questions(), StoreUnavailable("stopping"))
