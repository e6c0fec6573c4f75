"""The scheduler's loop: take everything that arrived, decide, commit once, and only then answer and send.

The engine may decide the next batch while one is being committed. The next commit begins when the first has ended, so
commits never overtake each other, and no answer is ahead of the store.

A failed commit is handled like a crash: its submits are refused, and the state in memory is dropped. Once the store
works again, the scheduler takes its lease with a new epoch, rebuilds the state from the store, and the workers
reconnect and list their attempts. So does one whose outcome is unknown: it was stored before the new epoch, or never
will be. Only its own submits are in doubt, and whoever repeats one with the same key finds its run.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec
from msgspec.structs import force_setattr

from interlock.core.attempts.silence import Silence
from interlock.core.decisions import Decisions, DefinitionStored, Failed
from interlock.core.effects import PendingEffects
from interlock.core.facts import Facts
from interlock.core.recovery.rebuild import rebuild, without_lost_time
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.step import MACHINE, NO_FACTS, Command, needs, step
from interlock.core.workflows.flow import Flows
from interlock.engine import facts, logs
from interlock.engine.catalog import Catalog
from interlock.engine.cluster import Cluster, alone
from interlock.engine.declarations import Declarations
from interlock.engine.effects import CheckPolicies, Effects, SenderLink, no_service
from interlock.engine.inbox import Inbox
from interlock.engine.links import Links
from interlock.engine.metrics import Metrics
from interlock.engine.ownership import LEADER, Ownership
from interlock.engine.present import Present
from interlock.engine.requests import Requests
from interlock.engine.service_book import ServiceBook
from interlock.engine.stall import StallWatch
from interlock.engine.tallies import Tallier
from interlock.error import InterlockError, LeaseLost, OutcomeUnknown, StaleEpoch, StoreUnavailable
from interlock.model.cluster import NodeFacts
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.ports.leases import Leases
from interlock.ports.operations import TreeOperations
from interlock.ports.store import Store
from interlock.wire.command import Create, HandedOver, NoteServices, StartDraining, WentBack, WorkerUp
from interlock.wire.effect import CallHook
from interlock.wire.message import Dispatch, Message, Returned

logger = logging.getLogger("interlock.engine")

Decide = Callable[[SchedulerState, Sequence[Command], Now, Random, Facts], Decisions]

AFTER_FAULT = 0.2  # seconds of rest after an internal error, in case it repeats
LONGEST_REST = 1.0  # seconds between two recoveries
LOOKS_EVERY = 1.0  # seconds between two looks at the lease


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    limits: CoreLimits = CoreLimits()
    lease_ttl: float = 10.0
    batch_runs: int = 2000  # most runs that one pass takes in
    holder: str = "scheduler"
    instance: str = ""  # id of this start; a worker of an earlier start finishes its work and leaves
    longest_wait: float = 1.0  # seconds until a jump of the wall clock is noticed
    node: NodeFacts | None = None  # of a cluster, in which it stands by for the lease, and ends when it loses it


class _Flight(msgspec.Struct):
    """A batch on its way into the store."""

    commit: "asyncio.Future[None]"
    decisions: Decisions
    commands: Sequence[Command]
    began: float  # elapsed time of the start of the commit


def _refusal(error: Exception) -> StoreUnavailable:
    """Return the error for what was certainly not stored."""
    if isinstance(error, StoreUnavailable):
        return error
    return StoreUnavailable(error.why if isinstance(error, OutcomeUnknown) else str(error))


def _shorten(messages: Sequence[Message], passed: float) -> None:
    """Subtract the time since the decision from a dispatch's `hold`."""
    for message in messages:
        if type(message) is Dispatch and message.hold:
            force_setattr(message, "hold", max(0.0, message.hold - passed))


class Engine:
    def __init__(
        self,
        *,
        store: Store,
        leases: Leases,
        clock: Clock,
        rng: Random,
        catalog: Catalog,
        settings: EngineSettings,
        inbox: Inbox | None = None,
        book: ServiceBook | None = None,
        metrics: Metrics | None = None,
        operations: TreeOperations | None = None,
        watch_worker: Callable[[str, Callable[[], None]], None] = lambda worker_id, call: None,
        need_sender: Callable[[], None] = lambda: None,
        call_hook: Callable[[CallHook], None] | None = None,
        check_policy: CheckPolicies = no_service,
        decide: Decide = step,
        stall: StallWatch | None = None,
        hand_over: Callable[[], None] = lambda: None,
    ) -> None:
        """`book` posts to the `inbox`. `operations` act on the tree that the scheduler is part of. `watch_worker` calls
        back when the process of a worker without a link ends, if the system can report it. `need_sender` is called when
        there is something to send, and no sender; `call_hook` is called instead of the sender. `hand_over` is to stop
        the scheduler, so that another one leads."""
        self._store = store
        self.owner = Ownership(leases, settings.holder, settings.lease_ttl, clock, rng)
        self._clock = clock
        self._rng = rng
        self.settings = settings
        self.inbox = Inbox() if inbox is None else inbox
        self.metrics = metrics or Metrics()
        self._book = book or ServiceBook(self.inbox.post)
        self._watch_worker = watch_worker
        self._decide = decide
        self._stall = stall or StallWatch(clock)
        self.present = Present(clock, settings.limits, catalog, self.inbox, self.metrics)
        self.sender = SenderLink(self.present, need_sender)
        self.effects = Effects(store, self.inbox.post, call_hook or self.sender.call, check_policy)
        self.tallier = Tallier(store, self.inbox.post)
        self.declarations = Declarations(self.present)
        cluster = Cluster(self.present, self.owner, settings.node or alone(settings.instance), hand_over)
        self.requests = Requests(self.present, store, self.sender, cluster, operations)
        lease = 0.0 if settings.node is None else settings.lease_ttl
        self.links = Links(self.present, self.requests, settings.instance, lease)
        self._sent: list[Command] = []  # dispatches sent since the last pass, for the next one; they do not cause one
        self._flight: _Flight | None = None
        self._wake_at: float | None = None
        self._stopping = False
        self._rest = 0.0  # seconds before the next recovery: a store that can be read may still refuse every write
        self._has_led = False  # whether the state was ever loaded from the store

    @property
    def state(self) -> SchedulerState:
        return self.present.state

    async def start(self) -> None:
        """Take the lease and load the state; stand by for it in a cluster. Raise if another scheduler has it, or a job
        cannot be declared."""
        if self.settings.node is not None:
            await self._stand_by()
        elif not await self._take_over():
            raise LeaseLost(LEADER, "held by another scheduler")
        self.declarations.check(self.present.catalog)

    async def _stand_by(self) -> None:
        """Wait until this scheduler leads."""
        while True:
            try:
                if await self._take_over():
                    return
            except StoreUnavailable as error:
                logger.warning("%s; standing by", error)
            await self.inbox.wait(LOOKS_EVERY, self._clock)

    def drain(self) -> None:
        """Refuse new runs and dispatch no more."""
        self.present.is_draining = True
        self.inbox.post("", StartDraining())

    def stop(self) -> None:
        """Make `run` return once everything that has arrived is stored."""
        self._stopping = True
        self.inbox.wake()

    async def run(self) -> None:
        self._stall.start()
        try:
            await self._run()
        finally:
            self._stall.stop()
            await self.effects.close()
            await self.tallier.close()
        await self.owner.release()

    async def _run(self) -> None:
        while True:
            await self._wait()
            if self.state.has_more:
                # A pass without rows does not await, but other tasks need the loop.
                await asyncio.sleep(0)
            self.present.note_pass()
            if not self.present.available:
                if self._stopping:
                    break
                await self._recover()
                continue
            try:
                if self._flight is not None and (self._flight.commit.done() or self.owner.has_ended):
                    await self._land()
                elif self._stopping and not self.inbox and self._flight is None:
                    self.present.is_over = True
                    break
                else:
                    if await self.owner.renew():
                        self.present.wrote_at = self._clock.now().elapsed
                    await self._pass()
            except (StoreUnavailable, OutcomeUnknown, StaleEpoch, LeaseLost) as error:
                await self._fail(error)
            except Exception as error:
                # A bug of ours: memory may be half changed, but the store is whole, so continue from it.
                logger.exception("internal error")
                await self._fail(InterlockError(f"internal error: {error!r}"))
                await self.inbox.wait(AFTER_FAULT, self._clock)

    async def _wait(self) -> None:
        """Sleep until a command arrives, a timer is due, or the pending commit has ended."""
        while (delay := self._idle_for()) > 0:
            await self.inbox.wait(delay, self._clock)
            if self._flight is None:
                return

    def _idle_for(self) -> float:
        if not self.present.available:
            return 0.0
        if self._flight is not None:
            # Deciding ahead pays only for a batch that is worth its own commit.
            ahead = self.inbox.weight >= self.settings.batch_runs // 4 or (self.state.has_more and not self._stopping)
            is_due = self._flight.commit.done() or ahead or self.inbox.answers or self.owner.has_ended
            return 0.0 if is_due else self.settings.longest_wait
        if self.inbox or self._stopping or self.state.has_more:
            return 0.0
        now = self._clock.now()
        delay = min(self.settings.longest_wait, self.owner.renew_at - now.elapsed)
        if self._wake_at is not None:
            delay = min(delay, self._wake_at - now.wall)
        if self.state.timers.spans:
            delay = min(delay, self.state.timers.spans[0][0] - now.elapsed)
        if (silence_due := self.state.of(Silence).due) is not None:
            delay = min(delay, silence_due - now.elapsed)
        return min(delay, self.state.of(PendingEffects).due - now.elapsed)

    async def _pass(self) -> None:
        """Decide on the commands that arrived, and begin the commit once the previous one has ended."""
        if not self.present.is_settled:
            # The new state has asked for nothing; the answers belong to the previous one.
            self.inbox.answers.clear()
        only_answers = bool(self.inbox.answers)
        commands = self.inbox.take(self.settings.batch_runs)
        try:
            needed = needs(self.state, commands)
            if needed:
                # Store every decision before reading facts.
                await self._land()
            found = await facts.read(needed, self._store, self.present.now()) if needed else NO_FACTS
            now = self._clock.now()
            self._stall.notice(now, commands)
            commands[:0], self._sent = self._sent, []
            decisions = self._decide(self.state, commands, now, self._rng, found)
            if decisions.outputs_judged:
                self.metrics.judged(decisions.outputs_judged, self._clock.now().elapsed - now.elapsed)
            if not self.present.is_settled:
                self.present.is_settled = True
                self.requests.settled()
            self._wake_at = decisions.wake_at
            if decisions.batch or decisions.effects or not only_answers:
                # Otherwise the pass only sends stored dispatches.
                await self._land()
            if not decisions.batch:
                self._deliver(decisions, commands, 0.0)
                return
            decisions.batch.position = self.present.position + 1
            self.present.position = decisions.batch.last_position
            commit = asyncio.ensure_future(self._store.commit(decisions.batch, self.owner.held))
        except Exception as error:
            self._refuse(commands, _refusal(error))
            raise
        commit.add_done_callback(lambda _: self.inbox.wake())
        self.present.writing = commit
        self._flight = _Flight(commit, decisions, commands, self._clock.now().elapsed)

    async def _land(self) -> None:
        """Wait for the pending commit, then deliver its decisions."""
        flight = self._flight
        if flight is None:
            return
        try:
            await self.owner.settle(flight.commit)
            self._rest = 0.0
            self.present.wrote_at = self._clock.now().elapsed
            self.present.stored = flight.decisions.batch.last_position
        except Exception as error:
            refusal = error if isinstance(error, OutcomeUnknown) else _refusal(error)
            self._refuse(flight.commands, refusal)
            self._refuse_answers(flight, refusal)
            raise
        finally:
            self._flight = self.present.writing = None
        self._deliver(flight.decisions, flight.commands, self.present.wrote_at - flight.began)

    def _deliver(self, decisions: Decisions, commands: Sequence[Command], seconds: float) -> None:
        """Carry out decisions whose commit took `seconds`."""
        for _, content in commands:
            if type(content) is WorkerUp:
                self.present.peers.joined(content)
            elif type(content) is WentBack:
                self.owner.lost = 0
        self._send(decisions)
        if decisions.effects:
            self.effects.begin(decisions.effects)
        self._answer(decisions)
        self.metrics.add(decisions, seconds)
        self.tallier.add(decisions.ended, self.present.stored, self.present.elapsed())
        logs.write(decisions)
        self.requests.announce(decisions.ended)
        if decisions.owed:
            self.sender.note_owed()
        self.sender.forget(decisions.ended)
        if decisions.batch.records or decisions.batch.service_log:
            for _, content in commands:
                if type(content) is NoteServices:
                    self._book.noted(content)
        if decisions.batch or decisions.progressed:
            self.requests.news(self.present.stored, list(decisions.progressed.values()))
        self.links.relieve()

    def _send(self, decisions: Decisions) -> None:
        out, elapsed = {}, self.present.elapsed()
        for worker_id, messages in decisions.sends.items():
            _shorten(messages, elapsed - decisions.elapsed)
            if self.present.peers.send_to_worker(worker_id, messages):
                out[worker_id] = messages
            else:
                for message in messages:
                    if type(message) is Dispatch:
                        gone = Returned(message.run_id, message.fence, "the worker left before it was sent")
                        self.inbox.post(worker_id, gone)
        if out:
            self._sent.append(("", HandedOver(out, elapsed)))

    def _answer(self, decisions: Decisions) -> None:
        for origin, answer in decisions.answers:
            if isinstance(answer, DefinitionStored):
                self.declarations.settle(answer.request, answer.difference)
            elif not isinstance(answer, Failed):
                self.present.peers.tell(origin, answer)
            else:
                self._refuse_one(origin, answer.request, answer.error)
                self.metrics.count("submits_refused_total", answer.error.code)

    def _refuse(self, commands: Sequence[Command], refusal: StoreUnavailable | OutcomeUnknown) -> None:
        """Answer these void commands with an error."""
        for origin, content in commands:
            request = getattr(content, "request", None)
            if request is not None:
                self._refuse_one(origin, request, refusal)
                if type(content) is Create:
                    self.metrics.count("submits_refused_total", refusal.code)

    def _refuse_answers(self, flight: _Flight, refusal: StoreUnavailable | OutcomeUnknown) -> None:
        """Refuse what was answered to commands of earlier passes, which waited for a record."""
        refused = {(origin, getattr(content, "request", None)) for origin, content in flight.commands}
        for origin, answer in flight.decisions.answers:
            request = getattr(answer, "request", None)
            if request is not None and (origin, request) not in refused:
                self._refuse_one(origin, request, refusal)

    def _refuse_one(self, origin: str, request: int, error: InterlockError) -> None:
        if origin:
            self.requests.problem(origin, request, error)
        else:
            self.declarations.settle(request, error)

    async def _take_over(self) -> bool:
        now, limits, present = self._clock.now(), self.settings.limits, self.present
        # Another node may have led meanwhile: then this scheduler ends, though the lease is free.
        if not await self.owner.take(again=self._has_led and self.settings.node is not None):
            self.metrics.count("lease_waits_total")
            return False
        present.wrote_at = now.elapsed
        snapshot = await self._store.load(limits.small_payload, MACHINE.records)
        if self.owner.lost:
            present.loss = WentBack(self.owner.lost, self._clock.now().wall)  # set by the store's since
            logger.error("%s; acknowledged runs may be gone", present.loss)
            snapshot = without_lost_time(snapshot, present.loss, present.position)
        before = present.state if self._has_led else None
        present.state = rebuild(MACHINE, limits, present.catalog.lanes, snapshot, self._clock.now(), before)
        self.metrics.begin(present.state)
        self.tallier.begin(snapshot, now.elapsed)
        present.position = present.stored = snapshot.position
        if present.is_draining:
            self.inbox.put_first(StartDraining())
        self.inbox.put_first(present.catalog.define(0, position=present.position, claim_key=os.urandom(32)))
        if self.owner.lost:
            self.inbox.put_first(present.loss)
        present.available = self._has_led = True
        present.leads_since = self._clock.now().wall
        present.is_settled = False
        self.requests.check_watched()
        for worker_id in present.state.workers:
            self._watch_worker(worker_id, partial(self.links.worker_died, worker_id))
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
            self.owner.lose()
            if self.settings.node is not None:
                # Nothing of a scheduler survives that no longer leads: its process ends, and stands by as another one.
                raise error
        self.present.available = False
        self.present.trouble = _refusal(error)
        self._refuse([*self.inbox.clear(), *self.state.of(Flows).inbox], self.present.trouble)
        self._sent.clear()
        self.present.peers.drop_workers()
        self.requests.settled()
        self._book.failed()

    async def _recover(self) -> None:
        while not self.present.available and not self._stopping:
            if self._rest:
                await self.inbox.wait(self._rest, self._clock)
            self._rest = min(max(0.05, self._rest * 2), LONGEST_REST)
            try:
                if await self._take_over():
                    logger.warning("the store works again; %d live runs", len(self.state.runs))
                    return
                if self.settings.node is not None:
                    self.owner.lose()
                    raise LeaseLost(LEADER, "another scheduler has led since")
                why = "another scheduler holds the lease"
            except LeaseLost:
                raise
            except StoreUnavailable as error:
                self.present.trouble, why = error, str(error)
            except Exception as error:
                logger.exception("internal error")
                why = repr(error)
            logger.warning("the store is still unavailable: %s", why)
        if self._stopping:
            self.inbox.clear()
