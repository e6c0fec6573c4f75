"""A function of a workflow that changes while runs are under way: what halts, who is told, and what brings them on."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.cli.asking import ask, printed, refused, rows
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

OLD = """\
import interlock as il

app = il.App()


@app.job("work")
async def work(value: int = 0) -> int:
    return value


@app.workflow("order")
async def order(ctx: il.WorkflowContext, token: il.Secret) -> int:
    paid = await ctx.run(work.call(7), name="pay")
    await ctx.event("go", bool)
    return await ctx.run(work.call(paid), name="ship")


@app.workflow("steady")
async def steady(ctx: il.WorkflowContext) -> int:
    await ctx.event("go", bool)
    return 1
"""
NEW = OLD.replace('name="pay"', 'name="charge"')


def write(folder: Path, text: str) -> None:
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    (folder / "flows.py").write_text(text)


@pytest.fixture
def server() -> Iterator[Server]:
    with clean_folder() as place:
        write(place, OLD)
        server = Server(place, "--http", "local", "--drain", "1s", target="flows:app")
        server.start()
        try:
            yield server
        finally:
            server.stop()


def waits(run: il.BlockingRunHandle[Any]) -> bool:
    return "waits" in run.info().facets.get("workflow", {})


def halted(server: Server) -> list[str]:
    return [row[0] for row in rows(server, "workflows", "--status", "halted")]


@pytest.mark.behaviour("WFL-9", "WFL-11")
def test_new_code_halts_the_runs_that_it_does_not_fit_and_the_old_code_brings_them_on(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        runs = [client.submit("order", {"token": "hush"}) for _ in range(3)]
        fits = client.submit("steady")
        wait_until(lambda: all(waits(run) for run in (*runs, fits)), "all wait for their event")
    write(server.folder, NEW)
    named = unfit(server)
    assert set(named) == {run.id for run in runs}, "it names them before the new code is deployed"
    assert set(named.values()) == {("pay", "the function asks for step 'charge' where its record has 'pay'")}
    server.stop()
    server.start()
    with il.Client(f"unix:{server.http_socket}") as client:
        before = {run.id: [(step.id, step.state) for step in client.steps(run.id)] for run in runs}
        for run in (*runs, fits):
            client.send_event(run.id, "go", True)
        assert client.result(fits.id, 60) == 1
        wait_until(lambda: set(halted(server)) == {run.id for run in runs}, "they are halted")
        after = {run.id: [(step.id, step.state) for step in client.steps(run.id)] for run in runs}
        assert {id: [step for step, _ in steps] for id, steps in after.items()} == {
            id: [step for step, _ in steps] for id, steps in before.items()
        }, "no step began"
    names = {one["name"]: one for one in printed_doctor(server)}
    assert names["workflows"]["level"] == "warning"
    assert all(run.id in names["workflows"]["detail"] for run in runs)
    ((again, state),) = rows(server, "workflow", "resume", runs[0].id)
    assert (again, state) == (runs[0].id, "under_way")
    ((gone, _),) = rows(server, "workflow", "abandon", runs[2].id, "--reason", "too old")
    assert ask(server, "show", gone, "--wait").returncode == 5
    assert printed(server, "show", gone, "--json")["run"]["reason"] == "abandoned: too old"
    assert [row[2] for row in rows(server, "audit", "--kind", "abandoned")] == ["abandoned"]
    refused(server, "workflow", "resume", gone, exit_code=1, says="is cancelled and not halted", code="not_halted")
    assert set(halted(server)) == {runs[0].id, runs[1].id}
    assert set(unfit(server)) == {runs[0].id, runs[1].id}
    server.stop()
    write(server.folder, OLD)
    server.start()
    assert unfit(server) == {}
    with il.Client(f"unix:{server.http_socket}") as client:
        assert [client.result(run.id, 60) for run in runs[:2]] == [7, 7]


def unfit(server: Server) -> dict[str, tuple[str, str]]:
    """What `workflow diff` finds with the code in the folder: the step that differs, and why, by run."""
    ended = ask(server, "workflow", "diff", "-A", "flows:app")
    lines = [line.split("\t") for line in ended.stdout.splitlines()]
    assert ended.returncode == bool(lines), ended
    return {run: (step, why) for run, _, _, step, why in lines}


def printed_doctor(server: Server) -> list[dict[str, str]]:
    found: list[dict[str, str]] = printed(server, "doctor", "-A", "flows:app", "--http", "local", "--json")["checks"]
    return found
