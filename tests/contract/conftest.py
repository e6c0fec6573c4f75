"""Every adapter of the store and lease ports, opened, handed to the body of a test, and closed."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from interlock.stores.memory import MemoryStore
from interlock.stores.sqlite import SqliteStore

T = TypeVar("T")
AnyStore = MemoryStore | SqliteStore
Body = Callable[[AnyStore], Awaitable[T]]
WithStore = Callable[[Body[Any]], Any]


def run_with(store: AnyStore, body: Body[T]) -> T:
    async def opened() -> T:
        await store.open()
        try:
            return await body(store)
        finally:
            await store.close()

    return asyncio.run(opened())


@pytest.fixture(params=["memory", "sqlite"])
def with_store(request: pytest.FixtureRequest, tmp_path: Path) -> WithStore:
    """Runs a body on a store; a second body in the same test finds what the first left."""
    memory = MemoryStore()

    def run(body: Body[Any]) -> Any:
        return run_with(memory if request.param == "memory" else SqliteStore(tmp_path / "runs.db"), body)

    return run


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"
