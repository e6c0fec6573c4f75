"""A scheduler reduced to its core: the state, a store that every batch is applied to, and a clock that tests move."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from math import inf, nextafter
from random import Random
from typing import Any, TypeVar

from interlock.core.decisions import Answer, Decisions, Failed
from interlock.core.policy.judge_state import Judging
from interlock.core.recovery.rebuild import rebuild
from interlock.core.state import DEFAULT_LANES, CoreLimits, SchedulerState
from interlock.core.step import MACHINE, Command, needs, new_state, step
from interlock.core.workflows.flow import Flows
from interlock.engine import effects, facts
from interlock.model.bulk import ActedOn, RunAction
from interlock.model.job import Job, Retry
from interlock.model.lane import LaneSpec
from interlock.model.policy.verdict import PolicyRequest, Verdict
from interlock.model.run import Now, Run, Transition
from interlock.model.state import ALLOWED, State
from interlock.model.tenant import TenantSpec
from interlock.policy.policy import Policy
from interlock.stores.memory import MemoryStore
from interlock.wire.command import Answered, Create, Define, HandedOver, WorkerDown, WorkerUp
from interlock.wire.effect import CallHook, CheckPolicy
from interlock.wire.message import Dispatch, Finished, Heartbeat, Held, Load, Lost, Message, Started
from interlock.wire.request import Accepted, NewRun, ValueAnswer
from interlock.wire.run_request import CancelRun, HoldRun, ReleaseRun, RetryRun, RunChange

T = TypeVar("T")

WORK = Job(id="work")
AT_ONCE = {"*": {"debounce": 0.0, "max_concurrent": 1000, "cap": 1000}}
"""patterns for sessions that hold nothing up"""
START = 1_000_000.0
"""wall time at which every machine begins; elapsed time begins at another value, so that mixing them up shows"""
ELAPSED = 500.0
FIRST = {State.PRERUN, State.PENDING, State.SKIPPED, State.UNDER_WAY}
"""states of a new run"""


def specs(lanes: Mapping[str, int | LaneSpec]) -> dict[str, LaneSpec]:
    return {name: one if isinstance(one, LaneSpec) else LaneSpec(limit=one) for name, one in lanes.items()}


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as those of the memory store do."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the call waits for something")


REQUESTS: dict[RunAction, type[RunChange[ActedOn]]] = {
    kind.does: kind for kind in (CancelRun, HoldRun, ReleaseRun, RetryRun)
}


def acted_on(answer: object) -> ActedOn:
    """Return the value of the answer to a request that acts on a run."""
    assert isinstance(answer, ValueAnswer), answer
    assert isinstance(answer.value, ActedOn)
    return answer.value


class Machine:
    def __init__(
        self,
        *jobs: Job,
        lanes: Mapping[str, int | LaneSpec] | None = None,
        limits: CoreLimits | None = None,
        seed: int = 0,
        policy: Policy | None = None,
        tenants: Mapping[str, TenantSpec] = {},
    ) -> None:
        self.policy = policy
        self.tenants = dict(tenants)
        self.jobs = list(jobs) or [WORK]
        self.lanes = dict[str, int | LaneSpec](DEFAULT_LANES if lanes is None else lanes)
        self.limits = limits or CoreLimits()
        self.rng = Random(seed)
        self.store = MemoryStore()
        self.state = new_state(self.limits, specs(self.lanes))
        self.wall, self.elapsed = START, ELAPSED
        self.sent: list[tuple[str, Message]] = []
        """every message to a worker, oldest first"""
        self.ended: list[Run] = []
        self.warned: list[str] = []
        self.last: Decisions
        self.answers: effects.Answers = []
        """to effects, which the core has not got"""
        self.holds_answers = False
        self.called: list[CallHook] = []
        self.hook: Callable[[CallHook], tuple[int | None, str]] | None = lambda _: (200, "")
        """answers a hook at once; without it no hook is answered"""
        self.checked: list[CheckPolicy] = []
        self.remote: Callable[[PolicyRequest], Verdict | str] | None = None
        """answers for the remote policy, with a verdict or why there is none; without it nothing answers"""
        self._out: list[Command] = []
        self.decide = step
        self.mute: set[str] = set()
        """workers that say nothing by themselves"""
        self._requests = 0
        self._position = 1
        self.step(("", self.define(0)))

    def define(self, request: int = 1) -> Define:
        return Define(request, self.jobs, policy=self.policy, tenants=self.tenants, claim_key=b"key")

    # ── time and passes ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> Now:
        return Now(self.wall, self.elapsed)

    def step(self, *commands: Command) -> Decisions:
        """One pass, and those that follow from it at once. As in the shell, facts are read before it, its decisions
        stored, and its effects answered."""
        self.last = decisions = self._pass(commands)
        while (
            self.state.timetable.unsure
            or self.state.of(Judging).to_judge
            or self.state.of(Flows).touched
            or (self.answers and not self.holds_answers)
        ):
            answers, self.answers = self.answers, []
            self._pass([("", Answered(answers))])
            decisions.wake_at = self.last.wake_at
            self.last = decisions
        if self.state.timers.spans:
            # As in the shell, which sleeps until the first of both. Wall time is large, and so coarser.
            left = self.state.timers.spans[0][0] - self.elapsed
            ends = self.wall if left <= 0 else max(self.wall + left, nextafter(self.wall, inf))
            self.last.wake_at = ends if self.last.wake_at is None else min(self.last.wake_at, ends)
        return self.last

    def _pass(self, commands: Sequence[Command]) -> Decisions:
        found = at_once(facts.read(needs(self.state, commands), self.store, self.wall))
        self.last = self.decide(self.state, [*self._out, *commands], self.now, self.rng, found)
        self.last.batch.position = self._position
        self._position = self.last.batch.last_position + 1
        for run_id, entries in self.last.batch.history:
            for entry in entries:
                is_allowed = entry.after in (FIRST if entry.before is None else ALLOWED[entry.before])
                assert is_allowed, f"{run_id}: {entry.before} → {entry.after} is not in the table"
        self.store.apply(self.last.batch)
        for run in self.last.changed.values():
            stored = self.store.runs_by_id[run.id]
            unwritten = {name for name in Run.__struct_fields__ if getattr(run, name) != getattr(stored, name)}
            assert unwritten <= {"payload"}, f"{run.id} is {run.state}, and an update left out {unwritten}"
        self._out = [("", HandedOver(self.last.sends, self.elapsed))]
        asked = self.last.effects
        for kind, do in effects.KINDS.items():
            self.answers += at_once(do([one for one in asked if type(one) is kind], self.store))
        for one in asked:
            if isinstance(one, CheckPolicy):
                self.checked.append(one)
                if self.remote is not None:
                    verdicts = [self.remote(request) for request in one.requests]
                    why = [text for text in verdicts if isinstance(text, str)]
                    self.answers.append((one, (one.requests, why[0] if why else verdicts)))
            if isinstance(one, CallHook):
                self.called.append(one)
                if self.hook is not None:
                    self.answers.append((one, self.hook(one)))
        self.sent += [(worker_id, one) for worker_id, messages in self.last.sends.items() for one in messages]
        self.ended += self.last.ended
        self.warned += self.last.warnings
        return self.last

    def advance(self, seconds: float) -> Decisions:
        self.wall += seconds
        self.elapsed += seconds
        return self.step(*self.loads())

    def advance_to(self, wall: float) -> Decisions:
        """To this very instant, which a sum may miss."""
        self.elapsed += wall - self.wall
        self.wall = wall
        return self.step(*self.loads())

    def loads(self) -> list[Command]:
        """What workers say every few seconds, unless they are mute."""
        connected = [one.id for one in self.state.workers.values() if one.connected and one.id not in self.mute]
        return [(worker_id, Load()) for worker_id in connected]

    def restart(self) -> None:
        """The scheduler is killed, and the next one begins with what the store has."""
        self._begin_again(None)

    def restart_with_worker(self, *worker: Any, **more: Any) -> Decisions:
        """Restart, and have a worker join with these fields of `worker_up`."""
        self.restart()
        return self.worker_up(*worker, **more)

    def recover(self) -> None:
        """The scheduler lives, and begins again with what the store has, for that could not be written to."""
        self._begin_again(self.state)

    def _begin_again(self, before: SchedulerState | None) -> None:
        snapshot = at_once(self.store.load(self.limits.small_payload, MACHINE.records))
        self.state = rebuild(MACHINE, self.limits, specs(self.lanes), snapshot, self.now, before)
        self.step(("", self.define(0)))

    # ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def command(self, *runs: NewRun) -> Create:
        """A submit as the shell hands it in."""
        self._requests += 1
        return Create(self._requests, list(runs), "client", 0)

    def ask(self, *runs: NewRun) -> Answer:
        return self.step(("client", self.command(*runs))).answers[-1][1]

    def answered(self, answers: effects.Answers) -> Decisions:
        return self.step(("", Answered(answers)))

    def submit(self, job_id: str = "work", payload: bytes = b"{}", **fields: Any) -> str:
        answer = self.ask(NewRun(job_id, payload, **fields))
        if isinstance(answer, Failed):
            raise answer.error
        assert isinstance(answer, Accepted)
        return answer.run_ids[0]

    def submit_many(self, count: int, job_id: str = "work", **fields: Any) -> list[str]:
        return [self.submit(job_id, **fields) for _ in range(count)]

    def cancel_command(self, run_id: str) -> Command:
        self._requests += 1
        return "client", CancelRun(self._requests, run_id, "asked to").by(actor="client")

    def cancel(self, run_id: str) -> Answer:
        return self.step(self.cancel_command(run_id)).answers[-1][1]

    def act(self, action: RunAction, run_id: str) -> Answer:
        return self.step(("client", REQUESTS[action](7, run_id, "wait").by(actor="ann"))).answers[-1][1]

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def worker_up(
        self,
        worker_id: str = "one",
        slots: int = 100,
        processes: int = 10,
        held: Sequence[Held] = (),
        draining: bool = False,
    ) -> Decisions:
        known = {job.id: job.code for job in self.jobs}
        return self.step(("", WorkerUp(worker_id, slots, processes, known, list(held), draining)))

    def worker_down(self, worker_id: str = "one", dead: bool = False, reason: str = "killed") -> Decisions:
        return self.step(("", WorkerDown(worker_id, dead, reason)))

    def held(self, run_id: str) -> Held:
        return Held(run_id, self.run(run_id).fence)

    def started(self, run_id: str) -> Decisions:
        run = self.run(run_id)
        return self.step((str(run.worker_id), Started(run_id, run.fence)))

    def finish_command(self, run_id: str, outcome: str = "succeeded", **fields: Any) -> Command:
        run = self.run(run_id)
        return str(run.worker_id), Finished(run_id, run.fence, outcome, **fields)

    def finished(self, run_id: str, outcome: str = "succeeded", **fields: Any) -> Decisions:
        return self.step(self.finish_command(run_id, outcome, **fields))

    def lost(self, run_id: str, reason: str = "signal 9", exit_code: int | None = -9) -> Decisions:
        run = self.run(run_id)
        return self.step((str(run.worker_id), Lost(run_id, run.fence, reason, exit_code)))

    def heartbeat(self, worker_id: str = "one", *run_ids: str) -> Decisions:
        return self.step((worker_id, Heartbeat([self.held(run_id) for run_id in run_ids])))

    def running(self, *, worker_id: str = "one", **fields: Any) -> str:
        """A run that executes, on a worker that is there."""
        if worker_id not in self.state.workers:
            self.worker_up(worker_id)
        run_id = self.submit(**fields)
        self.started(run_id)
        assert self.state_of(run_id) is State.RUNNING
        return run_id

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, run_id: str) -> Run:
        """The run in memory, or as it was stored when it has ended."""
        return self.state.runs.get(run_id) or self.store.runs_by_id[run_id]

    def state_of(self, run_id: str) -> State:
        return self.run(run_id).state

    def history(self, run_id: str) -> list[Transition]:
        return at_once(self.store.history(run_id))

    def path(self, run_id: str) -> list[State]:
        return [entry.after for entry in self.history(run_id)]

    def dispatched(self) -> list[str]:
        """The runs handed to workers, in order, once for each time."""
        return [message.run_id for _, message in self.sent if isinstance(message, Dispatch)]

    def messages(self, kind: type[T]) -> list[T]:
        return [message for _, message in self.sent if isinstance(message, kind)]


def retrying_job(max_retries: int, **fields: Any) -> Job:
    """A job whose retry delays are exact."""
    retry = Retry(max_retries=max_retries, jitter=0, initial_delay=2.0, multiplier=2.0, max_delay=30.0)
    return Job(id="work", retry=retry, **fields)
