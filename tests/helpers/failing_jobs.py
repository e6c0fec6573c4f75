"""Jobs that fail in ways that are told apart, and jobs that need the main thread of their process."""

import asyncio
import os
import signal
import threading
import time

import interlock as il

app = il.App()


class Busy(Exception):
    pass


class Wrong(ValueError):
    pass


def raise_named(kind: str) -> None:
    raise {"busy": Busy, "wrong": Wrong, "gone": ConnectionResetError}[kind](f"{kind} it is")


RETRY = il.Retry(max_retries=2, initial_delay="10ms", jitter=0.0, on=(Busy, "ValueError"), never=[Wrong])


@app.job("choosy", retry=RETRY)
async def choosy(kind: str) -> None:
    raise_named(kind)


@app.job("later", retry=il.Retry(max_retries=1, initial_delay="1h", on=[KeyError]))
def later(ctx: il.Context, delay: str) -> int:
    if ctx.attempt == 1:
        raise il.RetryAfter(delay, "the service asked for it")
    return ctx.attempt


@app.job("patient", retry=il.Retry(max_retries=5))
def patient(delay: str) -> None:
    raise il.RetryAfter(delay)


@app.job("secretive")
async def secretive(password: il.Secret) -> None:
    raise RuntimeError(f"cannot log in with {password.reveal()}")


class Rude(il.RetryAfter):
    def __init__(self) -> None:
        pass

    def __str__(self) -> str:
        raise RuntimeError("not even that")


@app.job("rude")
async def rude() -> None:
    raise Rude


# ── on the main thread ──────────────────────────────────────────────────────────────────────────────────────────────


def on_alarm(number: int, frame: object) -> None:
    raise TimeoutError("alarm")


def wait_for_alarm() -> None:
    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        time.sleep(60)
    finally:
        signal.signal(signal.SIGALRM, before)


@app.job("main.sync", processes=True)
def main_sync() -> list[object]:
    async def inner() -> bool:
        return threading.current_thread() is threading.main_thread()

    try:
        wait_for_alarm()
    except TimeoutError as error:
        return [asyncio.run(inner()), str(error), os.getpid()]
    return []


@app.job("main.async", processes=True)
async def main_async() -> list[object]:
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await heard.wait()
    asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    return [threading.current_thread() is threading.main_thread(), "heard", os.getpid()]


@app.job("main.waits", processes=True, grace="20s")
def main_waits(ctx: il.Context) -> None:
    ctx.progress(1, "waits")
    while not ctx.cancelled:
        time.sleep(0.001)
    raise RuntimeError(f"stopped: {ctx.stop_reason}")


@app.job("main.deaf", processes=True, grace="50ms")
def main_deaf(ctx: il.Context) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctx.progress(1, "waits")
    while True:
        time.sleep(1)


@app.job("main.forks", processes=True)
def main_forks() -> str:
    child = os.fork()
    if child == 0:
        return "the copy"
    os.waitpid(child, 0)
    return "the original"
