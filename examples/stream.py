"""A stream of work to watch: one job keeps submitting, the others do what jobs do — succeed, fail, retry, take long.

Run it with `make run`, or: interlock up -A examples.stream:app --submit demo.stream
"""

import asyncio
import random
import time

import interlock as il

app = il.App()


@app.job("demo.stream", max_crashes=1000)
async def stream(ctx: il.Context, per_second: int = 40) -> int:
    """Submit a mix of work until the scheduler stops; after a crash the next attempt counts on from the checkpoint."""
    submitted = ctx.last_checkpoint or 0
    while True:
        numbers = range(submitted, submitted + max(1, per_second // 4))
        # With a key for each, a submit may be repeated: by itself when the scheduler dies, and by the next attempt.
        batch = [il.run(*some_work(number), idempotency_key=f"{ctx.run_id}-{number}") for number in numbers]
        try:
            await app.submit_many(batch)
        except il.Draining:
            return submitted
        submitted += len(batch)
        ctx.checkpoint(submitted)
        ctx.progress(min(99, submitted / 1000), f"{submitted} submitted")
        await asyncio.sleep(0.25)


def some_work(number: int) -> tuple[str, dict[str, object]]:
    """The same for the same number, or its key would not fit it."""
    dice = random.Random(number)
    match dice.randrange(15):
        case 0:
            return "demo.slow", {"seconds": dice.uniform(0.1, 1.5)}
        case 1:
            return "demo.count", {"to": 200_000}
        case 2 | 3 | 4:
            return "demo.flaky", {"luck": 0.6}
        case _:
            return "demo.greet", {"name": f"number {number}"}


@app.job("demo.greet")
async def greet(name: str = "world") -> str:
    return f"hello {name}"


@app.job("demo.slow", lane="cron")
def slow(ctx: il.Context, seconds: float) -> float:
    """A blocking function: it runs in a thread, and looks whether it should stop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.05)
    return seconds


@app.job("demo.flaky", retry=il.Retry(max_retries=3, initial_delay="200ms"))
async def flaky(ctx: il.Context, luck: float) -> str:
    if random.random() > luck:
        raise RuntimeError(f"no luck in attempt {ctx.attempt}")
    return "lucky"


@app.job("demo.count", processes=True)
def count(to: int) -> int:
    """CPU-bound, in a process of its own."""
    return sum(range(to))
