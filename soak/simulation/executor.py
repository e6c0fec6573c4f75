"""Attempts that take virtual time and end as their payload says: well, badly, never, or with their process.

The payload holds a plan, one entry an attempt (the last one stands for all that follow): how it ends and after how many
seconds. Work outlives a pause of its worker, as processes do, and ends with its worker's death.
"""

from collections.abc import Callable
from random import Random
from zlib import crc32

import msgspec

from interlock.model.failure import Failure, Outcome
from interlock.ports.executor import Executor, Report
from interlock.wire import message as m
from soak.simulation import functions
from soak.simulation.loop import Process, VirtualLoop

SUCCEED, COMPLETE, FAIL, GARBLED, FATAL, GIVE_UP = "succeed", "complete", "fail", "garbled", "fatal", "give_up"
LATER, WRONG = "later", "wrong"
CRASH, HANG, IGNORE, STUBBORN, RETURN = "crash", "hang", "ignore", "stubborn", "return"

OUTCOMES = {
    SUCCEED: "succeeded",
    COMPLETE: "completed",
    FAIL: "failed",
    GARBLED: "exploded",
    FATAL: "failed_fatal",
    GIVE_UP: "cancelled",
}
"""the word a worker would use; some are another's, or nobody's"""

FAILURES = {
    FAIL: Failure(["ConnectionError", "OSError", "Exception"], "gone"),
    WRONG: Failure(["ValueError", "Exception"], "wrong"),
    LATER: Failure(["interlock.model.failure.RetryAfter", "Exception"], "busy", 5.0),
}
"""what the attempt raised; an end without an entry raised nothing"""

CHECKER = "checker"
"""the job whose result is a verdict, the same in every attempt"""
SUCCEEDS = (SUCCEED, COMPLETE, IGNORE)
DEAF = (IGNORE, STUBBORN)  # does not stop when it is asked to; the second not even on TERM

Key = tuple[str, int]

SLOW = 0.4  # share of attempts that start slowly, in a seed that has such
FAILING = 0.15  # share of those whose start fails
CREATING, PULLING = "creates it", "pulls its image"


class Plan(msgspec.Struct):
    """The payload of a simulated run."""

    plan: tuple[tuple[str, float], ...] = ((SUCCEED, 0.3),)  # by default that of a run that checks for another
    padding: str = ""

    def entry(self, attempt: int) -> tuple[str, float]:
        return self.plan[min(attempt, len(self.plan)) - 1]


class Mark(msgspec.Struct):
    """What an attempt leaves in its result, error and checkpoint: who it was."""

    run_id: str
    fence: int


class Execution(msgspec.Struct):
    """An attempt that really executed."""

    run_id: str
    fence: int
    attempt: int
    worker: str
    began: float
    checkpoint: bytes | None
    ended: float | None = None
    how: str = ""
    failure: Failure | None = None
    is_turn: bool = False
    running_since: float | None = None  # when its start was over
    failed_to_start: bool = False


class Ledger:
    """Every attempt that executed anywhere, seen from outside."""

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        self.crashed: set[str] = set()  # runs that were in a process when it died alone
        self.on_execution: Callable[[m.Dispatch], None] = lambda dispatch: None

    def began(self, execution: Execution) -> None:
        self.executions.append(execution)

    def ended(self, execution: Execution) -> None:
        """Called when an execution has its end."""

    def turn_ended(self, dispatch: m.Dispatch, orders: bytes) -> None:
        """Called when the turn of a workflow has given its orders."""


class _Child:
    """A process that executes attempts, alone or several."""

    def __init__(self, isolated: bool) -> None:
        self.isolated = isolated
        self.retired = False
        self.doomed = False
        self.attempts: dict[Key, _Attempt] = {}


class _Attempt:
    def __init__(self, dispatch: m.Dispatch, child: _Child) -> None:
        self.dispatch = dispatch
        self.child = child
        self.is_turn = dispatch.record is not None
        if self.is_turn:
            self.how, self.seconds = functions.turn_plan(dispatch)
        else:
            self.how, self.seconds = msgspec.json.decode(dispatch.payload or b"", type=Plan).entry(dispatch.attempt)
        self.is_starting = False
        self.asked = False
        self.execution: Execution | None = None

    @property
    def key(self) -> Key:
        return self.dispatch.run_id, self.dispatch.fence

    def mark(self) -> bytes:
        return msgspec.json.encode(Mark(*self.key))

    def result(self) -> bytes:
        if self.is_turn:
            return functions.orders_of(self.dispatch)
        if self.dispatch.job_id == CHECKER:
            return (b"true", b"null", b"true", b'"not now"')[crc32(self.dispatch.run_id.encode()) % 4]
        return self.mark()


class SimulatedExecutor(Executor):
    def __init__(
        self,
        host: Process,
        rng: Random,
        ledger: Ledger,
        *,
        begins_twice: bool = False,
        begins_late: bool = False,
        starts_slowly: bool = False,
    ) -> None:
        self._host = host
        self._loop: VirtualLoop = host.loop
        self.children = Process(host.loop, f"{host.name}/children")
        self._rng = rng
        self._ledger = ledger
        self._begins_twice = begins_twice
        self._begins_late = begins_late
        self._starts_slowly = starts_slowly
        self._report: Report = lambda message: None
        self._shared = _Child(False)
        self._attempts: dict[Key, _Attempt] = {}
        host.at_end.append(self._die)

    async def open(self, report: Report) -> None:
        self._report = report

    def start(self, attempt: m.Dispatch) -> None:
        if self._shared.retired:
            self._shared = _Child(False)
        child = _Child(True) if attempt.isolated else self._shared
        one = _Attempt(attempt, child)
        child.attempts[one.key] = self._attempts[one.key] = one
        # A process that is idle begins before its host has read the next message.
        if (delay := self._rng.uniform(-0.02, 0.05)) > 0 or self.children.paused:
            self._later(max(0.0, delay), self._execute, one)
        else:
            self._execute(one)
        if self._begins_twice:
            self._later(0.06, self._execute, one)

    def _later(self, seconds: float, call: object, *arguments: object) -> None:
        self.children.call_at(self._loop.time() + seconds, call, *arguments)  # type: ignore[arg-type] # a bound method

    def _tell(self, message: m.Message) -> None:
        """From the child to the worker: a paused worker finds it when it goes on."""
        self._host.call_soon(self._report, message)

    # ── the life of an attempt ──────────────────────────────────────────────────────────────────────────────────────

    def _execute(self, one: _Attempt) -> None:
        if self._attempts.get(one.key) is not one:
            return
        if self._loop.time() > one.dispatch.begin_by and not self._begins_late:
            self._end(one, "expired")
            self._tell(m.Expired(*one.key))
            return
        if one.how == RETURN and one.dispatch.fence < 4:
            self._end(one, "returned")
            self._tell(m.Returned(*one.key, "could not begin"))
            return
        dispatch = one.dispatch
        one.execution = Execution(
            dispatch.run_id, dispatch.fence, dispatch.attempt, self._host.name, self._loop.time(), dispatch.checkpoint,
            is_turn=one.is_turn,
        )  # fmt: skip
        self._ledger.began(one.execution)
        if self._starts_slowly and not one.is_turn and self._rng.random() < SLOW:
            one.is_starting = True
            seconds = self._rng.expovariate(0.3)
            self._tell(m.Starting(*one.key, CREATING))
            self._later(seconds / 2, self._start_slowly, one)
            self._later(seconds, self._end_start, one)
        else:
            self._run(one)

    def _start_slowly(self, one: _Attempt) -> None:
        if self._attempts.get(one.key) is one:
            self._tell(m.Starting(*one.key, PULLING))

    def _end_start(self, one: _Attempt) -> None:
        if self._attempts.get(one.key) is not one:
            return
        if self._rng.random() < FAILING:
            self._finish(one, Outcome.FAILED)
        else:
            one.is_starting = False
            self._run(one)

    def _run(self, one: _Attempt) -> None:
        assert one.execution is not None
        one.execution.running_since = self._loop.time()
        self._tell(m.Started(*one.key))
        if not one.is_turn:
            self._ledger.on_execution(one.dispatch)
            self._say_something(one)
        if one.how == STUBBORN or one.how == HANG:
            return
        self._later(one.seconds, self._come_to_end, one)

    def _say_something(self, one: _Attempt) -> None:
        chance = self._rng.random()
        if chance < 0.15:
            self._tell(m.Checkpoint(*one.key, one.mark()))
        elif chance < 0.3:
            self._tell(m.LogMessage(*one.key, 1, self._loop.time(), "info", "hello"))
        elif chance < 0.4:
            self._tell(m.Progress(*one.key, 50.0, "half"))
        elif chance < 0.8 and one.dispatch.session is not None:
            self._tell(m.Usage(*one.key, 70 if chance < 0.65 else 10, 100))

    def _come_to_end(self, one: _Attempt) -> None:
        if self._attempts.get(one.key) is not one:
            return
        if one.how == CRASH:
            self._crash(one.child, 139)
        elif one.how in SUCCEEDS:
            self._finish(one, OUTCOMES.get(one.how, Outcome.SUCCEEDED))
        else:
            self._finish(one, OUTCOMES.get(one.how, Outcome.FAILED))

    def _finish(self, one: _Attempt, outcome: str) -> None:
        mark = one.mark()
        self._end(one, outcome)
        done = one.how in SUCCEEDS and outcome != Outcome.CANCELLED and not one.is_starting
        failure = None if outcome == Outcome.CANCELLED or one.is_starting else FAILURES.get(one.how)
        if one.execution is not None:
            one.execution.failure = failure
            one.execution.failed_to_start = one.is_starting
            if one.is_starting:
                one.execution.running_since = self._loop.time()  # for a scheduler that never heard of its start
        error, result = None if done else mark.decode(), one.result() if done else None
        if one.is_turn and result is not None:
            self._ledger.turn_ended(one.dispatch, result)
        self._tell(m.Finished(*one.key, outcome, result, error, failure=failure))

    def _end(self, one: _Attempt, how: str) -> None:
        del self._attempts[one.key]
        del one.child.attempts[one.key]
        if one.execution is not None:
            one.execution.ended, one.execution.how = self._loop.time(), how
            self._ledger.ended(one.execution)

    def _crash(self, child: _Child, exit_code: int) -> None:
        """The process ends, and takes with it whatever else it executed."""
        child.retired = True
        for attempt in list(child.attempts.values()):
            self._end(attempt, "lost")
            self._ledger.crashed.add(attempt.dispatch.run_id)
            self._tell(m.Lost(*attempt.key, "its process died", exit_code))

    # ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        one = self._attempts.get(attempt.key)
        if one is None:
            return False
        if one.asked:
            self._terminate(one)
            return False
        one.asked = True
        if one.execution is None or one.is_starting:
            self._finish(one, Outcome.CANCELLED)
        elif one.how not in DEAF:
            self._later(self._rng.uniform(0, 0.3), self._obey, one)
        return True

    def _obey(self, one: _Attempt) -> None:
        if self._attempts.get(one.key) is one:
            self._finish(one, Outcome.CANCELLED)

    def _terminate(self, one: _Attempt) -> None:
        one.child.retired = one.child.doomed = True
        if all(other.asked for other in one.child.attempts.values()) and one.how != STUBBORN:
            self._crash(one.child, -15)

    def kill(self, attempt: m.Dispatch) -> None:
        one = self._attempts.get(attempt.key)
        if one is not None:
            self._crash(one.child, -9)

    def _die(self) -> None:
        for attempt in list(self._attempts.values()):
            self._end(attempt, "died with its worker")
        self.children.kill()

    async def close(self) -> None:
        self._die()
