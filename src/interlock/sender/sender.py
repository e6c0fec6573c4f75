"""The sender: makes the requests that the store says are owed, and reports their results to the scheduler.

The store is the queue; memory holds what is in hand. A delivery stays in hand from its fetch until the scheduler has
stored its result, so that no other fetch begins it again. Whatever is lost in between, with this process or the link,
is still owed in the store: each delivery is made at least once, with the same id each time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from random import Random

from interlock.circuit import Circuit, CircuitRules
from interlock.error import NotRunning, StoreUnavailable
from interlock.model.delivery import FACTOR, LONGEST_DELAY, Delivery
from interlock.model.record import RecordFilter
from interlock.model.run import Now
from interlock.pace import Pace
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.ports.clock import Clock
from interlock.ports.store import Reader, every_record
from interlock.sender.hooks import Hooks
from interlock.sender.places import Places
from interlock.sender.transport import ReceivedAnswer, Transport
from interlock.task_set import TaskSet
from interlock.wire import delivery_request as d
from interlock.wire import message as m
from interlock.wire.request import ValueAnswer

logger = logging.getLogger("interlock.sender")

CIRCUIT = CircuitRules(failures=5, pause=30.0, longest_pause=300.0)  # of a host
FETCHED = 500  # deliveries of one host fetched at once
MOST_REPORTED = 500  # results in one report; with as many unreported, no further delivery begins
BETWEEN_REPORTS = 0.1  # seconds
SPREAD = 0.25  # part of a delay by which it varies
LEAST_STEP, MOST_STEPS = 1.0, 100  # seconds of the smallest step ahead that counts; steps to remember
LONGEST_SLEEP = 60.0  # seconds after which the store is looked at in any case
REST = 4.0  # times the length of a look that must pass before the next
AFTER_FAULT = 1.0
PACE = Pace(first=0.05, late=5.0)
STEADY = 10.0  # seconds after which a new link begins at once
GONE = 410


def _delay(tries: int) -> float:
    """Return the seconds to wait after this many tries, before they vary."""
    return min(FACTOR ** min(tries - 1, 10), LONGEST_DELAY) if tries else 0.0


class _Target:
    """A host with deliveries in hand."""

    def __init__(self) -> None:
        self.circuit = Circuit(CIRCUIT)
        self.waiting: deque[Delivery] = deque()
        self.held: set[str] = set()  # ids in hand


class Sender(Endpoint):
    def __init__(self, reader: Reader, bus: Bus, transport: Transport, clock: Clock, random: Random) -> None:
        self._reader = reader
        self._bus = bus
        self._transport = transport
        self._clock = clock
        self._random = random
        self._tasks = TaskSet()
        self._hooks = Hooks(transport, clock, self._tasks, self._answer_hook)
        self._places = Places()
        self._targets: dict[str, _Target] = {}  # by host
        self._orders: set[str | None] = set()  # orders of deliveries in hand
        self._results: list[tuple[Delivery, d.Sent]] = []  # unreported
        self._reporting = 0  # length of the report that is not answered yet
        self._report_at = 0.0  # elapsed time of the next report
        self._is_report_planned = False
        self._peer: Peer | None = None
        self._registered = False
        self._requests = 0
        self._offset = -inf  # highest difference seen between wall clock and elapsed time
        self._seen: Now | None = None
        self._steps: deque[tuple[float, float]] = deque(maxlen=MOST_STEPS)  # of the clock ahead: when, and how far
        self._look_at = 0.0  # elapsed time, like the next two
        self._rested_at = 0.0
        self._connected_at = -inf
        self._delay = 0.0  # before the next attempt to connect
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                delay = self._look_at - self._clock.now().elapsed if self._is_ready else LONGEST_SLEEP
                if self._peer is None:
                    await self._connect()
                elif delay > 0:
                    await self._sleep(delay)
                else:
                    await self._look()
        finally:
            self._tasks.cancel()
            await self._tasks.end()
            if self._peer is not None:
                with suppress(RuntimeError):  # uvloop closes a link by itself if that is cancelled as it opens
                    self._peer.close()

    async def _sleep(self, delay: float) -> None:
        self._woken.clear()
        forget = self._clock.wake_after(delay, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            forget()

    @property
    def _is_ready(self) -> bool:
        return self._registered and len(self._results) < MOST_REPORTED

    def _time(self) -> float:
        """Return the wall clock as it would be if it had never been set back: next tries must not wait for longer."""
        now, seen = self._clock.now(), self._seen
        if seen is not None and (step := now.wall - now.elapsed - (seen.wall - seen.elapsed)) > LEAST_STEP:
            self._steps.append((seen.wall, step))
        self._seen = now
        self._offset = max(self._offset, now.wall - now.elapsed)
        return self._offset + now.elapsed

    def _is_over(self, delivery: Delivery, delay: float) -> bool:
        """Return whether the time of a delivery is over. Time by which the clock was set ahead while it was owed does
        not count."""
        time = self._clock.now().wall + delay
        return time - sum(step for at, step in self._steps if at >= delivery.created_at) > delivery.give_up_at

    # ── the store ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> None:
        """Fetch what is due, and plan the next look."""
        began = self._clock.now().elapsed
        self._look_at = began + LONGEST_SLEEP
        try:
            if self._seen is None:
                await self._see_past_clock()
            owed = await self._reader.due_times(Delivery)
            for host, due in owed.items():
                await self._look_at_host(host, due)
        except StoreUnavailable as error:
            logger.warning("%s", error)
            self._look_by(began + AFTER_FAULT)
            return
        self._targets = {host: target for host, target in self._targets.items() if target.held or host in owed}
        ended = self._clock.now().elapsed
        self._rested_at = ended + REST * (ended - began)
        self._begin()

    async def _see_past_clock(self) -> None:
        """Learn from the store the highest time that the clock has shown: a next try that is later than its delay
        explains was written before the clock was set back."""
        async for delivery in every_record(self._reader, Delivery, RecordFilter(is_due=True)):
            written = delivery.next_at - _delay(delivery.tries) * (1 + SPREAD)
            self._offset = max(self._offset, written - self._clock.now().elapsed)

    async def _look_at_host(self, host: str, due: float) -> None:
        time, elapsed = self._time(), self._clock.now().elapsed
        if due > time:
            return self._look_by(elapsed + (due - time))
        target = self._targets.setdefault(host, _Target())
        if not target.circuit.allows(elapsed):
            # The result of a probe under way leads to a look anyway.
            return self._look_by(target.circuit.until) if target.circuit.until > elapsed else None
        if len(target.waiting) < FETCHED // 4:
            # A result that is stored during the fetch does not show in it.
            held = set(target.held)
            for delivery in await self._reader.due(Delivery, host, time, FETCHED):
                if delivery.id not in held and delivery.order not in self._orders:
                    self._take(target, delivery)
        return None

    def _take(self, target: _Target, delivery: Delivery) -> None:
        target.held.add(delivery.id)
        self._orders |= {delivery.order} - {None}
        if target.circuit.is_open and self._is_over(delivery, 0.0):
            # A host that is gone gets few tries: those of all its deliveries would take for ever.
            error = delivery.error or "the host does not answer"
            self._note(delivery, ReceivedAnswer(delivery.status, delivery.answer, error), delivery.tries)
        else:
            target.waiting.append(delivery)

    def _release(self, delivery: Delivery) -> None:
        self._targets[delivery.host].held.discard(delivery.id)
        self._orders.discard(delivery.order)

    def _look_by(self, elapsed: float) -> None:
        self._look_at = min(self._look_at, max(elapsed, self._rested_at))
        self._woken.set()

    # ── deliveries ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """Begin deliveries while there are places, for the host with the fewest first."""
        now = self._clock.now()
        while self._is_ready:
            free = [
                host
                for host, target in self._targets.items()
                if target.waiting and self._places.is_free(host) and target.circuit.allows(now.elapsed)
            ]
            if not free:
                return
            host = min(free, key=self._places.taken)
            target = self._targets[host]
            self._places.take(host)
            self._tasks.begin(self._deliver(target, target.waiting.popleft(), target.circuit.begin()))

    async def _deliver(self, target: _Target, delivery: Delivery, round: int) -> None:
        answer = await self._transport.post(delivery.id, delivery.request, self._clock.now().wall)
        self._places.leave(delivery.host)
        self._judge(target, delivery.host, answer, round)
        self._note(delivery, answer, delivery.tries + 1)
        self._begin()

    def _judge(self, target: _Target, host: str, answer: ReceivedAnswer, round: int) -> None:
        circuit = target.circuit
        if not answer.made:
            circuit.give_back(round)
        elif answer.host_is_well:
            # Any success closes it, that of a try from before it opened too.
            if circuit.succeed(circuit.round):
                logger.info("%s answers again", host)
        elif circuit.fail(round, now := self._clock.now().elapsed):
            logger.warning("%s fails (%s); next try in %.0fs", host, answer.error, circuit.until - now)
            while target.waiting:
                self._release(target.waiting.pop())

    def _note(self, delivery: Delivery, answer: ReceivedAnswer, tries: int) -> None:
        """Keep the result for the next report."""
        wall, time = self._clock.now().wall, self._time()
        spread = self._random.uniform(1 - SPREAD, 1 + SPREAD)
        delay = _delay(tries) * spread
        given_up = bool(answer.error) and (answer.status == GONE or self._is_over(delivery, delay))
        if given_up:
            said = delivery.id, delivery.event, delivery.job_id, delivery.host, tries, answer.error
            logger.warning("gave up on delivery %s (%s of %s to %s) after %d tries: %s", *said)
        ended_at = wall if given_up or not answer.error else None
        sent = d.Sent(
            delivery.id, delivery.round, tries, time + delay, ended_at, answer.status, answer.text, answer.error
        )
        self._results.append((delivery, sent))
        self._report()

    # ── the scheduler ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _connect(self) -> None:
        if self._clock.now().elapsed - self._connected_at > STEADY:
            self._delay = 0.0
        await asyncio.sleep(self._delay)
        self._delay = PACE.after(self._delay)
        self._connected_at = self._clock.now().elapsed
        with suppress(NotRunning):
            await self._bus.connect(self)

    def opened(self, peer: Peer) -> None:
        self._peer = peer
        peer.send([m.Greeting(m.PROTOCOL), d.BecomeSender(self._next_request())])

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        for message in messages:
            match message:
                case d.HookRequest():
                    self._hooks.call(message)
                case d.ForgetHook(run_id):
                    self._hooks.forget(run_id)
                case d.Owed():
                    self._look_by(0.0)
                case ValueAnswer(request) if request == self._requests and self._registered:
                    self._reported()
                case ValueAnswer(request) if request == self._requests:
                    self._registered = True
                    self._report()
                    self._look_by(0.0)
                case m.Problem(_, _, text):
                    logger.warning("the scheduler refused the sender: %s", text)
                    peer.close()

    def closed(self, peer: Peer) -> None:
        """Connect anew. Results that were not reported are reported again, which changes nothing if they are stored."""
        self._peer, self._registered, self._reporting = None, False, 0
        self._woken.set()

    def _next_request(self) -> int:
        self._requests += 1
        return self._requests

    def _answer_hook(self, answered: d.HookAnswered) -> None:
        if self._peer is not None:
            self._peer.send([answered])

    def _report(self) -> None:
        """Send one report at a time, and not too many: each is a commit of the scheduler. Only the next delivery of an
        order waits for the result of the one before."""
        if self._registered and self._peer is not None and not self._reporting and self._results:
            left = self._report_at - self._clock.now().elapsed
            if left > 0 and not self._orders and len(self._results) < MOST_REPORTED:
                if not self._is_report_planned:
                    self._is_report_planned = True
                    self._clock.wake_after(left, self._report_planned)
                return
            batch = [sent for _, sent in self._results[:MOST_REPORTED]]
            self._reporting = len(batch)
            self._peer.send([d.ReportSent(self._next_request(), batch)])

    def _report_planned(self) -> None:
        self._is_report_planned = False
        self._report()

    def _reported(self) -> None:
        self._report_at = self._clock.now().elapsed + BETWEEN_REPORTS
        for delivery, _ in self._results[: self._reporting]:
            self._release(delivery)
        del self._results[: self._reporting]
        self._reporting = 0
        self._report()
        self._begin()
        self._look_by(0.0)
