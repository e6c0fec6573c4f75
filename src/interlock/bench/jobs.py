"""The jobs that are measured: they do nothing, or say when they began."""

import time

from interlock.app import App

app = App()


@app.job("bench.noop", lane="bench")
async def noop() -> None:
    pass


@app.job("bench.began", lane="bench")
async def began() -> int:
    """Nanoseconds on the system's monotonic clock, which every process of the machine reads alike."""
    return time.monotonic_ns()
