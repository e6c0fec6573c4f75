"""A job whose result is its argument, and scanners of results that do everything a scanner should not."""

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import interlock as il

if "interlock.inspector.scan_process" in sys.orig_argv and Path("broken").exists():
    raise RuntimeError("this app cannot be imported")

app = il.App()


@app.job("say")
async def say(value: Any = None) -> Any:
    return value


@app.job("stream")
async def stream(ctx: il.Context, chunks: list[Any], folder: str = "", fails: bool = False) -> None:
    """Emit chunks; with a folder, end once a file is there."""
    for chunk in chunks:
        ctx.emit(chunk)
    while folder and not (Path(folder) / "held.go").exists():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.01)
    if fails:
        raise RuntimeError("after its chunks")


@app.job("mutter")
async def mutter(ctx: il.Context, line: str, value: Any = None) -> Any:
    ctx.log(line)
    ctx.progress(50, line)
    return value


RECEIVER = os.environ.get("RECEIVER", "http://127.0.0.1:9")
AFTER = il.Action(action="webhook", url=f"{RECEIVER}/end")


@app.job("leak", on_success=AFTER, on_failure=AFTER)
async def leak(times: int = 1) -> dict[str, str]:
    """Return what is not in its payload."""
    return {"text": "Falcon hunter2-" * times}


@app.job("opinion")
async def opinion() -> str:
    return "hunter2-" * 500


@app.job("checked", constraints=il.Constraints(checks=["opinion"]))
async def checked() -> None: ...


@app.scanner("names")
def names(text: str) -> list[tuple[int, int, str]]:
    return [(found.start(), found.end(), "name") for found in re.finditer("Ada|Grace", text)]


@app.scanner("trap")
def trap(text: str) -> bool:
    """Act on the first word."""
    sys.stdout.write(f"a scanner writes, and reads {sys.stdin.read()!r}\n")
    match text.split()[:1]:
        case ["hang"]:
            while True:
                time.sleep(1)
        case ["exit"]:
            os._exit(3)
        case ["leave"]:
            sys.exit(0)
        case ["grow"]:
            bytearray(1 << 42)
        case ["raise"]:
            raise ValueError(text)
        case ["wait"]:
            Path("scanning").touch()
            while not Path("go").exists():
                time.sleep(0.01)
    return False
