"""The scheduler's loop: take everything that arrived, decide, commit once, and only then tell anybody.

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
from interlock.model.command import CancelRun, Create, Define, Stalled, StartDraining
from interlock.model.error import InterlockError, LeaseLost, StaleEpoch, StoreUnavailable
from interlock.model.message import Dispatch, Message, Returned
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import Store

logger = logging.getLogger("interlock.engine")

LEASE = "scheduler"
LONGEST_WAIT = 1.0
"""seconds: how soon a jump of the wall clock is noticed"""
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
            if self._stopping and not self._inbox and not self.desk.questions:
                break
            if not self.available:
                await self._recover()
                continue
            await self._renew()
            if self.available:
                await self._pass()
        if self._lease is not None:
            try:
                await self._leases.release(self._lease)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

    # ── one pass ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _wait(self) -> None:
        """Sleep until something arrives or falls due."""
        if self._inbox or self.desk.questions or self._stopping or not self.available:
            return
        now = self._clock.now()
        delay = LONGEST_WAIT
        if self._wake_wall is not None:
            delay = min(delay, self._wake_wall - now.wall)
        if self._wake_elapsed is not None:
            delay = min(delay, self._wake_elapsed - now.elapsed)
        delay = min(delay, self._renew_at - now.elapsed)
        if delay <= 0:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(delay, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _take(self) -> list[Command]:
        """What one pass works on: everything, unless that is more than one commit should carry."""
        inbox = self._inbox
        if len(inbox) <= 32:
            limit = len(inbox)
        else:
            weight, limit = 0, 0
            while limit < len(inbox) and weight < self.settings.batch_runs:
                content = inbox[limit][1]
                weight += len(content.runs) if type(content) is Create else 1
                limit += 1
        if limit == len(inbox):
            self._inbox = []
            return inbox
        self._inbox = inbox[limit:]
        return inbox[:limit]

    def _notice_stall(self, now: Now, commands: list[Command]) -> None:
        late = now.elapsed - self._alive_at - LONGEST_WAIT
        if late > STALL:
            logger.warning("the scheduler stood still for %.1fs", late)
            commands.insert(0, ("", Stalled(late + LONGEST_WAIT)))

    async def _pass(self) -> None:
        commands = self._take()
        questions = self.desk.take_questions()
        try:
            if self.desk.lookups:
                commands = await self._look_up(commands)
            now = self._clock.now()
            self._notice_stall(now, commands)
            decisions = step(self.state, commands, now, self._rng)
            if decisions.batch:
                await self._store.commit(decisions.batch, LEASE, self._epoch)
            await self._fill_dispatches(decisions)
        except (StoreUnavailable, StaleEpoch) as error:
            self._fail(error, commands)
            self.desk.refuse(questions, error)
            return
        finally:
            self._alive_at = self._clock.now().elapsed
        self._wake_wall, self._wake_elapsed = decisions.wake_wall, decisions.wake_elapsed
        self._send(decisions)
        self._answer(decisions)
        self.totals.add(decisions)
        logs.write(decisions, self.state)
        self.desk.announce(decisions.ended)
        self.desk.answer_questions(questions)
        self.desk.relieve()

    @property
    def _epoch(self) -> int:
        return 0 if self._lease is None else self._lease.epoch

    async def _look_up(self, commands: list[Command]) -> list[Command]:
        """Fetch what the store knows of keys and occurrences that submits in this batch carry."""
        self.desk.lookups = 0
        places = [
            place
            for place, (_, content) in enumerate(commands)
            if type(content) is Create and intake.needs_lookup(content.runs)
        ]
        found = await intake.look_up([commands[place][1] for place in places], self._store)
        for place, create in zip(places, found, strict=True):
            commands[place] = (commands[place][0], create)
        return commands

    async def _fill_dispatches(self, decisions: Decisions) -> None:
        """Payloads too large to keep in memory, and checkpoints, go out straight from the store."""
        runs = self.state.runs
        wanted = [
            message.run_id
            for messages in decisions.sends.values()
            for message in messages
            if type(message) is Dispatch
            and (message.payload is None or (message.attempt > 1 and runs[message.run_id].has_checkpoint))
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
                self._fail(error, [])
        except LeaseLost as error:
            self._lease = None
            self._fail(error, [])

    def _fail(self, error: InterlockError, commands: Sequence[Command]) -> None:
        """Nothing of this batch was kept. Tell whoever waits for it, and begin again from the store."""
        logger.error("%s: starting again from the store", error)
        if isinstance(error, StaleEpoch):
            self._lease = None
        self.available = False
        refused = StoreUnavailable(str(error)) if not isinstance(error, StoreUnavailable) else error
        draining = self.state.draining
        inbox, self._inbox = self._inbox, []
        for origin, content in (*commands, *inbox):
            if isinstance(content, (Create, CancelRun)):
                self.desk.problem(origin, content.request, refused)
        if draining:
            self._inbox.append(("", StartDraining()))
        self.desk.drop_workers()

    async def _recover(self) -> None:
        loop = asyncio.get_running_loop()
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
            self._waiter = loop.create_future()
            timer = loop.call_later(delay, self.wake)
            await self._waiter
            timer.cancel()
            self._waiter = None
            delay = min(delay * 2, 1.0)
        if self._stopping:
            self._inbox.clear()
            self.desk.refuse(self.desk.take_questions(), StoreUnavailable("stopping"))
