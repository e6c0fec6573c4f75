"""Services in the event stream: live, filtered, resumed, and for nobody who belongs to a tenant.

The engine, its store and the front door are those of a scheduler; what services do is written into the book by hand.
"""

import asyncio
import itertools
import resource
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import jsonschema_rs
import pytest

from interlock.api.settings import GatewaySettings
from interlock.buses.listener import bind_tcp
from interlock.buses.socket import SocketBus
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.engine.engine import Engine, EngineSettings
from interlock.engine.inbox import Inbox
from interlock.engine.service_book import ServiceBook
from interlock.interface.run_view import HelloEvent, ServiceEvent, ServiceLogEvent
from interlock.model.access import Caller, Grant, Role, digest_of
from interlock.model.child_info import Change, ChildInfo, Exit, ServiceAction, Status
from interlock.model.exposition import Family
from interlock.model.job import Job
from interlock.model.reload_report import Difference, Reloaded
from interlock.ports.clock import SystemClock
from interlock.ports.operations import TreeOperations
from interlock.ports.store import ServiceEntry
from interlock.stores.sqlite import SqliteReader, SqliteStore
from interlock.wiring.gateway import Gateway
from interlock.wiring.node_links import Reach
from tests.client.faces import KINDS, face
from tests.helpers.http import EventStream, Http, Told, seconds_of
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until

T = TypeVar("T")
LIMIT = 30.0
GRANTS = [
    Grant(digest_of("boss-0123456789"), Caller("boss", Role.ADMIN, "*")),
    Grant(digest_of("chief-0123456789"), Caller("chief", Role.ADMIN, "red")),
]
BEFORE = ChildInfo(path="services/web", name="web", kind="process", status=Status.RUNNING, pid=4, since=990.5)
AFTER = ChildInfo(
    path="services/web",
    name="web",
    kind="process",
    status=Status.PENDING,
    restarts=1,
    next_try_at=1000.75,
    last_exit=Exit(at=1000.0, code=3, error="no more"),
    reason="exit 3, no more",
)
CHANGE = Change(at=1000.5, path="services/web", before=BEFORE, after=AFTER)
TIME = itertools.count(1000.0)
"""goes on over restarts"""


class CountingReader(SqliteReader):
    looks = 0
    """how often the log of a service was read"""

    async def service_log(self, *arguments: Any, **options: Any) -> list[ServiceEntry]:
        self.looks += 1
        return await super().service_log(*arguments, **options)


class Endless(TreeOperations):
    """Whatever is done takes until it is let go."""

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), asyncio.Event()

    def tree(self, joined: object, faults: object) -> ChildInfo:
        return ChildInfo(path="", name="interlock", kind="supervisor", status=Status.RUNNING)

    async def act(self, name: str, action: ServiceAction, actor: str) -> ChildInfo:
        self.asked.set()
        await self.let_go.wait()
        return self.tree((), {})

    async def reload(self, actor: str) -> Reloaded:
        self.asked.set()
        await self.let_go.wait()
        return Reloaded(jobs=Difference(), services=Difference())

    def have_workers(self) -> None:
        pass

    def families(self) -> list[Family]:
        return []


class Scheduler:
    """A scheduler without workers, and its front door, in a thread with a loop of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    def __enter__(self) -> "Scheduler":
        self._thread.start()
        self.call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()

    async def _start(self) -> None:
        database, socket = self._folder / "services.db", self._folder / "s"
        self._store, self._reader = SqliteStore(database), CountingReader(database)
        await self._store.open()
        await self._reader.open()
        inbox = Inbox()
        self._book = ServiceBook(inbox.post)
        self._engine = Engine(
            inbox=inbox,
            book=self._book,
            store=self._store,
            leases=self._store,
            clock=SystemClock(),
            rng=Random(1),
            catalog=Catalog([CatalogEntry(Job(id="echo"), lambda payload: None)]),
            settings=EngineSettings(),
        )
        await self._engine.start()
        await self._book.load(self._store)
        self._running = asyncio.ensure_future(self._engine.run())
        self._bus = SocketBus(socket)
        await self._bus.listen(self._engine.links)
        listener = bind_tcp("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._gateway = Gateway(self._reader, Reach(socket=str(socket)), GatewaySettings(grants=GRANTS))
        await self._gateway.start([listener])

    async def _stop(self) -> None:
        await self._book.flush()
        await self._gateway.stop()
        self._engine.stop()
        await self._running
        await self._bus.close()
        await self._reader.close()
        await self._store.close()

    @property
    def looks(self) -> int:
        return self._reader.looks

    def operate(self, operations: TreeOperations) -> None:
        self._engine.requests.operations = operations

    def lose(self, operations: Endless) -> None:
        """Cut all connections to the scheduler once something is under way."""
        assert operations.asked.wait(LIMIT)
        self.call(self._bus.close())
        self._loop.call_soon_threadsafe(operations.let_go.set)

    def say(self, service: str, *texts: str, stream: str = "stdout") -> None:
        """Durable when this returns."""

        async def work() -> None:
            for text in texts:
                self._book.line(service, stream, text, next(TIME))
            assert await self._book.flush()

        self.call(work())

    def change(self, service: str, change: Change = CHANGE) -> None:
        async def work() -> None:
            self._book.change(change, service)
            assert await self._book.flush()

        self.call(work())

    @property
    def boss(self) -> Http:
        return Http(self.url, "boss-0123456789")

    @property
    def chief(self) -> Http:
        """Who is bound to a tenant."""
        return Http(self.url, "chief-0123456789")


@contextmanager
def running(folder: Path) -> Iterator[Scheduler]:
    # The gateway takes as many descriptors as it may have, and here it is the tests' own that it takes.
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with Scheduler(folder) as scheduler:
            yield scheduler
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with clean_folder() as folder, running(folder) as one:
        yield one


def texts(*wanted: str) -> Callable[[Told], bool]:
    """Whether the last of these has been told."""
    return lambda told: told.data.get("text") == wanted[-1]


def gap_or(text: str) -> Callable[[Told], bool]:
    return lambda told: told.name == "gap" or told.data.get("text") == text


def is_silent(stream: EventStream) -> bool:
    stream.raw.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        stream.next()
    return True


# ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-9")
def test_what_services_print_and_what_becomes_of_them_is_told_as_it_happens(scheduler: Scheduler) -> None:
    description = scheduler.boss.get("/openapi.json").json
    with scheduler.boss.events() as stream:
        scheduler.say("web", "over", stream="stderr")
        scheduler.change("web")
        run_id = scheduler.boss.submit("echo")
        line, change, run = (stream.next() for _ in range(3))
    at = line.data["at"]
    assert seconds_of(at) >= 1000.0
    assert line == Told(line.id, "service_log", {"service": "web", "at": at, "stream": "stderr", "text": "over"})
    assert (change.name, change.data["service"], change.data["path"]) == ("service", "web", "services/web")
    assert change.data["text"] == "ended with exit 3, no more; next try in 0.25s"
    assert (change.data["before"]["pid"], change.data["after"]["pid"]) == (4, None)
    assert (change.data["before"]["status"], change.data["after"]["status"]) == ("running", "pending")
    assert change.data["after"]["last_exit"] == {
        "at": "1970-01-01T00:16:40.000Z",
        "code": 3,
        "signal": None,
        "error": "no more",
    }
    assert (run.name, run.data["run_id"]) == ("run", run_id)
    assert stream.position < line.id < change.id < run.id  # type: ignore[operator]
    for told, name in ((line, "ServiceLogEvent"), (change, "ServiceEvent")):
        jsonschema_rs.validate(
            {"$ref": f"#/components/schemas/{name}", "components": description["components"]}, told.data
        )


def test_an_added_and_a_removed_service(scheduler: Scheduler) -> None:
    with scheduler.boss.events(type="service") as stream:
        scheduler.change("new", Change(at=5.0, path="services/new", before=None, after=BEFORE))
        scheduler.change("new", Change(at=6.0, path="services/new", before=BEFORE, after=None))
        added, removed = stream.next(), stream.next()
    assert (added.data["before"], added.data["text"]) == (None, "added")
    assert (removed.data["after"], removed.data["text"]) == (None, "removed")


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "web-line web-change db-line run"),
    ({"type": "service"}, "web-change"),
    ({"type": "service_log"}, "web-line db-line"),
    ({"type": ["service", "service_log"]}, "web-line web-change db-line"),
    ({"type": ["run", "service"]}, "web-change run"),
    ({"type": "run"}, "run"),
    ({"service": "web"}, "web-line web-change"),
    ({"service": "web", "type": "service_log"}, "web-line"),
    ({"service": "db"}, "db-line"),
    ({"job": "echo"}, "run"),
    ({"tenant": "default"}, "run"),
    ({"service": "web", "type": "run"}, ""),
    ({"service": "web", "tenant": "default"}, ""),
    ({"service": "web", "job": "echo"}, ""),
    ({"service": "nope"}, ""),
    ({"service": ""}, ""),
    ({"tenant": ""}, ""),
    ({"run": ""}, ""),
]


def test_filters_live_and_from_the_store(scheduler: Scheduler) -> None:
    with ExitStack() as stack:
        live = [stack.enter_context(scheduler.boss.events(**query)) for query, _ in FILTERS]
        start = live[0].position
        scheduler.say("web", "in web")
        scheduler.change("web")
        scheduler.say("db", "in db")
        scheduler.boss.submit("echo")
        told = dict(zip(["web-line", "web-change", "db-line", "run"], (live[0].next() for _ in range(4)), strict=True))
        assert [one.name for one in told.values()] == ["service_log", "service", "service_log", "run"]
        for (query, names), stream in zip(FILTERS[1:], live[1:], strict=True):
            wanted = [told[name] for name in names.split()]
            assert [stream.next() for _ in wanted] == wanted, query
            with scheduler.boss.events(after=start, **query) as resumed:
                assert [resumed.next() for _ in wanted] == wanted, query
                if not wanted:
                    assert is_silent(resumed), query
        # With one more of everything, those who want nothing of it would have been told by now.
        scheduler.say("web", "the end")
        live[0].until(texts("the end"))
        for (query, names), stream in zip(FILTERS, live, strict=True):
            if not names:
                assert is_silent(stream), query


# ── waiting for the lines of one ────────────────────────────────────────────────────────────────────────────────────


def test_who_waits_for_a_line_is_not_woken_by_other_services(scheduler: Scheduler) -> None:
    scheduler.say("web", "known")
    path = "/api/v1/services/web/logs"
    cursor = scheduler.boss.get(path).json["next"]
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(scheduler.boss.get(f"{path}?cursor={cursor}&wait=30s").json["lines"])
    )
    before = scheduler.looks
    with scheduler.boss.events() as witness:
        thread.start()
        # A page, whether there is any log, and the page again once it listens.
        wait_until(lambda: scheduler.looks == before + 3, "it waits")
        for number in range(5):
            scheduler.say("db", f"noise {number}")
            witness.until(texts(f"noise {number}"))
        scheduler.say("web", "at last")
        thread.join(LIMIT)
    assert [line["text"] for line in found[0]] == ["at last"]
    # One look at what woke it.
    assert scheduler.looks == before + 4


@pytest.mark.parametrize("path", ["services/web/restart", "reload"])
def test_an_action_in_which_the_scheduler_is_lost_may_have_been_done(path: str) -> None:
    with clean_folder() as folder, running(folder) as scheduler:
        endless, found = Endless(), []
        thread = threading.Thread(target=lambda: found.append(scheduler.boss.post(f"/api/v1/{path}")))
        scheduler.operate(endless)
        thread.start()
        scheduler.lose(endless)
        thread.join(LIMIT)
    assert (found[0].status, found[0].code) == (503, "connection_lost")
    assert found[0].json["detail"].endswith("; it may have been done, or still be under way")


# ── whom it is told ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_caller_of_one_tenant_hears_as_if_there_were_no_services(scheduler: Scheduler) -> None:
    queries: list[dict[str, Any]] = [
        {},
        {"service": "web"},
        {"type": "service"},
        {"type": "service_log"},
        {"tenant": "red"},
        {"tenant": "blue"},
        {"tenant": "*"},
        {"tenant": ""},
        {"tenant": "", "service": "web"},
        {"run": ""},
    ]
    with ExitStack() as stack:
        witness = stack.enter_context(scheduler.boss.events())
        live = [stack.enter_context(scheduler.chief.events(**query)) for query in queries]
        scheduler.say("web", "for the boss alone")
        scheduler.change("web")
        witness.until(lambda told: told.name == "service")
        own = scheduler.chief.submit("echo")
        for query, stream in zip(queries, live, strict=True):
            with scheduler.chief.events(after=witness.position, **query) as resumed:
                if query in ({}, {"tenant": "red"}):
                    for found in (stream.next(), resumed.next()):
                        assert (found.name, found.data["run_id"]) == ("run", own), query
                else:
                    assert is_silent(stream), query
                    assert is_silent(resumed), query


# ── too much ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_of_one_service_never_has_a_gap_and_what_others_missed_can_be_read_again(
    scheduler: Scheduler,
) -> None:
    quiet: list[str] = []
    noise: list[str] = []
    told: list[Told] = []
    with ExitStack() as stack:
        single = stack.enter_context(scheduler.boss.events(service="quiet"))
        crowd = [stack.enter_context(scheduler.boss.events(type="service_log")) for _ in range(60)]
        while not told or told[-1].name != "gap":
            # A fast machine tells all of it: then there is more.
            assert len(noise) < 500_000, "nothing was too much"
            for _ in range(6):
                quiet.append(f"quiet {len(quiet)}")
                scheduler.say("quiet", quiet[-1])
                burst = [f"noise {len(noise) + number}" for number in range(max(500, len(noise) // 6))]
                scheduler.say("noisy", *burst)
                noise += burst
            told += crowd[0].until(gap_or(noise[-1]))
        assert [single.next().data["text"] for _ in quiet] == quiet
    gap = told[-1].data
    with scheduler.boss.events(after=gap["after"], type="service_log") as stream:
        whole = stream.until(texts(noise[-1]))
    heard = [one.data["text"] for one in told[:-1]] + [one.data["text"] for one in whole]
    assert [text for text in heard if text.startswith("noise")] == noise


# ── the clients ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_the_clients_tell_them_as_values(scheduler: Scheduler, kind: str) -> None:
    with face(kind, scheduler.url, token="boss-0123456789") as client:
        told = client("events", service="web")
        assert isinstance(next(told)[1], HelloEvent)
        scheduler.say("db", "not this one")
        scheduler.say("web", "said")
        scheduler.change("web")
        (first, line), (second, change) = next(told), next(told)
        told.close()
    assert line == ServiceLogEvent(service="web", at=line.at, stream="stdout", text="said")
    assert change == ServiceEvent(
        service="web",
        at=CHANGE.at,
        text="ended with exit 3, no more; next try in 0.25s",
        path=CHANGE.path,
        before=BEFORE,
        after=AFTER,
    )
    assert first < second
    with face(kind, scheduler.url, token="boss-0123456789") as client:
        told = client("events", types=["service"], after=first)
        assert isinstance(next(told)[1], HelloEvent)
        assert next(told) == (second, change)
        told.close()
