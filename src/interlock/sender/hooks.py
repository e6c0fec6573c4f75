"""Hooks: requests of the scheduler that are made once, and answered."""

from collections import deque
from collections.abc import Callable

from interlock.ports.clock import Clock
from interlock.sender.places import Places
from interlock.sender.transport import Transport
from interlock.task_set import TaskSet
from interlock.wire.delivery_request import HookAnswered, HookRequest

REMEMBERED = 60.0  # seconds for which an answer is repeated instead of making the request again
MOST_REMEMBERED = 1000


class Hooks:
    def __init__(
        self, transport: Transport, clock: Clock, tasks: TaskSet, answer: Callable[[HookAnswered], None]
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._tasks = tasks
        self._answer = answer
        self._places = Places()
        self._asked: dict[str, int] = {}  # run → seq of its hook that waits or is under way
        self._waiting: dict[str, deque[HookRequest]] = {}  # by host
        self._answers: dict[tuple[str, int], tuple[float, HookAnswered]] = {}  # with their times, oldest first

    def call(self, hook: HookRequest) -> None:
        key = hook.run_id, hook.seq
        self._forget_old()
        if key in self._answers:
            self._answer(self._answers[key][1])
        elif self._asked.get(hook.run_id) != hook.seq:
            self._asked[hook.run_id] = hook.seq
            self._waiting.setdefault(hook.outgoing.host, deque()).append(hook)
            self._begin()

    def forget(self, run_id: str, seq: int | None = None) -> None:
        """Do not begin the hook of a run any more."""
        if seq in (None, self._asked.get(run_id)):
            self._asked.pop(run_id, None)

    def _begin(self) -> None:
        for host, waiting in list(self._waiting.items()):
            while waiting and self._places.is_free(host):
                hook = waiting.popleft()
                if self._asked.get(hook.run_id) == hook.seq:
                    self._places.take(host)
                    self._tasks.begin(self._make(host, hook))
            if not waiting:
                del self._waiting[host]

    async def _make(self, host: str, hook: HookRequest) -> None:
        key = hook.run_id, hook.seq
        answer = await self._transport.post(hook.id, hook.outgoing, self._clock.now().wall, fresh=True)
        answered = HookAnswered(hook.run_id, hook.seq, answer.status, answer.error)
        self._places.leave(host)
        self.forget(hook.run_id, hook.seq)
        self._answers[key] = self._clock.now().elapsed, answered
        self._answer(answered)
        self._forget_old()
        self._begin()

    def _forget_old(self) -> None:
        oldest = self._clock.now().elapsed - REMEMBERED
        while self._answers:
            key, (at, _) = next(iter(self._answers.items()))
            if at >= oldest and len(self._answers) <= MOST_REMEMBERED:
                return
            del self._answers[key]
