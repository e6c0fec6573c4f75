"""`python -m soak.workflow_walk`: kill -9 the scheduler after each commit of the examples of workflows.

One run of an example is the reference. Then the same is submitted anew, each time in a new folder, to a scheduler that
dies in its first commit, its second, …, and is started again. Outcome, steps and states must be those of the reference,
and each step begins as often.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import interlock as il
from interlock.error import InterlockError
from interlock.model.state import State
from interlock.wire.approval_request import ApproveRun
from interlock.wiring.connection import connect
from tests.helpers.processes import hear_signals, wait_until
from tests.helpers.server import ROOT, Server

LIMIT = 60.0  # seconds for what is left of a workflow, once nothing is killed any more
KEY = "the one"
MOMENTS = ("before", "after")


class Example(NamedTuple):
    job: str
    payload: dict[str, Any]
    target: str = ""
    file: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        return (str(ROOT / self.file),) if self.file else ()


MEDIA, ORDER, AGENT = (f"examples.workflows.{name}:app" for name in ("media", "order", "agent"))
TEA, ANVIL = ({"customer": "ann", "items": [item], "cents": 5} for item in ("tea", "anvil"))
EXAMPLES = {
    "media": Example("media", {"url": "a.mkv"}, file="examples/media.yaml"),
    "broken media": Example("media", {"url": "broken"}, file="examples/media.yaml"),
    "order": Example("order", TEA, file="examples/workflows/order.yaml"),
    "failing order": Example("order", ANVIL, file="examples/workflows/order.yaml"),
    "release": Example("release", {"version": "1.2"}, file="examples/workflows/release.yaml"),
    "withdrawn release": Example("release", {"version": "13"}, file="examples/workflows/release.yaml"),
    "media function": Example("media", {"url": "a.mkv"}, MEDIA),
    "broken media function": Example("media", {"url": "broken"}, MEDIA),
    "order function": Example("order", TEA, ORDER),
    "failing order function": Example("order", ANVIL, ORDER),
    "agent": Example("agent", {"goal": "tea"}, AGENT),
}

Step = tuple[str, int]  # its state, and how often it began to execute
Outcome = tuple[str, Any, str, dict[str, Step]]  # of the workflow: state, result, reason; its steps by name


def walk(example: Example, moment: str, every: int) -> Iterator[str]:
    """Yield a line for each violation, and at last how many kills there were."""
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder), example) as server:
        expected = _finish(server, example)
    for number in count(1, every):
        with tempfile.TemporaryDirectory() as folder:
            server = _server(Path(folder), example)
            try:
                server.begin(
                    "tests.helpers.crashing",
                    str(server.database),
                    moment,
                    str(number),
                    example.target,
                    *example.sources,
                )
                if _ends_before_it_dies(server, example):
                    yield f"{(number - 1) // every} kills"
                    return
                server.start()
                if (found := _finish(server, example)) != expected:
                    yield f"killed {moment} commit {number}: {found}, without a kill {expected}"
            finally:
                server.kill()


def _server(folder: Path, example: Example) -> Server:
    return Server(
        folder, "--http", "local", "--workers", "1", "--drain", "1s", *example.sources, target=example.target or None
    )


def _ends_before_it_dies(server: Server, example: Example) -> bool:
    """Help the workflow on until it has ended, or the server is dead."""
    assert server.process is not None
    process = server.process
    ended: list[bool] = []

    def look() -> bool:
        ended[:] = [_help(server, example) is not None]
        return ended[0] or process.poll() is not None

    wait_until(look, "the workflow ends, or the scheduler", LIMIT)
    if ended[0]:
        return True
    assert server.ended() == -signal.SIGKILL, server.said
    return False


def _finish(server: Server, example: Example) -> Outcome:
    found: list[Outcome] = []

    def look() -> bool:
        if (outcome := _help(server, example)) is not None:
            found.append(outcome)
        return bool(found)

    wait_until(look, "the workflow ends", LIMIT)
    return found[0]


def _help(server: Server, example: Example) -> Outcome | None:
    """Submit the workflow unless it is there, answer its questions, send its hint. Return its outcome, if any yet."""
    try:
        with il.Client(f"unix:{server.http_socket}", patience="0s", first_contact="0s", timeout="5s") as client:
            run = client.get(client.submit(example.job, example.payload, idempotency_key=KEY).id)
            steps = {step.id.partition("@")[2]: step for step in client.runs(root=run.id) if step.id != run.id}
            if run.ended_at is None:
                for name, step in steps.items():
                    if step.state == "approval_required":
                        asyncio.run(_approve(server, step.id))
                    if name.startswith("event.") and step.ended_at is None:
                        client.send_event(run.id, "hint", {"text": "green"}, idempotency_key=KEY)
                return None
            begun = {name: [entry.after for entry in client.history(step.id)] for name, step in steps.items()}
            ends = {name: (str(step.state), begun[name].count(State.RUNNING)) for name, step in steps.items()}
            return str(run.state), run.result, (run.reason or "").replace(run.id, "RUN"), ends
    except (InterlockError, OSError):
        return None


async def _approve(server: Server, run_id: str) -> None:
    """Approve as somebody else than whoever submitted the run, which clients cannot."""
    connection = await connect(str(server.socket))
    try:
        await connection.ask(ApproveRun(0, run_id, "fine").by(actor="ann"))
    finally:
        await connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.workflow_walk", description=__doc__)
    parser.add_argument("--example", choices=EXAMPLES, help="only this one")
    parser.add_argument("--every", type=int, default=1, help="kill at each N-th commit only")
    given = parser.parse_args()
    hear_signals()
    violations = 0
    walks: list[tuple[str, str]] = [(name, moment) for name in EXAMPLES for moment in MOMENTS]
    for name, moment in walks:
        if given.example in (None, name):
            *wrong, kills = walk(EXAMPLES[name], moment, given.every)
            lines = [f"{name}, {moment} a commit: {kills}, {len(wrong)} violations", *wrong]
            sys.stdout.write("\n  ".join(lines) + "\n")
            sys.stdout.flush()
            violations += len(wrong)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
