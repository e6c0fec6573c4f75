"""Both clients with one face, so that a test is written once and holds for each."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock import AsyncClient, BlockingRunHandle, Client, RunHandle

KINDS = ("Client", "AsyncClient")


class Face:
    """Calls a method by its name and waits for what it gives: a value, or an iterator that is read as it is used."""

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        given = getattr(self._target, method)(*arguments, **options)
        if inspect.isasyncgen(given):
            return self._items(given)
        if inspect.isawaitable(given):
            given = self._runner.run(_waited(given))
        if isinstance(given, list):
            return [self._handle(one) for one in given]
        return self._handle(given)

    def _handle(self, given: Any) -> Any:
        return Face(given, self._runner) if isinstance(given, (RunHandle, BlockingRunHandle)) else given

    @property
    def id(self) -> str:
        return str(self._target.id)

    def __repr__(self) -> str:
        return repr(self._target)

    def _items(self, given: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._runner.run(_waited(anext(given)))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(_waited(given.aclose()))


async def _waited(given: Any) -> Any:
    return await given


@contextmanager
def face(kind: str, url: str | None, **options: Any) -> Iterator[Face]:
    with asyncio.Runner() as runner:
        client: Any = {"Client": Client, "AsyncClient": AsyncClient}[kind](url, **options)
        one = Face(client, runner)
        try:
            yield one
        finally:
            one("close")
