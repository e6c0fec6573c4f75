"""What is stored of services: soon, in order, once, and within limits, whatever the store does meanwhile."""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from interlock.core.decisions import Batch
from interlock.engine import service_book
from interlock.error import StoreUnavailable
from interlock.model.child_info import Change, ChildInfo, Exit, Kept, Status
from interlock.ports.leases import Lease
from interlock.ports.store import ServiceEntry
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, Link, SlowStore, on_virtual_time, pass_time, until
from tests.engine.conftest import keep_running
from tests.helpers.records import kept_services

run_test = on_virtual_time

ONE, TWO = Kept(resume_id="1"), Kept(resume_id="2", last_exit=Exit(at=1.0, code=3))


class Books(Bench):
    """An engine that runs, with a book."""

    def __init__(self, store: SlowStore | None = None) -> None:
        super().__init__(store or SlowStore())

    async def start(self) -> None:
        await super().start()
        await self.book.load(self.store)
        await until(lambda: bool(self.store.commits))
        self.store.commits.clear()

    def say(self, text: str, service: str = "web", stream: str = "stdout") -> None:
        self.book.line(service, stream, text, now())

    async def texts(self, service: str = "web") -> list[str]:
        return [entry.text for entry in await self.store.service_log(service)]


@pytest.fixture
def bench(request: pytest.FixtureRequest, store: SlowStore) -> Books:
    return keep_running(request, Books(store))


def now() -> float:
    return 1_700_000_000 + asyncio.get_running_loop().time()


def change(status: Status, service: str = "web", **fields: Any) -> Change:
    before = ChildInfo(path=f"services/{service}", name=service, kind="process", status=Status.CREATED)
    after = ChildInfo(path=before.path, name=service, kind="process", status=status, **fields)
    return Change(at=now(), path=before.path, before=before, after=after)


# ── what is stored ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_services_say_and_what_becomes_of_them_is_stored_as_it_came(bench: Books) -> None:
    started, running = change(Status.STARTING), change(Status.RUNNING, pid=7)
    bench.book.change(started, "web")
    bench.say("first")
    bench.say("aside", "db", "stderr")
    bench.book.change(running, "web")
    bench.book.change(running)
    assert await bench.book.flush()
    at = now()
    assert (await bench.store.events(0, 10)).events == [
        ServiceEntry(1, "web", at, "status", "starting", started),
        ServiceEntry(2, "web", at, "stdout", "first"),
        ServiceEntry(3, "db", at, "stderr", "aside"),
        ServiceEntry(4, "web", at, "status", "running (pid 7)", running),
        ServiceEntry(5, "services/web", at, "status", "running (pid 7)", running),
    ]


@pytest.mark.behaviour("SUP-7")
async def test_what_is_kept_is_durable_when_it_was_waited_for_and_is_recalled_by_the_next_book(
    bench: Books, store: SlowStore
) -> None:
    assert await bench.book.recall("web") is None
    store.takes = 0.5
    begun = now()
    waiting = bench.book.keep("web", ONE)
    assert await bench.book.recall("web") == ONE
    assert await kept_services(store) == {}
    await waiting
    assert await kept_services(store) == {"web": ONE}
    assert now() - begun == pytest.approx(0.5)
    await bench.stop()
    other = Books(store)
    await other.start()
    assert await other.book.recall("web") == ONE
    await other.book.forget("web")
    assert await other.book.recall("web") is None
    assert await kept_services(store) == {}
    await other.stop()


@pytest.mark.behaviour("SUP-7")
async def test_the_latest_that_was_kept_or_forgotten_counts_awaited_or_not(bench: Books) -> None:
    bench.store.takes = 0.2
    bench.book.keep("a", ONE)
    bench.book.keep("b", ONE)
    bench.book.keep("c", ONE)
    await pass_time(0.1)
    bench.book.forget("a")
    bench.book.forget("b")
    bench.book.keep("b", TWO)
    first = bench.book.keep("c", TWO)
    last = bench.book.forget("c")
    await first
    await last
    assert await kept_services(bench.store) == {"b": TWO}


async def test_a_line_is_stored_at_once_and_many_in_few_commits(bench: Books) -> None:
    await pass_time(1)
    bench.say("alone")
    await until(lambda: len(bench.store.commits) == 1, 0.02)
    bench.store.commits.clear()
    for number in range(1000):
        bench.say(f"{number}")
        await pass_time(0.001)
    await bench.book.flush()
    assert 18 <= len(bench.store.commits) <= 22, "one in 50 ms"
    assert await bench.texts() == ["alone", *map(str, range(1000))]


async def test_what_is_kept_and_changes_do_not_wait_for_the_pace_of_lines(bench: Books) -> None:
    bench.say("line")
    await until(lambda: len(bench.store.commits) == 1)
    begun = now()
    bench.say("next")
    await bench.book.keep("web", ONE)
    bench.say("another")
    bench.book.change(change(Status.RUNNING), "web")
    bench.book.change(change(Status.STOPPED), "db")
    await until(lambda: bool(bench.store.commits[-1].service_log))
    await pass_time(0.001)
    assert now() - begun < service_book.PACE
    assert await bench.texts() == ["line", "next", "another", "running"]
    assert await bench.texts("db") == ["stopped"]


async def test_runs_go_on_beside_a_flood_of_lines_and_all_of_it_is_stored_in_its_time(bench: Books) -> None:
    bench.store.takes = 0.01
    for number in range(10_000):
        bench.say(f"{number}")
    begun = now()
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)), 0.1)
    while len(await bench.texts()) < 10_000:
        assert now() - begun < 10
        await pass_time(0.05)
    assert await bench.texts() == [str(number) for number in range(10_000)]
    assert bench.book.dropped == 0
    assert max(len(batch.service_log) for batch in bench.store.commits) <= service_book.MOST_ROWS


async def test_a_loud_service_gets_what_the_others_leave_and_holds_up_nobody(bench: Books) -> None:
    for number in range(5 * service_book.MOST_ROWS):
        bench.say(f"{number}", "loud")
    quiet = [f"quiet {number}" for number in range(99)]
    for name in quiet:
        bench.say("one line", name)
    await until(lambda: bool(bench.store.commits))
    counts = Counter(row[0] for row in bench.store.commits[0].service_log)
    assert counts == dict.fromkeys(quiet, 1) | {"loud": service_book.MOST_ROWS - 99}


# ── odd things ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_lines_of_the_same_instant_and_of_a_clock_that_goes_back_are_all_there(bench: Books) -> None:
    times = [5.0, 5.0, 5.0, 4.0, 1e12, 0.0, -1.0, math.nan, math.inf, 6.0]
    for number, at in enumerate(times):
        bench.book.line("web", "stdout", f"{number}", at)
    await bench.book.flush()
    assert await bench.texts() == [str(number) for number in range(len(times))]


async def test_what_is_no_unicode_is_replaced_and_harms_nobody(bench: Books) -> None:
    odd = "caf\udce9"
    bench.say(odd)
    exit = Exit(at=1.0, error=odd)
    bench.book.change(change(Status.FAILED, last_exit=exit, reason=odd), "web")
    await bench.book.keep("web", Kept(resume_id="1", last_exit=exit))
    bench.say("good")
    await bench.book.flush()
    assert await bench.texts() == ["caf?", "ended: caf?; failed", "good"]
    told = (await bench.store.service_log("web"))[1].change
    assert told is not None
    assert told.after is not None
    assert told.after.reason == "caf?"
    assert (await kept_services(bench.store))["web"].last_exit == Exit(at=1.0, error="caf?")
    assert bench.engine.present.available


# ── a store that does not work ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-7")
async def test_nobody_waits_for_a_store_that_does_not_work_and_all_is_stored_once_it_does(
    bench: Books, store: SlowStore
) -> None:
    bench.say("before")
    await bench.book.flush()
    store.failing = True
    begun = now()
    bench.say("line")
    await bench.book.keep("web", ONE)
    assert now() - begun == pytest.approx(service_book.PATIENCE)
    assert await bench.book.recall("web") == ONE
    bench.book.change(change(Status.RUNNING), "web")
    waiting = bench.book.keep("web", TWO)
    bench.book.forget("db")
    await pass_time(3)
    assert not bench.engine.present.available
    assert await kept_services(store) == {}
    store.failing = False
    await waiting
    assert now() - begun < 10, "as soon as it works"
    assert await bench.book.flush()
    assert await kept_services(store) == {"web": TWO}
    assert await bench.texts() == ["before", "line", "running"]


async def test_flushing_gives_up_in_the_end(bench: Books, store: SlowStore) -> None:
    assert await bench.book.flush(), "there is nothing"
    store.failing = True
    bench.say("line")
    begun = now()
    assert not await bench.book.flush(2.0)
    assert now() - begun == pytest.approx(2.0)
    store.failing = False
    assert await bench.book.flush()
    assert await bench.texts() == ["line"]


async def test_flushing_does_not_wait_for_the_pace(bench: Books) -> None:
    for number in range(5 * service_book.MOST_ROWS):
        bench.say(f"{number}")
    begun = now()
    assert await bench.book.flush()
    assert now() - begun < service_book.PACE
    assert len(await bench.texts()) == 5 * service_book.MOST_ROWS


async def test_while_nothing_can_be_stored_the_loudest_loses_its_oldest_lines_and_nothing_else_is_lost(
    bench: Books, store: SlowStore
) -> None:
    store.failing = True
    bench.say("first of all", "loud")
    await until(lambda: not bench.engine.present.available)
    for number in range(10):
        bench.say(f"{number}", "quiet")
    bench.book.change(change(Status.RUNNING, pid=1), "loud")
    count = 2 * service_book.MOST_WAITING // service_book.ROW_BYTES
    for number in range(count):
        bench.say(f"{number}", "loud")
    bench.book.change(change(Status.RUNNING, pid=2), "loud")
    store.failing = False
    assert await bench.book.flush(60)
    assert await bench.texts("quiet") == [str(number) for number in range(10)]
    first, running, mark, *rest, last = await bench.texts("loud")
    assert (first, running, last) == ("first of all", "running (pid 1)", "running (pid 2)")
    assert mark.startswith(f"{bench.book.dropped} lines were left out")
    assert rest == [str(number) for number in range(bench.book.dropped, count)]
    assert len(rest) * service_book.ROW_BYTES > service_book.MOST_WAITING // 3, "no more than need be"


async def test_only_so_many_changes_wait(bench: Books, store: SlowStore) -> None:
    store.failing = True
    bench.book.keep("web", ONE)
    await until(lambda: not bench.engine.present.available)
    for pid in range(service_book.MOST_CHANGES + 1):
        bench.book.change(change(Status.RUNNING, pid=pid), "web")
    store.failing = False
    assert await bench.book.flush()
    expected = [f"running (pid {pid})" for pid in range(1, service_book.MOST_CHANGES + 1)]
    mark, *rest = await bench.texts()
    assert mark.startswith("1 line was left out")
    assert rest == expected


class LateFailingStore(SlowStore):
    """Fails by chance, and sometimes has stored what it says it has not."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = Random(seed)
        self.unreliable = False

    async def commit(self, batch: Batch, lease: Lease) -> None:
        self.takes = self.rng.uniform(0, 0.02)
        lot = self.rng.random() if self.unreliable else 1.0
        if lot < 0.2:
            await pass_time(self.takes)
            raise StoreUnavailable("before")
        await super().commit(batch, lease)
        if lot < 0.4:
            raise StoreUnavailable("after")


@pytest.mark.behaviour("SUP-7")
@pytest.mark.parametrize("seed", range(20))
async def test_whatever_fails_everything_is_stored_once_and_in_order(seed: int) -> None:
    rng = Random(seed)
    store = LateFailingStore(seed)
    bench = Books(store)
    await bench.start()
    store.unreliable = True
    said: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    kept: dict[str, Kept] = {}
    for number in range(400):
        name = rng.choice("abc")
        lot = rng.random()
        if lot < 0.6:
            bench.say(f"{number}", name)
            said[name].append(f"{number}")
        elif lot < 0.8:
            bench.book.change(change(Status.RUNNING, pid=number), name)
            said[name].append(f"running (pid {number})")
        elif lot < 0.95:
            bench.book.keep(name, Kept(resume_id=f"{number}"))
            kept[name] = Kept(resume_id=f"{number}")
        else:
            bench.book.forget(name)
            kept.pop(name, None)
        if rng.random() < 0.1:
            bench.submit()
        await pass_time(rng.choice((0.0, 0.001, 0.03)))
    store.unreliable = False
    assert await bench.book.flush(60)
    assert {name: await bench.texts(name) for name in said} == said
    assert await kept_services(store) == kept
    positions = [one.position for one in (await store.events(0, 10_000)).events]
    assert len(set(positions)) == len(positions)
    await bench.stop()


class BrokenLink(Link):
    """A client whose link raises what it must not."""

    def send(self, messages: Sequence[m.Message]) -> None:
        if any(isinstance(one, r.RunReport) for one in messages):
            raise RuntimeError("a fault of the link")
        super().send(messages)


async def test_a_command_of_which_nothing_is_heard_is_handed_in_again(bench: Books) -> None:
    worker = bench.worker("w")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    dispatch = worker.of(m.Dispatch)[0]
    broken = BrokenLink(bench.engine)
    broken.say(m.Greeting(m.PROTOCOL))
    broken.say(r.Ask(1, dispatch.run_id, True))
    # Both wait for what is being committed, and so go together: the engine fails when they are stored, before it
    # says so.
    bench.store.takes = 0.1
    bench.submit()
    await pass_time(0.01)
    bench.say("line")
    worker.say(m.Finished(dispatch.run_id, dispatch.fence, "succeeded"))
    await until(lambda: not worker.open)
    assert await bench.texts() == ["line"]
    bench.say("next")
    assert await bench.book.flush(2)
    assert await bench.texts() == ["line", "next"]
