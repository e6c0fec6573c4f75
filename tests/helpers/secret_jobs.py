"""An app whose jobs are given secrets and are careless with them."""

import json
import os
from typing import Any
from urllib.parse import quote

import interlock as il

app = il.App()

PASSWORD = "hunter2 ü/\"'\n-tail"
"""what no log, event or error may have"""
TOKEN = "t0ken-by-name"


def spill(ctx: il.Context, password: str, token: str) -> None:
    for text in (password, repr(password), json.dumps({"a": password}), quote(password), token, "harmless"):
        ctx.log(f"line {text}")
    ctx.progress(50, f"progress {token}")


@app.job("careless.async", retry=il.Retry(max_retries=1, initial_delay="10ms"))
async def careless(ctx: il.Context, password: il.Secret, options: dict[str, Any]) -> None:
    spill(ctx, password.reveal(), options["token"])
    try:
        raise ValueError(f"cannot log in with {password.reveal()!r}")
    except ValueError as error:
        raise RuntimeError(f"token was {options['token']}") from error


@app.job("careless.thread")
def careless_thread(ctx: il.Context, password: il.Secret, options: dict[str, Any]) -> None:
    spill(ctx, password.reveal(), options["token"])
    raise il.Fatal(f"gave up with {password.reveal()} and {options['token']}")


@app.job("careless.result")
async def careless_result(password: il.Secret, options: dict[str, Any]) -> Any:
    return {"password": [password]}


@app.job("careful")
async def careful(ctx: il.Context, password: il.Secret, more: dict[str, Any]) -> list[Any]:
    """What it was given, and whether it came back from the checkpoint of an attempt that was killed."""
    if ctx.attempt == 1:
        ctx.checkpoint({"session": password})
        ctx.log(f"kept {password.reveal()}")
        os.kill(os.getpid(), 9)
    ctx.log(f"again {ctx.last_checkpoint['session'].reveal()}")
    return [type(password).__name__, password == ctx.last_checkpoint["session"], type(more["inner"][0]).__name__]


@app.job("environment")
async def environment() -> list[str]:
    return sorted(os.environ)


@app.job("changed")
async def before_the_change(key: il.Secret, keys: list[il.Secret]) -> None: ...


later = il.App()


@later.job("changed")
async def after_the_change(ctx: il.Context, key: str, keys: Any) -> None: ...


@app.job("renamed")
async def renamed(ctx: il.Context, pin: str, password: str) -> None:
    ctx.log(f"{pin} {password}")
    ctx.log("and more")
