"""`interlock workflow record` and `workflow diff`: the records of runs, and code that does not fit them."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock import testing
from interlock.cli.shared.replays import Replays
from interlock.fields.json_form import decode
from interlock.interface.record_view import RunRecord
from interlock.worker.app_loader import load_app
from tests.cli.asking import ask, drawn, printed, refused
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

APP = """\
import os
import time

import interlock as il

app = il.App()


@app.job("work")
async def work(value: int = 0, token: il.Secret | None = None) -> int:
    return value


@app.job("leak")
async def leak() -> str:
    return "AKIAIOSFODNN7EXAMPLE"


@app.workflow("flow")
async def flow(
    ctx: il.WorkflowContext, token: il.Secret, tokens: list[il.Secret], more: list[il.Secret] = [], password: str = "",
    count: int = 1,
) -> int:
    first = await ctx.run(work.call(count, token), name="first")
    if count == 1:
        await ctx.continue_as_new(flow.call(token, tokens, more, password, 2))
    place, value = await ctx.first(ctx.event("go", int), ctx.sleep("1h"))
    return place + value + first


@app.workflow("leaks")
async def leaks(ctx: il.WorkflowContext) -> str:
    try:
        return await ctx.run(leak.call())
    except il.RunQuarantined:
        return "withheld"


@app.workflow("short")
async def short(ctx: il.WorkflowContext) -> None:
    await ctx.event("go", int)
"""
FILES = """\
kind: Workflow
id: graph
steps: [{id: nap, sleep: 1h}]
---
kind: Policy
id: careful
output: {rules: [{id: keys, match: {topics: [leak]}, decision: quarantine}]}
rules: [{id: rest, decision: allow}]
"""


def write(folder: Path, text: str) -> None:
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    (folder / "flows.py").write_text(text)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with clean_folder() as place:
        write(place, APP)
        (place / "more.yaml").write_text(FILES)
        server = Server(place, "more.yaml", "--http", "local", "--drain", "1s", target="flows:app")
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def run_id(server: Server) -> str:
    """A run in its second round that waits for an event or a time."""
    with il.Client(f"unix:{server.http_socket}") as client:
        run = client.submit(
            "flow", {"token": "hush-hush", "tokens": ["one-hush", "two-hush"], "more": [], "password": "plain-hush"}
        )
        wait_until(lambda: "r2.go" in run.info().facets.get("workflow", {}).get("waits", {}), "it waits for its event")
        return run.id


@pytest.mark.behaviour("WFL-9", "WFL-13")
def test_the_record_of_the_present_round(server: Server, run_id: str) -> None:
    record = printed(server, "workflow", "record", run_id)
    assert {name: record[name] for name in ("workflow", "run_id", "state", "round", "seen", "ended", "changes")} == {
        "workflow": "flow", "run_id": run_id, "state": "under_way", "round": 2, "seen": 1, "ended": False,
        "changes": [],
    }  # fmt: skip
    assert record["payload"] == {"token": "•••", "tokens": ["•••", "•••"], "more": [], "password": "•••", "count": 2}
    first, go, sleep = record["steps"]
    assert [step["name"] for step in record["steps"]] == ["first", "go", "sleep"]
    assert (first["place"], first["state"], first["result"]) == (0, "succeeded", 2)
    masked = b'{"token":"\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2","value":2}'
    assert first["arguments"] == hashlib.sha256(masked).hexdigest()
    assert first["at"].endswith("Z")
    assert [(step["place"], step["state"], step["at"]) for step in (go, sleep)] == [(None, None, None)] * 2
    assert record == server.local.get(f"/api/v1/runs/{run_id}/record").json
    assert "hush" not in json.dumps(record)


@pytest.mark.behaviour("OUT-5")
def test_the_record_has_no_withheld_result_and_fits_once_the_run_has_ended(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        run = client.submit("leaks")
        assert run.result(60) == "withheld"
        file = server.folder / "leaks.json"
        file.write_text(ask(server, "workflow", "record", run.id).stdout)
    record = decode(file.read_bytes(), RunRecord)
    assert (record.ended, record.state, record.seen) == (True, il.State.SUCCEEDED, 1)
    (step,) = record.steps
    assert (step.state, step.result, step.place) == (il.State.OUTPUT_QUARANTINED, None, 0)
    assert "AKIA" not in file.read_text()
    testing.replay(load_app(f"{server.folder / 'flows.py'}:app"), file)


def test_only_functions_have_a_record(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        ids = [client.submit("graph").id, client.submit("work").id]
    for run in ids:
        refused(server, "workflow", "record", run, exit_code=1, says="no workflow that is a function", code="no_record")


def diff(server: Server, text: str, *options: str) -> dict[str, tuple[str, str]]:
    """The step that differs, and why, by the workflow of each run that this code does not fit."""
    write(server.folder, text)
    try:
        found = ask(server, "workflow", "diff", "-A", "flows:app", *options)
        lines = [line.split("\t") for line in found.stdout.splitlines()]
        assert found.returncode == bool(lines), found
        return {workflow: (step, why) for _, workflow, _, step, why in lines}
    finally:
        write(server.folder, APP)


@pytest.mark.behaviour("WFL-11")
def test_what_does_not_fit_live_runs(server: Server, run_id: str) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        short = client.submit("short")
        wait_until(lambda: "waits" in short.info().facets.get("workflow", {}), "it waits")
    assert diff(server, APP) == {}
    assert diff(server, APP.replace('name="first"', 'name="other"')) == {
        "flow": ("first", "the function asks for step 'other' where its record has 'first'")
    }
    assert diff(server, APP.replace("count: int = 1", "count: str = ''")) == {
        "flow": ("", "payload of 'flow': argument 'count': expected str, got int")
    }
    gone = APP.replace('"short"', '"brief"')
    assert diff(server, gone) == {"short": ("", "the app has no workflow 'short'")}
    assert diff(server, gone, "--job", "flow") == {}
    dead = APP.replace("    place, value =", "    os._exit(3)\n    place, value =")
    assert diff(server, dead) == {"flow": ("", "its process ended with exit code 3 in the turn")}
    said = ask(server, "workflow", "diff", "-A", "flows:app")
    assert (said.stdout, said.stderr) == ("", "0 of 2 live runs would halt\n")


@pytest.mark.behaviour("WFL-11")
def test_a_diff_in_a_terminal_and_as_json(server: Server, run_id: str) -> None:
    write(server.folder, APP.replace('name="first"', 'name="other"'))
    try:
        lines = drawn(server, "workflow", "diff", "-A", "flows:app", "--job", "flow")
        found = json.loads(ask(server, "workflow", "diff", "-A", "flows:app", "--job", "flow", "--json").stdout)
    finally:
        write(server.folder, APP)
    assert max(map(len, lines)) <= 80
    assert any(run_id in line and "first" in line for line in lines)
    (row,) = found["runs"]
    assert (found["checked"], row["run"], row["step"]) == (1, run_id, "first")


def test_a_turn_that_does_not_end_is_given_up(server: Server, run_id: str) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        record = client.record(run_id)
    slow = server.folder / "slow.py"
    slow.write_text(APP.replace("    place, value =", "    time.sleep(3600)\n    place, value ="))
    with Replays(f"{slow}:app", limit=0.5) as replays:
        for _ in range(2):
            misfit = replays.misfit_of(record)
            assert misfit is not None
            assert misfit.text == "its turn takes more than 0.5s"


def test_an_app_that_cannot_be_compared(server: Server) -> None:
    refused(server, "workflow", "diff", exit_code=2, says="-A: missing", code="usage")
    (server.folder / "broken.py").write_text("import nothing_of_this_name")
    says = "cannot load 'broken:app': ModuleNotFoundError: No module named 'nothing_of_this_name'"
    refused(server, "workflow", "diff", "-A", "broken:app", exit_code=2, says=says, code="cannot_import")
    (server.folder / "dying.py").write_text("import os\nos._exit(4)")
    refused(
        server, "workflow", "diff", "-A", "dying:app", exit_code=2, says="ended with exit code 4", code="cannot_import"
    )


def test_a_test_replays_a_recorded_run(server: Server, run_id: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.json"
    file.write_text(ask(server, "workflow", "record", run_id).stdout)
    testing.replay(load_app(f"{server.folder / 'flows.py'}:app"), file)
    (tmp_path / "changed.py").write_text(APP.replace('name="first"', 'name="other"'))
    with pytest.raises(il.RecordDiffers, match="asks for step 'other' where its record has 'first'") as caught:
        testing.replay(load_app(f"{tmp_path / 'changed.py'}:app"), str(file))
    assert (caught.value.run_id, caught.value.step) == (run_id, "first")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"workflow": "flow", "steps": 3}', "\xff"])
def test_a_file_that_is_no_record(text: str, tmp_path: Path) -> None:
    file: Any = tmp_path / "odd.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(il.BadValue, match="a record, as `interlock workflow record RUN` prints it"):
        testing.replay(il.App(), file)
