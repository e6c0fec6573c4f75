"""Carry out effects after the commit, beside the loop, bounded in number and time. The sender carries out hooks."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from interlock.core.effects import PendingEffects
from interlock.engine.present import Present
from interlock.error import PolicyClosed, PolicyUnavailable, StoreUnavailable
from interlock.model.policy.verdict import PolicyRequest, Verdict
from interlock.model.run import Run
from interlock.ports.store import Lookup, Store
from interlock.task_set import TaskSet
from interlock.wire import delivery_request as d
from interlock.wire import effect as e
from interlock.wire.command import Answered
from interlock.wire.request import ValueAnswer

logger = logging.getLogger("interlock.engine")

MOST_AT_ONCE = 8  # calls to the store under way at once
MOST_FRAMES = 4  # calls to the policy service under way at once
MOST_PAYLOADS = 100  # payloads read in one call for runs that are to be judged
FRAME, FRAME_BYTES = 100, 4 * 1024 * 1024  # requests of one such call, and bytes of their payloads
Answers = list[tuple[e.Effect, Any]]
CheckPolicies = Callable[[Sequence[PolicyRequest], bool], Awaitable[list[Verdict]]]


async def no_service(requests: Sequence[PolicyRequest], again: bool) -> list[Verdict]:
    raise PolicyUnavailable("no policy service is set")


class Effects:
    def __init__(
        self,
        store: Store,
        post: Callable[[str, object], None],
        call_hook: Callable[[e.CallHook], None] = lambda _: None,
        check: CheckPolicies = no_service,
    ) -> None:
        """`call_hook` hands a request to the sender, whose answer comes by itself. `check` asks the policy service, or
        raises `PolicyUnavailable`."""
        self._check_policy = check
        self._call_hook = call_hook
        self._store = store
        self._post = post
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks = TaskSet()
        self._under_way: set[e.Effect] = set()
        self._checks: deque[e.CheckPolicy] = deque()  # those that no call has taken yet
        self._frames = 0  # calls to the policy service under way

    def begin(self, effects: Sequence[e.Effect]) -> None:
        """Begin these effects, one call for each kind, except those already under way."""
        for effect in effects:
            if isinstance(effect, e.CallHook):
                self._call_hook(effect)
        new = [effect for effect in effects if effect not in self._under_way and not isinstance(effect, e.CallHook)]
        self._under_way.update(new)
        for kind, do in KINDS.items():
            batch = [effect for effect in new if type(effect) is kind]
            # A new policy may ask for the payloads of everything that waits.
            size = MOST_PAYLOADS if kind is e.ReadPayload else len(batch)
            for first in range(0, len(batch), size or 1):
                self._tasks.begin(self._do(do, batch[first : first + size]))
        self._checks.extend(effect for effect in new if isinstance(effect, e.CheckPolicy))
        self._ask()

    def _ask(self) -> None:
        """Ask the policy service while there is room. Requests that have to wait share the next call."""
        while self._checks and self._frames < MOST_FRAMES:
            checks = [self._checks.popleft()]
            requests = [*checks[0].requests]
            size = sum(len(request.payload) for request in requests)
            while self._checks and self._checks[0].again == checks[0].again:
                more = self._checks[0].requests
                size += sum(len(request.payload) for request in more)
                if len(requests) + len(more) > FRAME or size > FRAME_BYTES:
                    break
                checks.append(self._checks.popleft())
                requests += more
            self._frames += 1
            self._tasks.begin(self._check(checks, requests))

    async def _check(self, checks: Sequence[e.CheckPolicy], requests: Sequence[PolicyRequest]) -> None:
        """Ask for the verdicts on these requests, which are those of the checks. Without them, answer why; a shutdown
        answers nothing."""
        answers: Answers = []
        try:
            again = checks[0].again
            verdicts = iter(
                [verdict for frame in _frames(requests) for verdict in await self._check_policy(frame, again)]
            )
            answers = [(check, (check.requests, [next(verdicts) for _ in check.requests])) for check in checks]
        except PolicyClosed:
            pass
        except PolicyUnavailable as error:
            answers = [(check, (check.requests, error.why)) for check in checks]
        except Exception:
            logger.exception("internal error")
        finally:
            self._under_way.difference_update(checks)
            self._frames -= 1
        self._ask()
        if answers:
            self._post("", Answered(answers))

    async def _do(self, do: "Do", effects: Sequence[e.Effect]) -> None:
        try:
            async with self._room, asyncio.timeout(effects[0].limit):
                answers = await do(effects, self._store)
        except (StoreUnavailable, TimeoutError) as error:
            # The core will ask again.
            logger.warning("no answer to %d effects: %r", len(effects), error)
        except Exception:
            logger.exception("internal error")
        else:
            self._post("", Answered(answers))
        finally:
            self._under_way.difference_update(effects)

    async def close(self) -> None:
        self._checks.clear()
        self._tasks.cancel()
        await self._tasks.end()


def _frames(requests: Sequence[PolicyRequest]) -> list[list[PolicyRequest]]:
    """Split requests into frames: a run that has collected many payloads needs several."""
    frames, size = [[requests[0]]], len(requests[0].payload)
    for request in requests[1:]:
        size += len(request.payload)
        if len(frames[-1]) == FRAME or size > FRAME_BYTES:
            frames.append([])
            size = len(request.payload)
        frames[-1].append(request)
    return frames


async def read_inputs(effects: Sequence[e.Effect], store: Store) -> Answers:
    found = await store.look_up(Lookup(inputs=[effect.run_id for effect in effects]))
    known = ((effect, found.inputs.get(effect.run_id)) for effect in effects)
    return [
        (effect, (inputs.payload, inputs.checkpoint, inputs.further)) for effect, inputs in known if inputs is not None
    ]


async def read_payloads(effects: Sequence[e.Effect], store: Store) -> Answers:
    return [(effect, (inputs[0], *inputs[2])) for effect, inputs in await read_inputs(effects, store)]


async def read_previous(effects: Sequence[e.Effect], store: Store) -> Answers:
    asked = [effect for effect in effects if isinstance(effect, e.ReadPrevious)]
    found = await store.look_up(Lookup(previous=[effect.run_id for effect in asked]))
    return [(effect, found.previous.get(effect.run_id)) for effect in asked]


async def read_records(effects: Sequence[e.Effect], store: Store) -> Answers:
    found = await store.look_up(Lookup(steps=[effect.run_id for effect in effects]))
    return [(effect, found.steps[effect.run_id]) for effect in effects]


async def read_results(effects: Sequence[e.Effect], store: Store) -> Answers:
    asked = [effect for effect in effects if isinstance(effect, e.ReadResults)]
    runs = (await store.look_up(Lookup(runs={run_id for effect in asked for run_id in effect.ids}))).runs
    answers: Answers = []
    for effect in asked:
        known = {run_id: runs[run_id] for run_id in effect.ids if run_id in runs}
        values = {run_id: run.payload if run_id == effect.run_id else run.shown_result for run_id, run in known.items()}
        answers.append((effect, {run_id: value for run_id, value in values.items() if value is not None}))
    return answers


async def read_sagas(effects: Sequence[e.Effect], store: Store) -> Answers:
    asked = [effect for effect in effects if isinstance(effect, e.ReadSaga)]
    found = (await store.look_up(Lookup(sagas=[effect.run_id for effect in asked if not effect.step]))).sagas
    left = {effect: [effect.step] if effect.step else found[effect.run_id] for effect in asked}
    runs = (await store.look_up(Lookup(runs={steps[-1] for steps in left.values() if steps}))).runs
    return [(effect, (steps, runs.get(steps[-1]) if steps else None)) for effect, steps in left.items()]


Do = Callable[[Sequence[e.Effect], Store], Coroutine[Any, Any, Answers]]
KINDS: dict[type[e.Effect], Do] = {
    e.ReadInputs: read_inputs,
    e.ReadPrevious: read_previous,
    e.ReadPayload: read_payloads,
    e.ReadRecord: read_records,
    e.ReadResults: read_results,
    e.ReadSaga: read_sagas,
}


class SenderLink:
    def __init__(self, present: Present, on_needed: Callable[[], None]) -> None:
        """`on_needed` is called whenever there is something to send, and no sender."""
        self._present = present
        self._tell = present.peers.tell
        self._on_needed = on_needed
        self._name: str | None = None  # the client that sends
        self._asked: dict[str, e.CallHook] = {}  # run → its hook without an answer, once the run is stored

    def register(self, name: str, message: d.BecomeSender) -> ValueAnswer:
        """Make this client the sender, and ask it for everything that is pending and stored: a commit may be under way,
        or fail."""
        self._name = name
        for effect in self._present.state.of(PendingEffects).pending:
            if isinstance(effect, e.CallHook) and self._asked.get(effect.run_id) == effect:
                self.call(effect)
        return ValueAnswer(message.request)

    def gone(self, name: str) -> None:
        if self._name == name:
            self._name = None

    def call(self, effect: e.CallHook) -> None:
        """Call a hook whose run is stored. Without a sender, the next one is asked for it."""
        self._asked[effect.run_id] = effect
        if self._name is None:
            self._on_needed()
        else:
            self._tell(self._name, d.HookRequest(effect.run_id, effect.seq, effect.id, effect.outgoing))

    def answered(self, answer: d.HookAnswered) -> None:
        effect = self._asked.get(answer.run_id)
        if effect is not None and effect.seq == answer.seq:
            del self._asked[answer.run_id]
            self._present.inbox.post("", Answered([(effect, (answer.status, answer.error))]))

    def forget(self, ended: Iterable[Run]) -> None:
        """Take back the hooks of runs that have ended."""
        for run in ended if self._asked else ():
            if self._asked.pop(run.id, None) is not None and self._name is not None:
                self._tell(self._name, d.ForgetHook(run.id))

    def note_owed(self) -> None:
        """Say that deliveries were stored."""
        if self._name is None:
            self._on_needed()
        else:
            self._tell(self._name, d.Owed())
