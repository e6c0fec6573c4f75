"""Carry out effects after the commit, beside the loop, bounded in number and time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from interlock.model.command import Answered
from interlock.model.effect import CallHook, Effect, ReadInputs, ReadPayload, ReadPrevious
from interlock.model.error import StoreUnavailable
from interlock.ports.store import Store

logger = logging.getLogger("interlock.engine")

MOST_AT_ONCE = 8  # calls under way at once
Answers = list[tuple[Effect, Any]]


class Effects:
    def __init__(
        self, store: Store, post: Callable[[str, object], None], call_hook: Callable[[CallHook], None] = lambda _: None
    ) -> None:
        """`call_hook` hands a request to the sender, whose answer comes by itself."""
        self._call_hook = call_hook
        self._store = store
        self._post = post
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: dict[asyncio.Task[None], Sequence[Effect]] = {}

    def begin(self, effects: Sequence[Effect]) -> None:
        """Begin these effects, one call for each kind, except those already under way."""
        for effect in effects:
            if isinstance(effect, CallHook):
                self._call_hook(effect)
        under_way = {effect for batch in self._tasks.values() for effect in batch}
        for kind, do in KINDS.items():
            if batch := [effect for effect in effects if type(effect) is kind and effect not in under_way]:
                task = asyncio.get_running_loop().create_task(self._do(do, batch))
                self._tasks[task] = batch
                task.add_done_callback(self._tasks.pop)

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
