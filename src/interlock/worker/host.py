"""The host of a worker: takes attempts, gives them to the executor, reports to the scheduler, and sends heartbeats.

No user code runs here, so heartbeats come whatever the work does: even a handler that holds the interpreter lock for
minutes is in another process. A worker keeps each outcome until the scheduler has stored it, and repeats it over every
new link; so a crash of either side loses none.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import uniform

import msgspec
from msgspec.structs import force_setattr, replace

from interlock.error import InterlockError, NotRunning, rebuild
from interlock.fields.duration import span
from interlock.model.failure import Outcome
from interlock.model.pool import DEFAULT_POOL
from interlock.pace import Pace
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.ports.clock import Clock, LoopClock
from interlock.ports.executor import Executor, Key
from interlock.wire import message as m
from interlock.worker.held import EarlyAttempts, HeldAttempt, StopSteps
from interlock.worker.offers import Offers
from interlock.worker.reports import IN_DOUBT, KeptLines, Reports

logger = logging.getLogger("interlock.worker")

SHUTDOWN = "shutdown"
NEVER_BEGUN = "it was stopped before it began"
UNSETTLED = 60  # factor by which a worker waits longer for a scheduler while it holds outcomes
REMEMBERED = 4096  # settled attempts to recognise if their dispatch arrives again
MOST_UNANSWERED = 3  # signs of life without any message after which a link is given up
SKEWED = 1.0  # seconds by which the scheduler's wall clock must differ for times to be corrected
BREATHER = 1.0  # seconds after which an attempt without a process is returned


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str
    slots: int = 64
    processes: int = 2
    pool: str = DEFAULT_POOL
    labels: dict[str, str] = {}
    capabilities: list[str] = []
    heartbeat_interval: float = 10.0  # until the scheduler sends its own
    instance: str = ""
    pid: int = 0
    patience: float = 60.0  # seconds without a scheduler after which an idle worker ends
    stop_grace: float = 5.0  # seconds between asking, TERM and KILL when the worker itself must stop
    pace: Pace = Pace()


class Host(Endpoint):
    def __init__(
        self,
        bus: Bus,
        executor: Executor,
        jobs: Mapping[str, str],
        settings: HostSettings,
        clock: Clock | None = None,
        measure: Callable[[], m.Load] = m.Load,
        on_welcome: Callable[[], None] = lambda: None,
    ) -> None:
        """`jobs` are those of the app, with the digests of their code; `measure` says how busy the machine is;
        `on_welcome` is called after each time that a scheduler has accepted it."""
        self._bus, self._executor = bus, executor
        self._jobs = dict(jobs)
        self._settings = settings
        self._clock = clock if clock is not None else LoopClock()
        self._measure, self._on_welcome = measure, on_welcome
        self._unanswered = 0  # loads sent since the last message of the scheduler
        self._skew = 0.0  # the scheduler's wall clock minus this one, if that matters
        self._early = EarlyAttempts(self._clock, self._begin)
        self._offers = Offers()
        self._introduced = 0.0  # elapsed time of the last `Hello`
        self._welcomed = False  # whether it was answered
        self._delay = 0.0  # before the next attempt to connect
        self._was_there = 0.0  # loop time at which the last link to a scheduler ended
        self._held: dict[Key, HeldAttempt] = {}
        self._remembered: dict[Key, None] = {}
        self._turns: set[Key] = set()  # turns of workflows that have not ended
        self._lines = KeptLines()
        self._reports = Reports(self._clock, self._send)
        self._stop_steps = StopSteps(executor)
        self._peer: Peer | None = None
        self._leaving = False
        self._interrupted = False  # whether the drain is over
        self._refused: InterlockError | None = None
        self._interval = settings.heartbeat_interval
        self._pulse = self._interval  # seconds between two signs of life
        self._beat_at = 0.0  # elapsed time of the next heartbeat
        self._beating = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until it leaves, or until there is no scheduler and nothing to do. Raise if the scheduler refuses it."""
        loop = asyncio.get_running_loop()
        self._was_there = loop.time()
        for attempt in self._executor.adopt():
            held = self._held[attempt.key] = HeldAttempt(attempt, inf)
            held.waits, held.begun = False, True
        beat = loop.create_task(self._beat())
        try:
            while not self._done():
                if self._peer is None and not await self._connect():
                    logger.warning("no scheduler answers any more; leaving with %d unsettled attempts", len(self._held))
                    break
                self._changed.clear()
                if self._peer is not None and not self._done():
                    await self._changed.wait()
                if self._refused is not None:
                    raise self._refused
        finally:
            beat.cancel()
            self._early.forget_time()
            if self._peer is not None:
                self._peer.close()

    def _done(self) -> bool:
        return self._leaving and not self._held

    async def _connect(self) -> bool:
        """Try until there is a link; return False when the patience is over."""
        loop = asyncio.get_running_loop()
        since, pace = loop.time(), self._settings.pace
        while not self._done():
            if self._delay:
                self._changed.clear()
                await _wait(self._changed, self._delay * uniform(1 - pace.jitter, 1))
            # Kept until a `Welcome`, so that links which break before it do not follow each other at once.
            self._delay = pace.after(self._delay, loop.time() - self._was_there)
            try:
                self._peer = await self._bus.connect(self)
            except NotRunning:
                if loop.time() - since >= self._settings.patience * (UNSETTLED if self._held else 1):
                    return False
            else:
                self._introduce(self._peer)
                return True
        return True

    def _introduce(self, peer: Peer) -> None:
        settings = self._settings
        # The report of an ended attempt contains its start.
        held = [m.Held(*key, attempt.begun and attempt.outcome is None) for key, attempt in self._held.items()]
        hello = m.Hello(
            settings.worker_id, m.PROTOCOL, settings.pid, settings.slots, settings.processes, self._jobs, held,
            settings.instance, settings.pool, settings.capabilities, settings.labels, self._clock.now().wall,
        )  # fmt: skip
        self._reports.clear()
        self._introduced = self._clock.now().elapsed
        self._welcomed = False
        self._unanswered = 0
        peer.send([hello, *self._kept(), *self._outcomes(), *self._farewell()])

    async def _beat(self) -> None:
        """Send the load as a sign of life, and every interval heartbeats while attempts run, and outcomes that are not
        settled. Close a link on which nothing comes back: its other end may be gone without a word."""
        while True:
            self._beating.clear()
            await _wait(self._beating, self._pulse)
            peer = self._peer
            if peer is None:
                continue
            # Counted in messages, because time also passes while this process is stopped.
            if self._unanswered >= MOST_UNANSWERED:
                since = span(self._pulse * MOST_UNANSWERED)
                logger.warning("nothing has come from the scheduler for %s: connecting again", since)
                self.closed(peer)  # the link itself may take long to end
                peer.close()
                continue
            self._unanswered += 1
            now = self._clock.now().elapsed
            messages: list[m.Message] = [self._measure()]
            if now >= self._beat_at:
                # A pulse may come a moment early.
                self._beat_at = now + self._interval - self._pulse / 2
                messages[:0] = [*self._heartbeat(), *self._outcomes()]
            peer.send(messages)

    def _heartbeat(self) -> list[m.Heartbeat]:
        """Return a heartbeat that names every attempt without an outcome; empty without any."""
        self._reports.send_all()
        beat = self._offers.heartbeat(self._held.values(), self._clock.now().elapsed)
        return [beat] if beat.held else []

    def closed(self, peer: Peer) -> None:
        if self._peer is peer:
            self._peer = None
            if self._welcomed:
                self._was_there = asyncio.get_running_loop().time()
            self._offers.asked = None
            self._lines.forget(self._clock.now().elapsed - IN_DOUBT)
            self._changed.set()

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        if peer is not self._peer:
            return
        if not self._welcomed and not any(isinstance(message, (m.Welcome, m.Problem)) for message in messages):
            # Without a Welcome no offer has an end. The link has lost it, so begin another.
            peer.close()
            return
        self._unanswered = 0
        self._hear(messages)
        self._begin_offered()

    def _hear(self, messages: Sequence[m.Message]) -> None:
        for message in messages:
            kind = type(message)
            if kind is m.Dispatch:
                self._take(message)  # type: ignore[arg-type] # `kind` says so, faster than isinstance
            elif kind is m.Settled:
                self._settle((message.run_id, message.fence))  # type: ignore[attr-defined] # as above
            elif isinstance(message, m.Stop):
                self._stop((message.run_id, message.fence), message.reason)
            elif isinstance(message, m.Heard):
                self._offers.confirm(message, self._held.values())
                self._lines.confirm(message.at)
            elif isinstance(message, m.Welcome):
                self._welcome(message)
            elif isinstance(message, m.Drain):
                self.leave()
            elif isinstance(message, m.Problem):
                self._refused = rebuild(message.code, message.text)
                self._changed.set()

    def _welcome(self, message: m.Welcome) -> None:
        self._welcomed = True
        self._delay = 0.0
        self._interval = message.heartbeat
        self._pulse = min(self._interval, message.lease / MOST_UNANSWERED or self._interval)
        self._beat_at = 0.0
        skew = message.wall - self._clock.now().wall if message.wall else 0.0
        self._skew = skew if abs(skew) >= SKEWED else 0.0
        self._offers.begin(message, self._introduced)
        self._beating.set()
        self._ask()
        self._on_welcome()

    def _send(self, messages: Sequence[m.Message]) -> None:
        if self._peer is not None:
            self._peer.send(messages)

    def _take(self, dispatch: m.Dispatch) -> None:
        key = (dispatch.run_id, dispatch.fence)
        if key in self._held:
            return
        if self._leaving or key in self._remembered:
            # A remembered one is a repeated dispatch, or another run of the same name: the scheduler knows.
            why = "the worker had this fence before" if key in self._remembered else "the worker is leaving"
            # The scheduler would offer it again at once if the first word that this worker leaves was lost.
            self._send([*self._farewell(), m.Returned(*key, why)])
            return
        if self._skew and dispatch.deadline is not None:
            force_setattr(dispatch, "deadline", dispatch.deadline - self._skew)
        held = self._held[key] = self._offers.take(dispatch)
        if dispatch.record is not None:
            self._turns.add(key)
        if dispatch.hold:
            held.due = self._clock.now().elapsed + dispatch.hold

    def _begin_offered(self) -> None:
        """Begin the attempts that may begin. Everything that arrived together with them has been read."""
        if not self._offers.taken:
            return
        now = self._clock.now().elapsed
        for held in self._offers.ready(now):
            if held.due > now:
                self._early.add(held)
            else:
                self._begin(held)
        self._ask()

    def _ask(self) -> None:
        if self._peer is not None and self._offers.must_ask():
            (beat,) = self._heartbeat()
            self._offers.asked = beat.at
            self._peer.send([beat])

    def _expired(self, held: HeldAttempt) -> None:
        """Ask about an attempt that its executor process did not begin in time."""
        if held.stop is not None:
            self._end(held, m.Returned(*held.key, NEVER_BEGUN))
        else:
            held.waits = True
            self._offers.doubtful.append(held)
            self._ask()

    def _begin(self, held: HeldAttempt) -> None:
        """Begin an attempt, unless it has ended while it waited."""
        if held.outcome is not None or self._held.get(held.key) is not held:
            return
        held.waits = False
        try:
            self._executor.start(held.dispatch)
        except OSError as error:
            logger.error("run %s cannot be begun: %s", held.dispatch.run_id, error)
            returned = m.Returned(*held.key, f"its worker could not start a process: {error}")
            # Not at once, because this worker may get it again.
            asyncio.get_running_loop().call_later(BREATHER, self.report, returned)

    def _settle(self, key: Key) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        held.forget_timer()
        self._lines.settle(key)
        self._remembered[key] = None
        if len(self._remembered) > REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        if self._leaving and not self._held:
            self._changed.set()

    def report(self, message: m.Message) -> None:
        """Take a message of the executor: forward it, and keep outcomes."""
        held = self._held.get((message.run_id, message.fence))  # type: ignore[attr-defined] # all have them
        if held is None:
            return
        if isinstance(message, m.LogMessage):
            self._reports.send_start(held)
            if self._skew:
                message = replace(message, at=max(0.0, message.at + self._skew))
            self._send(self._lines.keep(message, self._clock.now().elapsed, self._peer is not None))
        elif isinstance(message, (m.Checkpoint, m.Progress, m.Starting, m.Usage)):
            self._reports.send_start(held)
            held.latest[type(message)] = message
            self._send([message])
        elif isinstance(message, m.Started):
            held.begun = True
            held.began = self._clock.now().elapsed - message.ago
            self._reports.started(held)
        elif isinstance(message, m.Expired):
            self._expired(held)
        elif isinstance(message, (m.Finished, m.Lost, m.Returned)):
            self._end(held, message)

    def _end(self, held: HeldAttempt, outcome: m.Finished | m.Lost | m.Returned) -> None:
        if isinstance(outcome, m.Finished):
            held.begun = True
            held.ended = self._clock.now().elapsed - outcome.ago
        if held.stop == SHUTDOWN and not (isinstance(outcome, m.Finished) and outcome.outcome == Outcome.SUCCEEDED):
            outcome = m.Returned(*held.key, "its worker stopped")
        held.outcome = outcome
        held.forget_timer()
        self._turns.discard(held.key)
        waits = held.due or (held.dispatch.record is not None and self._turns)
        self._reports.ended(held, hurries=self._leaving or not waits)

    def _outcomes(self) -> list[m.Message]:
        return [self._reports.of(held) for held in self._held.values() if held.outcome is not None]

    def _kept(self) -> list[m.Message]:
        """Return log lines, and the latest progress and checkpoints, for a new link."""
        lines = self._lines.again(self._clock.now().elapsed, self._held)
        return [*lines, *(record for held in self._held.values() for record in held.latest.values())]

    def _stop(self, key: Key, reason: str) -> None:
        held = self._held.get(key)
        if held is None or (held.stop is not None and held.stop != SHUTDOWN):
            return
        if held.outcome is not None:
            if reason == "stale":
                self._settle(key)
            return
        is_asked = held.stop is not None
        held.stop = reason
        if held.waits:
            self._end(held, m.Returned(*key, NEVER_BEGUN))
        elif not is_asked:
            self._stop_steps.press(held)

    def _farewell(self) -> list[m.Leaving]:
        return [m.Leaving()] if self._leaving else []

    def leave(self) -> None:
        """Take nothing new; `run` returns when all attempts are settled."""
        if not self._leaving:
            self._leaving = True
            self._reports.send_all()
            self._send(self._farewell())
            if not self._held:
                self._changed.set()

    def interrupt(self) -> None:
        """Stop the running attempts, and return them to the scheduler."""
        self.leave()
        if self._interrupted:
            return
        self._interrupted = True
        self._stop_steps.hurry(self._held.values(), self._settings.stop_grace)
        for key, held in list(self._held.items()):
            if held.outcome is None and held.timer is None:
                self._stop(key, SHUTDOWN)

    def abandon(self) -> None:
        """Leave at once; the scheduler notices by itself."""
        self._leaving = True
        self._held.clear()
        self._changed.set()

    @property
    def running(self) -> int:
        """Number of attempts without an outcome."""
        return sum(held.outcome is None for held in self._held.values())


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or for these seconds."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
