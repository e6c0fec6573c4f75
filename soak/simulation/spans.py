"""Delays, retries and run times must last as long as they say in elapsed time, whatever the wall clock does (RUN-22).

A scheduler that is started goes by the wall clock, so a span that saw a start may be shorter.
"""

from collections.abc import Callable
from math import inf

from interlock.model.job import Job
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.wire.message import Stop
from soak.simulation.executor import Execution
from soak.simulation.loop import VirtualLoop

ROUNDING = 1e-6
SETTLED = 40.0  # seconds after which the last fault has no effect on the scheduler any more
SLACK = 5.0


class Spans:
    def __init__(self, loop: VirtualLoop, require: Callable[[bool, str], None]) -> None:
        self._loop = loop
        self._require = require
        self._started = 0.0  # when a scheduler was last started
        self._quiet = inf  # from when on nothing disturbs the scheduler
        self._failed: dict[str, tuple[float, float]] = {}
        """run → when its attempt failed, and the shortest delay before the next"""
        self._waiting: dict[str, tuple[float, float]] = {}
        """run → since when it waits for its delay or retry, and how long it may at the most"""
        self.submitted: dict[str, float] = {}  # run → when its client began to submit it

    def scheduler_starts(self) -> None:
        self._started = self._loop.time()

    def faults_end(self) -> None:
        self._quiet = self._loop.time() + SETTLED

    def _require_span(self, since: float, span: float, text: str) -> None:
        lasted = self._loop.time() - since
        held = lasted >= span - ROUNDING or self._started >= since
        self._require(held, f"{text} after {lasted:.3f}s of elapsed time, and not {span:.3f}s")

    def stored(self, run: Run, job: Job, last: Transition, failed: Execution | None) -> None:
        """`failed` is the execution under the fence that the run has."""
        now = self._loop.time()
        if run.state is State.RETRYING and last.before is State.TERMINATING:
            asked = None if failed is None or failed.failure is None else failed.failure.retry_after
            shortest, longest = (asked or job.retry.delay(run.failures - 1, spread) for spread in (-1.0, 1.0))
            if failed is not None and failed.ended is not None:
                self._failed[run.id] = failed.ended, shortest
            self._waiting.setdefault(run.id, (now, longest))
        elif run.state is State.PRERUN and run.delay is not None:
            self._waiting.setdefault(run.id, (now, run.delay))
        elif run.id in self._waiting:
            since, longest = self._waiting.pop(run.id)
            late = now - max(since, self._started, self._quiet) - longest
            self._require(late <= SLACK, f"{run.id} waited for {late:.3f}s longer than the {longest:.3f}s it had to")

    def began(self, execution: Execution, run: Run | None) -> None:
        run_id = execution.run_id
        if run_id in self._failed:
            self._require_span(*self._failed.pop(run_id), f"{run_id} was retried")
        since = self.submitted.pop(run_id, None)
        if since is not None and run is not None and run.delay is not None:
            self._require_span(since, run.delay, f"{run_id} began")

    def stops(self, message: Stop, run: Run, longest: float | None, executions: list[Execution]) -> None:
        per_attempt = message.reason == "attempt_timeout"
        if per_attempt or (message.reason == "timeout" and run.deadline_at is None):
            self.timed_out(
                longest, [execution for execution in executions if not per_attempt or execution.fence == message.fence]
            )

    def timed_out(self, longest: float | None, executions: list[Execution]) -> None:
        if longest is not None and executions:
            first = min(one.running_since or inf for one in executions)
            self._require_span(first, longest, f"{executions[0].run_id} ran into max_runtime")

    def start_timed_out(self, job: Job, execution: Execution) -> None:
        self._require_span(execution.began, job.start_timeout, f"{execution.run_id} ran into start_timeout")
