"""The measured jobs: they do nothing, or return when they began."""

import time

from interlock.app import App

app = App()


@app.job("bench.noop", lane="bench", sessions={"debounce": 0})
async def noop() -> None:
    pass


@app.job("bench.began", lane="bench")
async def began() -> int:
    """Return nanoseconds of the monotonic clock, which is the same in every process of the machine."""
    return time.monotonic_ns()


@app.job("bench.text", lane="bench")
async def text() -> dict[str, str]:
    """Return 1 KiB of plain text."""
    return {"text": "The quick brown fox jumps over the lazy dog. " * 22}
