"""Jobs that emit chunks."""

import asyncio
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import interlock as il
from interlock.wire.message import Leaving

app = il.App()
LONG = 32 * 1024  # bytes that a chunk may have


@app.job("emit")
async def emit(ctx: il.Context, chunks: list[Any]) -> int:
    for chunk in chunks:
        ctx.emit(chunk)
    ctx.log("a line of the log")
    return len(chunks)


@app.job("emit.blocking")
def emit_blocking(ctx: il.Context, chunks: list[Any]) -> int:
    for chunk in chunks:
        ctx.emit(chunk)
    return len(chunks)


@app.job("emit.isolated", processes=True)
def emit_isolated(ctx: il.Context, chunks: list[Any]) -> int:
    process = get_context("fork").Process(target=ctx.emit, args=["forked"])
    process.start()
    process.join()
    for chunk in chunks:
        ctx.emit(chunk)
    return len(chunks)


@app.job("emit.forked")
def emit_forked(ctx: il.Context, password: str) -> str:
    """Emit the most that a chunk may have, which masking makes larger, and send what no executor understands."""
    for target, argument in ((ctx.emit, password * (LONG // len(password) - 1)), (ctx._send, Leaving())):
        process = get_context("fork").Process(target=target, args=[argument])
        process.start()
        process.join()
    ctx.emit("after")
    return "done"


@app.job("emit.on")
async def emit_on(ctx: il.Context, folder: str, name: str) -> int:
    """Emit numbers until a file says that it is enough."""
    number = 0
    while not (Path(folder) / f"{name}.go").exists():
        ctx.emit(number)
        number += 1
        await asyncio.sleep(0.001)
    return number


@app.job("emit.and.wait")
def emit_and_wait(ctx: il.Context, chunks: list[Any], folder: str, name: str) -> None:
    for chunk in chunks:
        ctx.emit(chunk)
    while not (Path(folder) / f"{name}.go").exists():
        time.sleep(0.01)


@app.job("emit.again", retry=il.Retry(max_retries=1, initial_delay="10ms", jitter=0.0))
async def emit_again(ctx: il.Context) -> None:
    ctx.emit(f"attempt {ctx.attempt}")
    ctx.emit("and more")
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt")


@app.job("emit.many")
async def emit_many(ctx: il.Context, count: int, size: int) -> None:
    for number in range(count):
        ctx.emit(f"{number:<{size}}")


@app.job("emit.wrong")
async def emit_wrong(ctx: il.Context) -> list[str]:
    """Emit what cannot be a chunk; return the errors."""
    errors = []
    for chunk in ({1, 2}, {"deep": [object()]}, float("nan"), "x" * LONG):
        try:
            ctx.emit(chunk)
        except il.InterlockError as error:
            errors.append(f"{type(error).__name__}: {error}")
    ctx.emit("x" * (LONG - 2))
    return errors


@app.job("emit.secret")
async def emit_secret(ctx: il.Context, password: str, pin: il.Secret) -> None:
    ctx.emit(f"the password is {password}")
    ctx.emit({"found": [password], password: 1, "pin": pin})
