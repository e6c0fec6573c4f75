"""The overview over HTTP, on the stream, in the client and on the command line."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import interlock as il
from interlock.api.feed import Feed, Subscriber, Wish
from interlock.api.overview import Overviews
from interlock.model.child_info import ChildInfo, Status
from interlock.model.overview import NeedKind, Overview
from interlock.stores.memory import MemoryStore
from interlock.wire.overview_request import AskOverview
from interlock.wire.service_request import AskTree
from tests.api.tokens import as_
from tests.cli.asking import printed, rows
from tests.helpers.http import Http
from tests.helpers.places import tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("OBS-4")

OVERVIEW = "/api/v1/overview"


def overview(http: Http, **query: Any) -> Any:
    answer = http.get(OVERVIEW, **query)
    assert answer.status == 200, answer
    return answer.json


def groups(found: Any) -> dict[str, Any]:
    return {group["kind"]: group for group in found["waiting"]}


def test_what_waits_and_what_needs_a_person(server: Server, folder: Path) -> None:
    http = server.http
    http.post("/api/v1/lanes", {"id": "narrow", "limit": 1})
    holder = http.submit("hold", {"folder": str(folder), "name": "narrow"}, lane="narrow")
    wait_until(lambda: http.get(f"/api/v1/runs/{holder}").json["state"] == "running", "it holds the slot")
    waiting = [http.submit("echo", lane="narrow") for _ in range(3)]
    wait_until(lambda: "lane_full" in groups(overview(http)), "the overview has them")
    full = groups(overview(http))["lane_full"]
    assert (full["name"], full["count"], full["run"], full["holders"]) == ("narrow", 3, waiting[0], [holder])
    assert full["text"] == "waits for a slot of lane narrow: 1 active, 1 allowed"
    assert overview(http)["states"]["scheduled"] == 3
    with il.Client(server.url) as client:
        assert {one.count for one in client.overview().waiting if one.kind == "lane_full"} == {3}
    assert [row[:1] + row[2:6] for row in rows(server, "overview") if row[2] == "lane_full"] == [
        ["3", "lane_full", "narrow", "echo", waiting[0]]
    ]
    http.post("/api/v1/lanes/narrow/pause", "")
    wait_until(lambda: "lane_paused" in groups(overview(http)), "it is paused")
    (need,) = [one for one in printed(server, "overview", "--json")["needs"] if one["name"] == "narrow"]
    assert (need["kind"], need["text"], need["count"]) == ("lane", "lane narrow is paused by local", 3)
    http.post("/api/v1/lanes/narrow/resume", "")
    tell_to_go(folder, "narrow")
    for run_id in (holder, *waiting):
        http.ended(run_id)
    wait_until(lambda: "narrow" not in str(overview(http)["needs"]), "nobody is needed")


def test_dead_letters_that_nobody_replayed_need_a_person(server: Server) -> None:
    letter = server.http.ended(server.http.submit("fatal"))

    def needs() -> list[Any]:
        return [need for need in overview(server.http)["needs"] if need["kind"] == "dead_letter"]

    wait_until(lambda: any(need["run"] == letter["id"] for need in needs()), "the letter is there", limit=30.0)


@pytest.mark.behaviour("SEC-2")
def test_a_tenant_sees_its_own_runs_alone(guarded: Server) -> None:
    boss, stranger = as_(guarded, "boss"), as_(guarded, "stranger")
    for _ in range(2):
        stranger.submit("echo", delay="1h")
    boss.submit("echo", tenant="red", delay="1h")
    wait_until(lambda: groups(overview(stranger)).get("scheduled_time", {}).get("count", 0) >= 2, "both are there")
    own, of_all = overview(stranger), overview(boss)
    assert own["states"]["prerun"] < of_all["states"]["prerun"]
    assert (own["lanes"], of_all["lanes"] != []) == ([], True)
    assert overview(boss, tenant="blue")["states"] == own["states"]
    assert overview(stranger, tenant="red") == overview(stranger, tenant="nobody")
    assert overview(stranger, tenant="red")["states"] == {}
    oldest = stranger.get("/api/v1/runs/" + groups(own)["scheduled_time"]["run"]).json
    assert oldest["tenant"] == "blue"


def test_the_stream_has_it_only_if_it_is_named(server: Server) -> None:
    with server.http.events(type="overview") as stream, server.http.events() as other:
        first = stream.until(lambda told: told.name == "overview")[-1]
        run_id = server.http.submit("echo", delay="1h")

        def shows(told: Any) -> bool:
            count = first.data["states"].get("prerun", 0)
            return bool(told.name == "overview" and told.data["states"].get("prerun", 0) > count)

        told = stream.until(shows)
        assert {one.name for one in told} == {"overview"}
        server.http.post(f"/api/v1/runs/{run_id}/cancel", {})
        seen = other.until(lambda told: told.name == "run" and told.data["state"] == "cancelled")
        assert "overview" not in {one.name for one in seen}


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────

EMPTY = Overview(needs=[], waiting=[], unexplained=0, states={}, lanes=[], workers=1, policy=None)
TREE = ChildInfo(
    path="",
    name="",
    kind="supervisor",
    status=Status.RUNNING,
    children=[
        ChildInfo(
            path="services",
            name="services",
            kind="supervisor",
            status=Status.RUNNING,
            strategy="one_for_one",
            children=[
                ChildInfo(path="services/web", name="web", kind="process", status=Status.RUNNING),
                ChildInfo(
                    path="services/mailer",
                    name="mailer",
                    kind="process",
                    status=Status.PENDING,
                    restarts=5,
                    next_try_at=12.0,
                    reason="exit 3",
                ),
            ],
        ),
    ],
)


class Scheduler:
    """A link to a scheduler that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[str | None] = Counter()
        self.on_news: Any = None
        self.states = {"running": 1}
        self.changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def ask(self, message: Any) -> Any:
        self.changed.set()
        if isinstance(message, AskTree):
            return TREE
        if isinstance(message, AskOverview):
            self.asked[message.only_tenant] += 1
            return Overview(
                **{name: getattr(EMPTY, name) for name in EMPTY.__struct_fields__} | {"states": self.states}
            )
        return SimpleNamespace(position=0)


class Sink:
    def __init__(self, changed: asyncio.Event) -> None:
        self.chunks: list[bytes] = []
        self.changed = changed

    def write_through(self, chunk: bytes) -> bool:
        self.chunks.append(chunk)
        self.changed.set()
        return True


def test_it_is_made_once_for_all_readers_with_the_same_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.api.feed.EVERY_OVERVIEW", 0.01)
    monkeypatch.setattr("interlock.api.overview.FRESH", 0.0)

    async def body() -> None:
        scheduler: Any = Scheduler()
        store = MemoryStore()
        await store.open()
        feed = Feed(store, scheduler)
        Overviews(store, scheduler, feed)
        assert (scheduler.asked, feed._overviewing) == ({}, None), "nobody reads, and nobody pays"
        readers = []
        for tenant in (None, None, None, "red", "red"):
            sink = Sink(scheduler.changed)
            readers.append((Subscriber(Wish(tenant=tenant, types=frozenset({"overview"})), sink), sink))
            readers[-1][0].go_live()
            feed.join(readers[-1][0])
        await scheduler.until(lambda: all(sink.chunks for _, sink in readers) and scheduler.asked[None] >= 5)
        assert scheduler.asked[None] - scheduler.asked["red"] in (0, 1), "one question for each view"
        assert {len(sink.chunks) for _, sink in readers} == {1}, "nothing has changed, and nothing is sent"
        assert b"service mailer is pending, after 5 restarts" in readers[0][1].chunks[0]
        assert b"mailer" not in readers[3][1].chunks[0]
        scheduler.states = {"running": 2}
        await scheduler.until(lambda: all(len(sink.chunks) == 2 for _, sink in readers))
        task: Any = feed._overviewing
        for subscriber, _ in readers:
            feed.leave(subscriber)
        await task
        assert feed._overviewing is None, "nobody reads any longer"
        await feed.close()

    asyncio.run(body())


def test_an_answer_that_was_long_in_coming_does_not_silence_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have waited for a scheduler that died, for its successor."""
    monkeypatch.setattr("interlock.api.feed.EVERY_OVERVIEW", 0.01)
    monkeypatch.setattr("interlock.api.feed.MOST_REST", 0.02)
    monkeypatch.setattr("interlock.api.overview.FRESH", 0.0)
    monkeypatch.setattr("interlock.api.feed.perf_counter", count(0, 100).__next__)

    async def body() -> None:
        scheduler: Any = Scheduler()
        store = MemoryStore()
        await store.open()
        feed = Feed(store, scheduler)
        Overviews(store, scheduler, feed)
        sink: Any = Sink(scheduler.changed)
        subscriber = Subscriber(Wish(types=frozenset({"overview"})), sink)
        subscriber.go_live()
        feed.join(subscriber)
        await scheduler.until(lambda: scheduler.asked[None] >= 3)
        task: Any = feed._overviewing
        feed.leave(subscriber)
        await task
        await feed.close()

    asyncio.run(body())


def test_callers_within_a_second_share_one() -> None:
    async def body() -> None:
        scheduler: Any = Scheduler()
        store = MemoryStore()
        await store.open()
        overviews = Overviews(store, scheduler, Feed(store, scheduler))
        found = await asyncio.gather(*(overviews.of(None) for _ in range(20)), overviews.of("red"))
        assert scheduler.asked == {None: 1, "red": 1}
        assert [need.kind for need in found[0].needs] == [NeedKind.SERVICE]
        assert (found[0].needs[0].name, found[0].needs[0].detail, found[0].needs[0].until) == ("mailer", "exit 3", 12.0)
        assert found[-1].needs == []

    asyncio.run(body())
