"""Every adapter of the store and lease ports, opened, handed to the body of a test, and closed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from interlock.stores.memory import MemoryStore
from interlock.stores.postgres import PostgresStore
from interlock.stores.sqlite import SqliteStore
from soak.simulation.loop import Process, VirtualLoop
from soak.simulation.store import Disk, FaultyStore, StoreFaults
from soak.simulation.trace import Trace
from tests.helpers.postgres import schema, server

T = TypeVar("T")
AnyStore = MemoryStore | SqliteStore | PostgresStore | FaultyStore
KINDS = ["memory", "simulated", "sqlite", "postgres"]
S = TypeVar("S", bound=MemoryStore | SqliteStore | PostgresStore | FaultyStore)
Body = Callable[[AnyStore], Awaitable[T]]
WithStore = Callable[[Body[Any]], Any]


async def opened(store: S, body: Callable[[S], Awaitable[T]]) -> T:
    await store.open()
    try:
        return await body(store)
    finally:
        await store.close()


def run_with(store: S, body: Callable[[S], Awaitable[T]]) -> T:
    return asyncio.run(opened(store, body))


def simulated_store(disk: Disk, loop: VirtualLoop) -> FaultyStore:
    return FaultyStore(disk, Process(loop, "scheduler"), Random(1), StoreFaults(), Trace(loop))


def run_simulated(disk: Disk, body: Body[T]) -> T:
    """On the store as a simulated scheduler has it, on virtual time, and without faults."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(opened(simulated_store(disk, loop), body))
    finally:
        loop.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A schema of its own for each test."""
    with schema(postgres_server) as url:
        yield url


@pytest.fixture(params=KINDS)
def with_store(request: pytest.FixtureRequest, tmp_path: Path) -> WithStore:
    """Runs a body on a store; a second body in the same test finds what the first left."""
    memory, disk = MemoryStore(), Disk()

    def run(body: Body[Any]) -> Any:
        if request.param == "memory":
            return run_with(memory, body)
        if request.param == "simulated":
            return run_simulated(disk, body)
        if request.param == "postgres":
            return run_with(PostgresStore(request.getfixturevalue("postgres_url")), body)
        return run_with(SqliteStore(tmp_path / "runs.db"), body)

    return run


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    """A store of each kind, which is open while the test runs."""
    simulated = VirtualLoop()
    made: AnyStore = (
        MemoryStore() if request.param == "memory"
        else SqliteStore(tmp_path / "runs.db") if request.param == "sqlite"
        else PostgresStore(request.getfixturevalue("postgres_url")) if request.param == "postgres"
        else simulated_store(Disk(), simulated)
    )  # fmt: skip
    run = simulated.run_until_complete if request.param == "simulated" else asyncio.run
    request.node.run_test = lambda body: run(opened(made, lambda _: body()))
    yield made
    simulated.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def open_in(request: pytest.FixtureRequest, made: S) -> S:
    """Have a store open while the test runs."""
    request.node.run_test = lambda body: run_with(made, lambda _: body())
    return made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, database: Path) -> SqliteStore:
    """A store in a file, which is open while the test runs."""
    return open_in(request, SqliteStore(database))


@pytest.fixture
def postgres(request: pytest.FixtureRequest, postgres_url: str) -> PostgresStore:
    return open_in(request, PostgresStore(postgres_url))
