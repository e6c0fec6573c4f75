"""Carry out effects after the commit, beside the loop, bounded in number and time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any

from interlock.model.command import Answered
from interlock.model.effect import CallHook, CheckPolicy, Effect, ReadInputs, ReadPayload, ReadPrevious
from interlock.model.error import PolicyClosed, PolicyUnavailable, StoreUnavailable
from interlock.model.policy import PolicyRequest, Verdict
from interlock.ports.store import Store

logger = logging.getLogger("interlock.engine")

MOST_AT_ONCE = 8  # calls to the store under way at once
MOST_FRAMES = 4  # calls to the policy service under way at once
FRAME, FRAME_BYTES = 100, 4 * 1024 * 1024  # requests of one such call, and bytes of their payloads
Answers = list[tuple[Effect, Any]]
Check = Callable[[Sequence[PolicyRequest], bool], Awaitable[list[Verdict]]]


async def no_service(requests: Sequence[PolicyRequest], again: bool) -> list[Verdict]:
    raise PolicyUnavailable("no policy service is set")


class Effects:
    def __init__(
        self, store: Store, post: Callable[[str, object], None], call_hook: Callable[[CallHook], None] = lambda _: None
    ) -> None:
        """`call_hook` hands a request to the sender, whose answer comes by itself."""
        self.check: Check = no_service  # asks the policy service, or raises `PolicyUnavailable`
        self._call_hook = call_hook
        self._store = store
        self._post = post
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._frames = asyncio.Semaphore(MOST_FRAMES)
        self._tasks: dict[asyncio.Task[None], Sequence[Effect]] = {}

    def begin(self, effects: Sequence[Effect]) -> None:
        """Begin these effects, one call for each kind, except those already under way."""
        for effect in effects:
            if isinstance(effect, CallHook):
                self._call_hook(effect)
        under_way = {effect for batch in self._tasks.values() for effect in batch}
        for kind, do in KINDS.items():
            if batch := [effect for effect in effects if type(effect) is kind and effect not in under_way]:
                self._begin(self._do(do, batch), batch)
        checks = [one for one in effects if type(one) is CheckPolicy and one not in under_way]
        for frame in _frames(checks):
            self._begin(self._check(frame), frame)

    def _begin(self, work: Coroutine[Any, Any, None], batch: Sequence[Effect]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = batch
        task.add_done_callback(self._tasks.pop)

    async def _check(self, frame: Sequence[CheckPolicy]) -> None:
        """Ask for these verdicts. Without them, answer why; a shutdown answers nothing."""
        try:
            async with self._frames:
                verdicts = await self.check([one.request for one in frame], frame[0].again)
        except PolicyClosed:
            pass
        except PolicyUnavailable as error:
            self.answer([(one, (one.request, error.why)) for one in frame])
        except Exception:
            logger.exception("internal error")
        else:
            self.answer([(one, (one.request, verdict)) for one, verdict in zip(frame, verdicts, strict=True)])

    async def _do(self, do: "Do", effects: Sequence[Effect]) -> None:
        try:
            async with self._room, asyncio.timeout(effects[0].limit):
                answers = await do(effects, self._store)
        except (StoreUnavailable, TimeoutError) as error:
            # The core will ask again.
            logger.warning("no answer to %d effects: %r", len(effects), error)
        except Exception:
            logger.exception("internal error")
        else:
            self.answer(answers)

    def answer(self, answers: Answers) -> None:
        self._post("", Answered(answers))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _frames(checks: Sequence[CheckPolicy]) -> Iterator[list[CheckPolicy]]:
    frame: list[CheckPolicy] = []
    size = 0
    for one in checks:
        length = len(one.request.payload)
        if frame and (len(frame) == FRAME or size + length > FRAME_BYTES or one.again != frame[0].again):
            yield frame
            frame, size = [], 0
        frame.append(one)
        size += length
    if frame:
        yield frame


async def read_inputs(effects: Sequence[Effect], store: Store) -> Answers:
    found = await store.inputs([effect.run_id for effect in effects])
    known = ((effect, found.get(effect.run_id)) for effect in effects)
    return [(effect, (one.payload, one.checkpoint, one.further)) for effect, one in known if one is not None]


async def read_payloads(effects: Sequence[Effect], store: Store) -> Answers:
    return [(effect, inputs[0]) for effect, inputs in await read_inputs(effects, store)]


async def read_previous(effects: Sequence[Effect], store: Store) -> Answers:
    return [(one, await store.previous(one.run_id)) for one in effects if isinstance(one, ReadPrevious)]


Do = Callable[[Sequence[Effect], Store], Coroutine[Any, Any, Answers]]
KINDS: dict[type[Effect], Do] = {ReadInputs: read_inputs, ReadPrevious: read_previous, ReadPayload: read_payloads}
