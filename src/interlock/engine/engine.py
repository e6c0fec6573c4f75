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
from interlock.core.liveness import handed_over
from interlock.core.state import Limits, SchedulerState, rebuild
from interlock.core.step import Command, step
from interlock.engine import intake, logs
from interlock.engine.catalog import Catalog
from interlock.engine.desk import Desk
from interlock.engine.inbox import Inbox
from interlock.model.command import CancelRun, Create, Define, Stalled, StartDraining, WorkerUp
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable, UnknownRun
from interlock.model.message import Dispatch, Message, Returned
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
TICK = 0.5
"""seconds between two proofs that the loop turns"""
MOST_WAITING = 20_000
"""runs and messages that may wait for a pass before those who submit are made to wait"""
MOST_BYTES = 64 * 1024 * 1024
"""of payloads that may wait so"""
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


def _needs_inputs(message: Message) -> bool:
    return type(message) is Dispatch and (message.payload is None or message.attempt > 1)


class _Flight(msgspec.Struct):
    """A batch on its way into the store, and what is to happen once it is there."""

    commit: "asyncio.Future[None]"
    decisions: Decisions
    commands: Sequence[Command]


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
        self.desk = Desk(self, catalog, store, settings.instance)
        self._inbox = Inbox()
        self._flight: _Flight | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._failed_renewals = 0
        self._wake_at: float | None = None
        self._turned_at = 0.0
        self._stood_still = 0.0
        self._ticking: asyncio.TimerHandle | None = None
        self._draining = False
        self._stopping = False
        self.available = False
        self.totals = logs.Totals()

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

    async def start(self) -> None:
        """Take the lease and the state. Raises if somebody else has it."""
        if not await self._take_over():
            raise LeaseLost(LEASE, "held by another scheduler")

    def drain(self) -> None:
        """Refuse new runs and hand out no more."""
        self._draining = True
        self.post("", StartDraining())

    def stop(self) -> None:
        """Make `run` return once everything that has arrived is stored."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        self._turned_at = self._clock.now().elapsed
        self._tick()
        try:
            await self._run()
        finally:
            if self._ticking is not None:
                self._ticking.cancel()
        if self._lease is not None:
            try:
                await self._leases.release(self._lease)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

    async def _run(self) -> None:
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
            ahead = self._inbox.weight >= self.settings.batch_runs // 4
            return 0.0 if self._flight.commit.done() or ahead else LONGEST_WAIT
        if self._inbox or self.desk.questions or self._stopping:
            return 0.0
        now = self._clock.now()
        delay = min(LONGEST_WAIT, self._renew_at - now.elapsed)
        if self._wake_at is not None:
            delay = min(delay, self._wake_at - now.wall)
        if self.state.liveness_due is not None:
            delay = min(delay, self.state.liveness_due - now.elapsed)
        return delay

    def _notice_stall(self, now: Now, commands: list[Command]) -> None:
        """Silence while this process itself stood still proves nothing: leave that span out of account."""
        self._turned(now.elapsed)
        if self._stood_still > 0:
            logger.warning("the scheduler stood still for %.1fs", self._stood_still)
            commands.insert(0, ("", Stalled(self._stood_still)))
            self._stood_still = 0.0

    def _turned(self, elapsed: float) -> None:
        late = elapsed - self._turned_at - TICK
        self._turned_at = elapsed
        if late > STALL:
            self._stood_still += late

    def _tick(self) -> None:
        """The loop turns. A slow store does not stop it; a stopped process, or a machine that sleeps, does."""
        self._turned(self._clock.now().elapsed)
        self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    async def _pass(self) -> None:
        """Decide on what has arrived, and begin to commit it as soon as what was decided before is there."""
        commands, questions = self._inbox.take(self.settings.batch_runs), self.desk.take_questions()
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
            self._wake_at = decisions.wake_at
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
        except Exception as error:
            self._refuse(flight.commands, error)
            raise
        finally:
            self._flight = None
        failure: StoreUnavailable | None = None
        try:
            await self._fill_dispatches(flight.decisions)
        except StoreUnavailable as error:
            # The batch is stored, so it is answered. What cannot be handed out without reading is found again by the
            # recovery that follows.
            failure = error
            self._keep_back(flight.decisions)
        self._deliver(flight.decisions, flight.commands)
        if failure is not None:
            raise failure

    def _deliver(self, decisions: Decisions, commands: Sequence[Command]) -> None:
        for _, content in commands:
            if type(content) is WorkerUp:
                self.desk.joined(content.worker_id)
        self._send(decisions)
        self._answer(decisions)
        self.totals.add(decisions)
        logs.write(decisions)
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
            one.run_id
            for messages in decisions.sends.values()
            for one in messages
            if type(one) is Dispatch and _needs_inputs(one)
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

    def _keep_back(self, decisions: Decisions) -> None:
        for worker_id, messages in decisions.sends.items():
            decisions.sends[worker_id] = [one for one in messages if not _needs_inputs(one)]

    def _send(self, decisions: Decisions) -> None:
        elapsed = self._clock.now().elapsed
        for worker_id, messages in decisions.sends.items():
            if self.desk.send_to_worker(worker_id, messages):
                handed_over(self.state, worker_id, messages, elapsed)
            else:
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
        if self._draining:
            self._inbox.put_first(StartDraining())
        self._inbox.put_first(Define(self._catalog.jobs()))
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
        waiting, self._inbox = self._inbox, Inbox()
        self._refuse(waiting.take(waiting.weight), error)
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
            except Exception as error:
                logger.exception("internal error")
                why = repr(error)
            logger.warning("cannot go on yet: %s", why)
            await self._sleep(delay)
            delay = min(delay * 2, 1.0)
        if self._stopping:
            self._inbox = Inbox()
            self.desk.refuse(self.desk.take_questions(), StoreUnavailable("stopping"))
