"""Take-overs of a cluster on PostgreSQL: from a fault to the first dispatch of whoever leads then.

Two nodes may lead; a third has the worker, so that no fault takes work away. Each sample begins with runs that wait.
The leader's links and its way to PostgreSQL go through relays, which cut the network by relaying nothing.
"""

import asyncio
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from interlock.bench.report import ReportRow, say
from interlock.model.run import Transition
from interlock.model.state import State
from tests.cluster.nodes import SCHEDULER, Cluster, Node
from tests.helpers.postgres import Server, execute, fetch, with_options
from tests.helpers.processes import wait_until
from tests.remote.elsewhere import free_port

SCHEMA = "takeover"
WAITING, BATCH = 500, 1000
LABELS = {
    "killed": "kill -9 of the scheduler that leads",
    "stopped": "SIGSTOP of it",
    "handed over": "planned hand-over",
    "cut": "cut network of its machine",
    "restarted": "restart of PostgreSQL",
}
NOTED = f"""
CREATE TABLE {SCHEMA}.takes (epoch bigint, position bigint);
CREATE FUNCTION {SCHEMA}.note_take() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO {SCHEMA}.takes VALUES (new.epoch, new.position); RETURN new; END $$;
CREATE TRIGGER note_take AFTER UPDATE ON {SCHEMA}.leases
  FOR EACH ROW WHEN (old.epoch <> new.epoch) EXECUTE FUNCTION {SCHEMA}.note_take();
"""
STANDS_BY = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%SELECT nullif(session%' AND pid <> pg_backend_pid()"
LATER = f"""
SELECT string_agg(encode(entries, 'hex'), ' ' ORDER BY position) FROM (
  SELECT * FROM {SCHEMA}.history WHERE position > (SELECT position FROM {SCHEMA}.takes WHERE epoch = {{}})
  ORDER BY position LIMIT 500) AS later
"""


def measure_all(samples: int) -> tuple[list[ReportRow], dict[str, Any]]:
    found: dict[str, list[float]] = {name: [] for name in LABELS}
    with stage() as cluster:
        for number in range(samples):
            for name, harm in FAULTS.items():
                found[name].append(cluster.sample(harm))
                say(f"sample {number + 1} of {samples}, {name}: {found[name][-1]:.2f} s")
    rows: list[ReportRow] = []
    for name, label in LABELS.items():
        figure = f"{median(found[name]):.1f} s, {max(found[name]):.1f} s"
        rows.append((f"take-over after {label}: p50 and maximum of {samples}", figure, ""))
    return rows, found


class Relay:
    """Passes bytes on between clients and one address, until it is cut; then it only takes what comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: socket.socket, target: str | int) -> None:
        self._target = target
        self._loop = loop
        self._whole = asyncio.Event()
        self._links: set[asyncio.StreamWriter] = set()
        asyncio.run_coroutine_threadsafe(self._listen(listener), loop).result()

    async def _listen(self, listener: socket.socket) -> None:
        self._whole.set()
        if listener.family == socket.AF_UNIX:
            self._server = await asyncio.start_unix_server(self._accept, sock=listener)
        else:
            self._server = await asyncio.start_server(self._accept, sock=listener)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        with suppress(OSError):
            if isinstance(self._target, str):
                back, forth = await asyncio.open_unix_connection(self._target)
            else:
                back, forth = await asyncio.open_connection("127.0.0.1", self._target)
            self._links |= {writer, forth}
            await asyncio.gather(self._pass_on(reader, forth), self._pass_on(back, writer))
        writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.clear)

    def heal(self) -> None:
        """Relay again. What was connected has been given up meanwhile."""

        def end() -> None:
            for link in self._links:
                link.transport.abort()
            self._links.clear()
            self._whole.set()

        self._loop.call_soon_threadsafe(end)


class Stage:
    def __init__(self, folder: Path, server: Server) -> None:
        self._server = server
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        given = {"app": "bench.takeover_jobs:app", "slots": 64}
        cluster = Cluster(folder, with_options(server.url, schema=SCHEMA), "ab", **given)
        self.nodes = cluster.nodes
        self.relays: dict[str, list[Relay]] = {}
        links = {name: _bound(socket.AF_INET, ("127.0.0.1", 0)) for name in self.nodes}
        settings = {**cluster.settings, "nodes": [f"127.0.0.1:{one.getsockname()[1]}" for one in links.values()]}
        for name, node in self.nodes.items():
            place = folder / f"{name}-database"
            place.mkdir()
            way = _bound(socket.AF_UNIX, str(place / ".s.PGSQL.5432"))
            port = free_port()
            self.relays[name] = [
                Relay(self._loop, way, str(server.home / ".s.PGSQL.5432")), Relay(self._loop, links[name], port),
            ]  # fmt: skip
            url = f"postgresql://postgres@/postgres?host={place}&schema={SCHEMA}"
            node.configure({**settings, "database": url, "listen_workers": f"127.0.0.1:{port}", "roles": ["scheduler"]})
        self.door = Node(folder / "door", "door", 0, {**settings, "roles": ["gateway", "worker"]})

    def start(self) -> None:
        for node in (*self.nodes.values(), self.door):
            node.begin()
        wait_until(lambda: self.door.leader(), "one leads", 60.0)
        execute(self._server.url, NOTED)

    def sample(self, harm: "Callable[[Stage, Node], Callable[[], None]]") -> float:
        """Return the seconds from a fault to the next leader's first dispatch."""
        wait_until(
            lambda: len((self.door.get("/api/v1/cluster") or {"nodes": []})["nodes"]) == 3, "all are there", 60.0
        )
        wait_until(self._has_workers, "the worker is there", 60.0)
        wait_until(lambda: fetch(self._server.url, STANDS_BY), "the other stands by", 60.0)
        self._fill()
        before, leader = self._epoch(), self.nodes[str(self.door.leader())]
        began = time.time()
        mend = harm(self, leader)
        try:
            found: list[float] = []

            def has_dispatched() -> bool:
                found[:] = self._dispatched(before, began)
                return bool(found)

            wait_until(has_dispatched, "a run is dispatched", 120.0)
        finally:
            mend()
        return found[0] - began

    def _has_workers(self) -> bool:
        found = self.door.get("/api/v1/workers") or {"workers": []}
        return any(worker["state"] == "ready" for worker in found["workers"])

    def _fill(self) -> None:
        waiting = fetch(self._server.url, f"SELECT count(*) FROM {SCHEMA}.runs WHERE state = 'scheduled'")
        if waiting < WAITING:
            runs = [{"job": "nap", "payload": {}} for _ in range(BATCH)]
            answer = self.door.http.post("/api/v1/runs/batch", {"runs": runs})
            assert answer.status in (200, 201), answer

    def _epoch(self) -> int:
        with suppress(Exception):  # the server may be away
            return int(fetch(self._server.url, f"SELECT epoch FROM {SCHEMA}.leases"))
        return 0

    def _dispatched(self, before: int, began: float) -> list[float]:
        """Return the times of the dispatches of the epoch that followed."""
        if (epoch := self._epoch()) <= before:
            return []
        entries = fetch(
            self._server.url, LATER.format(f"(SELECT min(epoch) FROM {SCHEMA}.takes WHERE epoch > {before})")
        )
        found = [
            entry.at
            for row in (entries or "").split()
            for entry in msgspec.msgpack.decode(bytes.fromhex(row), type=list[Transition])
            if entry.after is State.DISPATCHED and entry.at >= began
        ]
        assert epoch
        return found

    # ── faults: each returns what mends it ──────────────────────────────────────────────────────────────────────────

    def kill(self, leader: Node) -> Callable[[], None]:
        leader.signal_part(SCHEDULER, signal.SIGKILL)
        return lambda: None

    def stop(self, leader: Node) -> Callable[[], None]:
        pid = leader.process_of(SCHEDULER)
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def hand_over(self, leader: Node) -> Callable[[], None]:
        assert self.door.http.post("/api/v1/cluster/hand-over").status == 200
        return lambda: None

    def cut(self, leader: Node) -> Callable[[], None]:
        for relay in self.relays[leader.name]:
            relay.cut()

        def mend() -> None:
            for relay in self.relays[leader.name]:
                relay.heal()

        return mend

    def restart(self, leader: Node) -> Callable[[], None]:
        self._server.stop(signal.SIGINT)
        self._server.start()
        return lambda: None

    def close(self) -> None:
        for node in (*self.nodes.values(), self.door):
            node.kill()


FAULTS = {
    "killed": Stage.kill, "stopped": Stage.stop, "handed over": Stage.hand_over, "cut": Stage.cut,
    "restarted": Stage.restart,
}  # fmt: skip


def _bound(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(128)
    return listener


@contextmanager
def stage() -> Iterator[Stage]:
    server = Server("max_connections=60")
    with tempfile.TemporaryDirectory(prefix="il-") as folder:
        made: Stage | None = None
        try:
            server.start()
            made = Stage(Path(folder), server)
            made.start()
            yield made
        finally:
            if made is not None:
                made.close()
            server.remove()
