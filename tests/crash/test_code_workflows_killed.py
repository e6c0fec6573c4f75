"""kill -9 in the midst of a workflow that is a function, and functions that end their process."""

from pathlib import Path

import pytest

import interlock as il
from interlock.model.state import State
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

APP = """\
import asyncio
import os
import signal
import time
from pathlib import Path

import interlock as il

app = il.App()
folder = Path(__file__).parent


@app.job("work")
async def work(ctx: il.Context, value: int) -> int:
    with open(folder / "executions", "a") as file:
        file.write(f"{ctx.run_id}\\n")
    while not (folder / "work.go").exists():
        await asyncio.sleep(0.05)
    return value


@app.workflow("flow")
async def flow(ctx: il.WorkflowContext) -> list[int]:
    first = await ctx.run(work.call(1))
    both = await ctx.gather(ctx.run(work.call(2)), ctx.run(work.call(3)))
    await ctx.sleep("100ms")
    return [first, *both, *await ctx.map(work, [4, 5])]


@app.workflow("deadly")
async def deadly(ctx: il.WorkflowContext, way: str) -> None:
    if way == "exit":
        os._exit(3)
    if way == "block":
        time.sleep(3600)
    os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.behaviour("WFL-1", "WFL-9", "REC-6")
def test_the_scheduler_and_its_worker_die_while_a_step_of_a_function_executes(folder: Path) -> None:
    (folder / "flows.py").write_text(APP)
    server = Server(folder, "--http", "local", target=f"{folder / 'flows.py'}:app")
    try:
        server.start()
        with il.Client(f"unix:{server.http_socket}") as client:
            run_id = client.submit("flow").id
            wait_until(lambda: lines_of(folder / "executions"), "the first step executes")
        server.kill()
        tell_to_go(folder, "work")
        server.start()
        with il.Client(f"unix:{server.http_socket}") as client:
            assert client.result(run_id, 60) == [1, 2, 3, 4, 5]
            steps = {step.id.partition("@")[2]: step.state for step in client.runs(root=run_id)}
        names = {"work", "work-2", "work-3", "sleep", "work-4", "work-4.0", "work-4.1"}
        assert steps == dict.fromkeys(names, State.SUCCEEDED)
        assert server.stop() == 0
    finally:
        server.kill()
    later = [line for line in lines_of(folder / "executions") if not line.endswith("@work")]
    assert sorted(later) == sorted(f"{run_id}@{name}" for name in names - {"work", "sleep", "work-4"})


@pytest.mark.behaviour("WFL-9")
@pytest.mark.parametrize(
    ("way", "code", "text"),
    [
        ("exit", "turn_crashed", "crashed 3 times"),
        ("segfault", "turn_crashed", "crashed 3 times"),
        ("block", "turn_too_long", "took more than 10s"),
    ],
)
def test_a_function_that_ends_its_process_or_blocks_halts_its_run_and_harms_no_other(
    folder: Path, way: str, code: str, text: str
) -> None:
    (folder / "flows.py").write_text(APP)
    with Server(folder, "--http", "local", "--drain", "1s", target=f"{folder / 'flows.py'}:app") as server:
        with il.Client(f"unix:{server.http_socket}") as client:
            beside = client.submit("work", {"value": 7})
            wait_until(lambda: lines_of(folder / "executions"), "the run beside it executes")
            halted = client.submit("deadly", {"way": way})
            wait_until(lambda: "workflow" in halted.info().facets, "the run is halted", 60)
            halt = halted.info().facets["workflow"]["halt"]
            assert (halt["code"], text in halt["text"]) == (code, True)
            tell_to_go(folder, "work")
            assert beside.result(60) == 7
            assert (beside.info().attempt, client.result(client.submit("flow").id, 60)) == (1, [1, 2, 3, 4, 5])
            halted.cancel()
            wait_until(lambda: halted.info().state is State.CANCELLED, "the run is cancelled")
