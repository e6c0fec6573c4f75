"""The real inspector beside a real scheduler: what it finds, and scanners that misbehave."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.config import Settings
from interlock.config.sources import load, of_app
from interlock.inspector.inspector import AT_ONCE
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.letter import DeadLetter
from interlock.model.policy.output import OutputPolicy
from interlock.model.policy.scanner import ScannerKind, ScannerSpec
from interlock.model.state import State
from interlock.ports.store import Unscanned
from interlock.stores.memory import MemoryStore
from interlock.wiring.scheduler import Scheduler
from tests.helpers import scanned
from tests.helpers.http import Http
from tests.helpers.places import clean_folder, until
from tests.helpers.processes import alive, children_of, wait_until
from tests.helpers.server import Server, interlock

pytestmark = pytest.mark.behaviour("OUT-3")

PASSWORD = "postgres://app:correct-horse-9@db/app"
S = State


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with clean_folder() as place, scanned.scanning(place, timeout="2s") as running:
        yield running


@pytest.mark.behaviour("OUT-1", "OUT-2", "OUT-4", "OUT-7")
@pytest.mark.parametrize(
    ("value", "state", "result", "kinds"),
    [
        ({"a": [1, "fine"]}, S.SUCCEEDED, {"a": [1, "fine"]}, None),
        (None, S.SUCCEEDED, None, None),
        ({"a": f"about {scanned.KEYWORD}"}, S.OUTPUT_QUARANTINED, None, ["keyword"]),
        ({"url": PASSWORD, "n": 5}, S.SUCCEEDED,
         {"url": "postgres://app:[redacted:connection_password]@db/app", "n": 5}, ["connection_password"]),
        (["Ada and Grace"], S.SUCCEEDED, ["[redacted:name] and [redacted:name]"], ["name", "name"]),
        ("ada@example.com", S.SUCCEEDED, "ada@example.com", ["email"]),
        ({"a": "Ada", "b": scanned.KEYWORD}, S.OUTPUT_QUARANTINED, None, ["keyword", "name"]),
        ("x" * 2000, S.OUTPUT_QUARANTINED, None, []),
    ],
)  # fmt: skip
def test_what_is_found(server: Server, value: Any, state: State, result: Any, kinds: list[str] | None) -> None:
    with scanned.client_of(server) as client:
        run = scanned.say(client, value)
        run.wait(30)
        scanned.scans_done(client)
        found = client.get(run.id)
        assert (found.state, found.result) == (state, result)
        record = scanned.record_of(client, run.id)
        assert (record.get("findings") and sorted(one["kind"] for one in record["findings"])) == (kinds or None)
        status = "quarantined" if state is S.OUTPUT_QUARANTINED else "clean" if result == value else "redacted"
        assert record["status"] == status
        if kinds is not None:
            assert record["phase"] == (2 if kinds else 1)


@pytest.mark.behaviour("OUT-2")
def test_scanners_that_misbehave_cost_one_result_its_scan(server: Server) -> None:
    texts = {"hang": "it took longer than 2s", "exit": "the process that scanned it ended",
             "leave": "the process that scanned it ended", "grow": "MemoryError in trap (scanning_jobs.py, line",
             "raise": "ValueError in trap (scanning_jobs.py, line"}  # fmt: skip
    with scanned.client_of(server) as client:
        for mode, state in (("open", S.SUCCEEDED), ("closed", S.OUTPUT_QUARANTINED)):
            scanned.write_policy(server.folder, mode, "2s")
            client.reload()
            skipped = scanned.metric(server.local, "output_skipped_total", topic="say", phase="2")
            runs = {text: scanned.say(client, f"{text} hunter2") for text in texts}
            for run in runs.values():
                run.wait(30)
            scanned.scans_done(client)
            for text, reason in texts.items():
                found = client.get(runs[text].id)
                assert found.state is state
                assert f"the result could not be scanned: {reason}" in found.reason or mode == "open"
                assert "hunter2" not in found.reason
            now = scanned.metric(server.local, "output_skipped_total", topic="say", phase="2")
            assert now == skipped + len(texts)
        scanned.write_policy(server.folder, timeout="2s")
        client.reload()


def _counts(http: Http) -> list[float]:
    """Return how many results each phase has checked and quarantined."""
    events = ("checked", "quarantined")
    return [scanned.metric(http, f"output_{one}_total", topic="say", phase=phase) for phase in "12" for one in events]


@pytest.mark.behaviour("OBS-1")
def test_scans_are_counted_and_their_lag_is_shown(server: Server) -> None:
    with scanned.client_of(server) as client:
        http = server.local
        before = _counts(http)
        scanned.scans_done(client)
        scanned.say(client, "x" * 2000).wait(30)
        wait_until(lambda: scanned.metric(http, "output_scan_lag") == 0, "no scan is behind")
        after = _counts(http)
        assert [now - then for now, then in zip(after, before, strict=True)] == [2, 1, 1, 1]
        assert scanned.metric(http, "output_check_seconds_count", phase="2") == after[2]
        assert 0 < scanned.metric(http, "output_check_seconds_sum", phase="2") < 60


def test_a_policy_that_changes_during_a_scan_is_the_one_that_counts(folder: Path) -> None:
    with scanned.scanning(folder) as server, scanned.client_of(server) as client:
        run = scanned.say(client, "wait for Eagle")
        run.wait(30)
        wait_until((folder / "scanning").exists, "the scan is under way")
        scanned.write_policy(folder, words="Eagle")
        client.reload()
        (folder / "go").touch()
        scanned.in_state(client, run.id, S.OUTPUT_QUARANTINED)
        assert scanned.record_of(client, run.id)["reason"] == "keyword found"


def test_results_wait_for_an_app_that_cannot_be_imported(folder: Path) -> None:
    (folder / "broken").touch()
    with scanned.scanning(folder, mode="closed") as server, scanned.client_of(server) as client:
        run, clean = scanned.say(client, scanned.KEYWORD), scanned.say(client, "fine")
        run.wait(30)
        wait_until(lambda: server.said.count("scanners: could not be started") > 1, "it was started again")
        assert "this app cannot be imported" in server.said
        assert client.get(run.id).state is S.SUCCEEDED
        wait_until(lambda: "inspector: " in interlock(folder, "doctor").stdout, "doctor names it")
        (folder / "broken").unlink()
        scanned.in_state(client, run.id, S.OUTPUT_QUARANTINED)
        scanned.scans_done(client)
        assert clean.result(30) == "fine"


async def test_a_policy_larger_than_a_command_line_can_be() -> None:
    words = [f"{number} {scanned.KEYWORD * 10}" for number in range(4000)]
    policy = OutputPolicy(scanners=(ScannerSpec(scanner=ScannerKind.KEYWORDS, words=tuple(words)),))
    pipe = ScanPipe(None, sys.path)
    try:
        found = await pipe.scan(policy, {"run": f'"{words[-1]}"'.encode(), "other": b'"fine"'})
        assert {name: one.found for name, one in found.items()} == {"run": 1, "other": 0}
    finally:
        await pipe.close()


async def test_scanners_that_were_killed_while_idle_are_started_again_and_leave_out_no_result() -> None:
    policy = OutputPolicy(scanners=(ScannerSpec(scanner=ScannerKind.KEYWORDS, words=(scanned.KEYWORD,)),))
    pipe = ScanPipe(None, sys.path)
    try:
        for noticed in (True, False):
            before = set(children_of(os.getpid()))
            await pipe.scan(policy, {"first": b'"fine"'})
            (pid,) = set(children_of(os.getpid())) - before
            os.kill(pid, signal.SIGKILL)
            if noticed:
                await until(lambda pid=pid: not alive(pid), "its end is known")  # type: ignore[misc] # its own pid
            found = (await pipe.scan(policy, {"run": f'"{scanned.KEYWORD}"'.encode()}))["run"]
            assert (found.found, found.error) == (1, "")
            await pipe.close()
    finally:
        await pipe.close()


class Counting(MemoryStore):
    """Notes how many results are asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def unscanned(self, run_ids: Sequence[str]) -> list[Unscanned]:
        self.asked.append(len(run_ids))
        return await super().unscanned(run_ids)


async def test_a_flood_is_read_in_parts_also_in_memory(folder: Path) -> None:
    count = 10 * AT_ONCE + 1
    settings = Settings(database=":memory:", socket=str(folder / "s"), http="off", slots=8)
    store, app, path = Counting(), of_app(scanned.APP), scanned.write_policy(folder)
    scheduler = Scheduler(app.definitions, scanned.APP, settings, store, lambda: load([path], app))
    await scheduler.start()
    try:
        from tests.helpers.scanning_jobs import app as jobs

        async with jobs.connected(str(folder / "s")):
            handles = await jobs.submit_many([("say", {"value": scanned.KEYWORD})] * count)
            await asyncio.gather(*(one.wait() for one in handles))
        await until(lambda: len(store.all_of(DeadLetter)) == count, "every result is quarantined")
        assert max(store.asked) == AT_ONCE
    finally:
        await scheduler.stop()


def test_the_server_in_memory_scans_too(folder: Path) -> None:
    place = "--db", ":memory:", "--socket", str(folder / "interlock.db.sock")
    with scanned.scanning(folder, *place, "--http", "127.0.0.1:0") as server:
        http: Http = server.http
        run_id = http.submit("say", {"value": scanned.KEYWORD})
        http.ended(run_id)
        wait_until(lambda: http.get(f"/api/v1/runs/{run_id}").json["state"] == "output_quarantined", "it is scanned")
        assert scanned.inspectors(folder) == []
        assert interlock(folder, "show", run_id, "--url", server.url).returncode == 0
