"""Secrets through real processes: they reach the handler, and nothing that is kept or shown has them."""

import asyncio
import json
import sqlite3
from pathlib import Path
from urllib.parse import quote

import pytest

import interlock as il
from interlock.fields.secret import MASK
from interlock.model.state import State
from tests.helpers.places import run_async
from tests.helpers.processes import wait_until
from tests.helpers.secret_jobs import PASSWORD, TOKEN, app
from tests.helpers.server import Command, Server

TARGET = "tests.helpers.secret_jobs:app"
OPTIONS = {"token": TOKEN}


def tables_without_payloads(database: Path) -> str:
    """Every row of the database as text, but for the columns that hold what the handler itself is given."""
    with sqlite3.connect(database) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows: list[str] = []
        for name in names:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            kept = [one for one in columns if one not in ("payload", "checkpoint", "value")]
            if kept:
                rows += [repr(row) for row in connection.execute(f"SELECT {', '.join(kept)} FROM {name}")]
    connection.close()
    return "\n".join(rows)


def assert_clean(text: str) -> None:
    for part in ("hunter2", quote(PASSWORD), TOKEN):
        assert part not in text


@pytest.mark.behaviour("SEC-5")
def test_what_a_careless_handler_says_is_kept_and_shown_without_its_secrets(folder: Path) -> None:
    async def body() -> None:
        async with app.connected(str(server.socket)):
            given = {"password": il.Secret(PASSWORD), "options": OPTIONS}
            for job, last in (
                ("careless.async", "RuntimeError: token was •••"),
                ("careless.thread", "gave up with ••• and •••"),
                ("careless.result", "result: a Secret is not JSON"),
            ):
                run = await app.submit(job, given)
                with pytest.raises(il.RunEnded) as caught:
                    await run.result(30)
                assert last in str(caught.value)
                info = await run.info()
                lines = await run.logs()
                assert_clean(f"{info} {lines} {await run.history()} {caught.value}")
                if job != "careless.result":
                    assert [one.text for one in lines][:6] == [
                        "line •••",
                        "line '•••'",
                        'line {"a": "•••"}',
                        "line •••",
                        "line •••",
                        "line harmless",
                    ]
                if job == "careless.async":
                    assert "ValueError: cannot log in with '•••'" in str(info.error)
                    assert info.attempt == 2

    with Server(folder, "--log-level", "debug", "--http", "local", target=TARGET) as server:
        run_async(body())
        with il.Client(f"unix:{server.http_socket}") as client:
            runs, letters, audit = list(client.runs()), list(client.dead_letters()), list(client.audit())
            events = [event for run in runs for event in client.events(run=run.id)]
            shown = f"{runs} {letters} {audit} {events} {[client.get(run.id) for run in runs]}"
        assert {"RunEvent", "LogEvent"} <= {type(event).__name__ for _, event in events}
        assert len(letters) == len(runs) == 3
        assert_clean(shown)
    assert "run ended as failed" in server.said
    assert_clean(server.said)
    with sqlite3.connect(server.database) as connection:
        payloads = [json.loads(row[0]) for row in connection.execute("SELECT payload FROM runs")]
    connection.close()
    assert payloads == [{"password": {"$secret": PASSWORD}, "options": OPTIONS}] * 3
    kept = tables_without_payloads(server.database)
    assert "careless.thread" in kept
    assert_clean(kept)


async def test_a_secret_reaches_the_handler_and_the_attempt_after_a_crash(folder: Path) -> None:
    async with app.running(str(folder / "interlock.db")):
        run = await app.submit("careful", {"password": PASSWORD, "more": {"inner": [il.Secret("x")]}})
        assert await run.result(30) == ["Secret", True, "Secret"]
        assert {one.text for one in await run.logs()} <= {"kept •••", "again •••"}
        assert (await run.logs())[-1].text == "again •••"


async def test_a_refused_submit_does_not_quote_what_was_given(folder: Path) -> None:
    async with app.running(str(folder / "interlock.db")):
        with pytest.raises(il.InterlockError, match="annotate it as interlock") as caught:
            await app.submit("renamed", {"pin": il.Secret(PASSWORD), "password": "x"})
        assert_clean(str(caught.value))


async def test_the_names_of_secrets_and_the_limits_of_logs_are_settings(folder: Path) -> None:
    async with app.running(str(folder / "interlock.db"), secret_names=["pin"], log_lines=1):
        run = await app.submit("renamed", {"pin": "987654", "password": "shown here"})
        await run.result(30)
        line, last = [one.text for one in await run.logs()]
        assert line == "••• shown here"
        assert "1 lines or 4 MiB" in last


def test_a_secret_argument_is_still_one_after_the_scheduler_was_killed(folder: Path) -> None:
    async def body() -> None:
        async with app.connected(str(server.socket)):
            run = await app.submit("careless.thread", {"password": PASSWORD, "options": OPTIONS}, delay="2s")
            await server.restart()
            handle = await app.handle(run.id)
            assert await asyncio.wait_for(handle.wait(), 30) is State.FAILED
            assert_clean(f"{await handle.info()} {await handle.logs()}")

    with Server(folder, target=TARGET) as server:
        run_async(body())
    assert_clean(server.said)


def test_a_secret_that_was_given_as_text_stays_one_when_the_job_is_changed(folder: Path) -> None:
    server = Server(folder, "--http", "local", target=TARGET)
    with server:
        run_id = server.local.submit("changed", {"key": PASSWORD, "keys": [TOKEN]}, delay="2s")
        server.kill()
        server.arguments = tuple(one.replace(TARGET, "tests.helpers.secret_jobs:later") for one in server.arguments)
        server.start()
        wait_until(lambda: server.local.get("/readyz").status == 200, "it serves again")
        run = server.local.ended(run_id)
    assert run["state"] == "failed"
    assert "argument 'key': " in run["error"]
    assert "interlock.Secret" in run["error"]
    assert run["payload"] == {"key": MASK, "keys": [MASK]}
    assert_clean(json.dumps(run, ensure_ascii=False) + server.said)


def test_handlers_are_not_given_the_tokens_of_the_environment(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("tokens: [{name: boss, role: admin, env: BOSS_TOKEN}]")

    async def variables() -> list[str]:
        async with app.connected(str(server.socket)):
            found: list[str] = await (await app.submit("environment")).result(30)
            return found

    server = Server(folder, target=TARGET)
    worker = Command(folder, "interlock.cli", "worker", "-A", TARGET, "--socket", str(server.socket), name="worker")
    server.extra = worker.extra = {"BOSS_TOKEN": "0123456789abcdef", "ANOTHER": "x"}
    with server:
        found = run_async(variables())
        assert "BOSS_TOKEN" not in found
        assert "ANOTHER" in found
    server.arguments += ("--workers", "0")
    with server:
        worker.begin()
        found = run_async(variables())
        assert "BOSS_TOKEN" not in found
        assert "ANOTHER" in found
        assert worker.stop() == 0
