"""An app with services and a job, for programs that have a scheduler inside."""

import asyncio
import os
from pathlib import Path

import interlock as il
from tests.helpers.jobs import append

app = il.App()


@app.job("echo")
async def echo(value: int) -> int:
    return value


@app.job("tick", schedule=il.once(), payload={"value": 7})
async def tick(value: int) -> None:
    """Comes by itself, in whatever folder the scheduler has."""
    append(Path(os.environ["INTERLOCK_SOCKET"]).parent / "ticks", str(value))


@app.service("ticker")
async def ticker(context: il.ServiceContext) -> None:
    """Uses the scheduler that keeps it up, and notes what it is told."""
    folder = Path(os.environ["INTERLOCK_SOCKET"]).parent
    value = await (await app.submit("echo", {"value": 5})).result(30)
    append(folder / "notes", f"ticker start {os.getpid()} {context.resume_id} {value}")
    try:
        await asyncio.Event().wait()
    finally:
        append(folder / "notes", "ticker term")
