"""The jobs the tests with real processes run. They speak with a test through files in the folder they are given."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import interlock as il

app = il.App()
QUICK = il.Retry(max_retries=3, initial_delay="20ms", jitter=0.0)


def append(path: Path, line: str) -> None:
    """Add a line in one write, so that lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def told_to_go(folder: str, name: str) -> bool:
    return (Path(folder) / f"{name}.go").exists()


async def go_ahead(folder: str, name: str) -> None:
    while True:
        if told_to_go(folder, name):
            return
        await asyncio.sleep(0.01)


# ── results and failures ────────────────────────────────────────────────────────────────────────────────────────────


@app.job("echo")
async def echo(value: Any = None) -> Any:
    return value


@app.job("echo.thread")
def echo_thread(value: Any = None) -> Any:
    return value


@app.job("echo.process", processes=True)
def echo_process(value: Any = None) -> Any:
    return [value, os.getpid()]


@app.job("family")
async def family(ctx: il.Context, depth: int = 0, tenant: str | None = None) -> dict[str, Any]:
    """Make runs: one itself, and one in a thread."""
    found: dict[str, Any] = {"run": ctx.run_id, "parent": ctx.parent, "tenant": ctx.tenant, "labels": ctx.labels}
    if depth:
        child = await app.submit("family", {"depth": depth - 1}, tenant=tenant)
        there: list[Any] = []
        thread = threading.Thread(target=lambda: there.append(asyncio.run(_make_one())))
        thread.start()
        await asyncio.to_thread(thread.join)
        found |= {"child": await child.result(), "in_thread": there[0]}
    return found


async def _make_one() -> Any:
    return await (await app.submit("family")).result()


@app.job("add")
async def add(left: int, right: int = 1) -> int:
    return left + right


@app.job("count")
async def count(ctx: il.Context, folder: str, name: str = "executions") -> int:
    append(Path(folder) / name, f"{ctx.run_id} {ctx.attempt}")
    return ctx.attempt


@app.job("variables")
async def variables() -> list[str]:
    """The variables of ours that a handler sees."""
    return sorted(name for name in os.environ if name.startswith("INTERLOCK_"))


@app.job("fail")
async def fail(text: str = "boom") -> None:
    raise RuntimeError(text)


@app.job("fail.thread")
def fail_thread(text: str = "boom") -> None:
    raise RuntimeError(text)


@app.job("flaky", retry=QUICK)
async def flaky(ctx: il.Context, failures: int) -> int:
    if ctx.attempt <= failures:
        raise RuntimeError(f"attempt {ctx.attempt}")
    return ctx.attempt


@app.job("flaky.slow", retry=il.Retry(max_retries=1, initial_delay="4s", jitter=0.0))
async def flaky_slow(ctx: il.Context, folder: str) -> int:
    append(Path(folder) / "attempts", f"{ctx.attempt} {time.time()}")
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt")
    return ctx.attempt


@app.job("fatal", retry=QUICK)
async def fatal() -> None:
    raise il.Fatal("never again")


@app.job("exit")
async def leave(code: int) -> None:
    raise SystemExit(code)


@app.job("exit.thread")
def leave_thread(code: int) -> None:
    raise SystemExit(code)


@app.job("exit.hard", max_crashes=1)
async def leave_hard(code: int) -> None:
    os._exit(code)


@app.job("unjson", retry=QUICK)
async def unjson() -> object:
    return object()


@app.job("chatty", retry=QUICK)
async def chatty(ctx: il.Context, folder: str, lines: int) -> int:
    """So many lines, then as many again once it is told to go; the first attempt fails after that."""
    for number in range(lines):
        ctx.log(f"attempt {ctx.attempt} line {number}")
    append(Path(folder) / "logged", str(ctx.attempt))
    await go_ahead(folder, f"attempt-{ctx.attempt}")
    for number in range(lines):
        ctx.log(f"attempt {ctx.attempt} more {number}")
    if ctx.attempt == 1:
        raise RuntimeError("once more")
    return ctx.attempt


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.job("segfault")
async def segfault(ctx: il.Context, folder: str, times: int = 99) -> int:
    """Dies for the first `times` attempts; notes the process it is in."""
    append(Path(folder) / "segfaults", f"{ctx.attempt} {os.getpid()}")
    if ctx.attempt <= times:
        os.kill(os.getpid(), signal.SIGSEGV)
    return ctx.attempt


@app.job("eat.memory")
def eat_memory(megabytes: int) -> int:
    return len(bytearray(megabytes * 1024 * 1024))


# ── work that takes as long as the test says ────────────────────────────────────────────────────────────────────────


@app.job("hold", max_crashes=10)
async def hold(ctx: il.Context, folder: str, name: str) -> int:
    """Run until told to go; notes its start, its end, and that it was stopped."""
    place = Path(folder)
    append(place / f"{name}.started", f"{ctx.attempt} {os.getpid()}")
    try:
        await go_ahead(folder, name)
    except asyncio.CancelledError:
        append(place / f"{name}.stopped", f"{ctx.attempt} {ctx.stop_reason}")
        raise
    append(place / f"{name}.ended", str(ctx.attempt))
    return ctx.attempt


@app.job("hold.thread", max_crashes=10)
def hold_thread(ctx: il.Context, folder: str, name: str) -> int:
    place = Path(folder)
    append(place / f"{name}.started", f"{ctx.attempt} {os.getpid()}")
    while not told_to_go(folder, name):
        if ctx.cancelled:
            append(place / f"{name}.stopped", f"{ctx.attempt} {ctx.stop_reason}")
            raise InterruptedError("asked to stop")
        time.sleep(0.01)
    append(place / f"{name}.ended", str(ctx.attempt))
    return ctx.attempt


@app.job("naps.thread")
def naps_thread() -> None:
    time.sleep(0.003)


@app.job("naps.async")
async def naps_async() -> None:
    await asyncio.sleep(0.003)


@app.job("moody.thread")
def moody_thread(folder: str, name: str, waits: bool = False) -> str:
    """Over at once, unless it is to wait to be told to go."""
    append(Path(folder) / f"{name}.started", str(os.getpid()))
    while waits and not (Path(folder) / f"{name}.go").exists():
        time.sleep(0.005)
    return str(os.getpid())


@app.job("timed.thread")
def timed_thread(folder: str, name: str, then: str = "") -> None:
    """Notes its thread in no time, and then does what it is to."""
    append(Path(folder) / f"{name}.thread", threading.current_thread().name)
    if then == "fork":
        fork(folder, name)
    elif then == "tell":
        append(Path(folder) / f"{name}.process", str(os.getpid()))
    while then == "wait" and not told_to_go(folder, name):
        time.sleep(0.01)


@app.job("timed.async")
async def timed_async(folder: str, name: str, then: str = "") -> None:
    is_copy = fork(folder, name)
    # The loop turns in the copy too.
    for _ in range(100 * is_copy):
        time.sleep(0.002)  # noqa: ASYNC251 - its timers are not to be relied on there
        await asyncio.sleep(0)


def fork(folder: str, name: str) -> bool:
    """Whether this is the copy. It goes on in both, as a handler does that forgets which of them it is."""
    if os.fork() != 0:
        return False
    append(Path(folder) / f"{name}.copy", str(os.getpid()))
    return True


@app.job("forks.twice")
def forks_twice(folder: str, name: str) -> None:
    """What a copy has opened must be open in a copy of it."""
    if os.fork() == 0:
        opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]
        if os.fork() == 0:
            append(Path(folder) / f"{name}.open", str(sum(is_open(one) for one in opened)))
        os._exit(0)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@app.job("keep.secret")
async def keep_secret(ctx: il.Context, value: il.Secret) -> None:
    tells_its_secret(ctx, value)


def tells_its_secret(ctx: il.Context, value: il.Secret) -> None:
    ctx.log(f"the value is {value.reveal()}")


@app.job("hold.process", processes=True, max_crashes=10)
def hold_process(ctx: il.Context, folder: str, name: str) -> int:
    return hold_thread(ctx, folder, name)


@app.job("block.loop", grace="200ms")
async def block_loop(folder: str, name: str) -> str:
    """Blocks the event loop of the process it is in."""
    append(Path(folder) / f"{name}.started", str(os.getpid()))
    while not told_to_go(folder, name):
        time.sleep(0.01)  # noqa: ASYNC251 - blocking the loop is what this job is for
    return "unblocked"


@app.job("busy")
def busy(folder: str, name: str) -> int:
    """Computes without a pause, so that nothing else in its process gets a turn easily."""
    append(Path(folder) / f"{name}.started", str(os.getpid()))
    rounds = 0
    while not told_to_go(folder, name):
        rounds += sum(range(20_000)) > 0
    return rounds


@app.job("stubborn", processes=True, grace="300ms")
async def stubborn(folder: str) -> None:
    """Starts a process, and will not stop for being asked or for TERM."""
    place = Path(folder)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, append, place / "stubborn.term", "TERM")
    child = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - it returns at once
    append(place / "stubborn.started", f"{os.getpid()} {child.pid}")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            append(place / "stubborn.asked", "asked")


# ── context and time limits ─────────────────────────────────────────────────────────────────────────────────────────


@app.job("stepwise", retry=QUICK)
async def stepwise(ctx: il.Context) -> dict[str, Any]:
    """Remembers how far it came, fails, and goes on from there."""
    before = ctx.last_checkpoint
    ctx.log(f"attempt {ctx.attempt}")
    ctx.checkpoint({"step": (before or {"step": 0})["step"] + 1})
    if ctx.attempt < 3:
        raise RuntimeError("not yet")
    return {"before": before, "now": ctx.last_checkpoint, "attempt": ctx.attempt, "cancelled": ctx.cancelled}


@app.job("progress")
async def progress(ctx: il.Context, folder: str, name: str) -> None:
    ctx.progress(42, "under way")
    ctx.log("a line", level="warning")
    ctx.emit({"word": 1})
    await go_ahead(folder, name)


@app.job("alone", constraints=il.Constraints(max_concurrent_runs=1), on_constraint_violation="skip")
async def alone(folder: str, name: str) -> None:
    await go_ahead(folder, name)


@app.job("last-words")
def last_words(ctx: il.Context) -> None:
    ctx.log("the last line")
    ctx.progress(100, "done")


@app.job("records")
async def records(ctx: il.Context, folder: str, name: str) -> None:
    """Records of every kind once it is told to go; it ends when it is told again."""
    await go_ahead(folder, name)
    for number in range(3):
        ctx.log(f"line {number}")
        ctx.checkpoint(number)
        ctx.progress(number, "under way")
    append(Path(folder) / f"{name}.recorded", "all")
    await go_ahead(folder, f"{name}-more")


@app.job("chatter")
async def chatter(ctx: il.Context, lines: int, size: int = 10) -> None:
    """Logs numbered lines, each filled up to a size."""
    for number in range(lines):
        ctx.log(f"{number} ".ljust(size, "x"))


@app.job("deadline", deadline="1h")
async def deadline(ctx: il.Context) -> float | None:
    return ctx.deadline


# ── what goes wrong in odd ways ─────────────────────────────────────────────────────────────────────────────────────


@app.job("fatal.surrogate")
def fatal_surrogate() -> None:
    raise il.Fatal("cannot open \udcff.txt")


class Mute(il.Fatal):
    """An exception that has no text."""

    def __str__(self) -> str:
        sys.exit("no text")


@app.job("fatal.mute")
async def fatal_mute() -> None:
    raise Mute


@app.job("fatal.mute.thread")
def fatal_mute_thread() -> None:
    raise Mute


@app.job("raises.with.note")
async def raises_with_note() -> None:
    error = ValueError("in line one\nin line two")
    error.add_note("see the manual")
    raise error


@app.job("raises.cancelled")
async def raises_cancelled() -> None:
    raise asyncio.CancelledError("by itself")


@app.job("raises.cancelled.thread")
def raises_cancelled_thread() -> None:
    raise asyncio.CancelledError("by itself")


@app.job("awaits.cancelled")
async def awaits_cancelled() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel("of its own")
    await task


@app.job("raises.group")
async def raises_group() -> None:
    raise ExceptionGroup("both", [ValueError("the first"), ExceptionGroup("inner", [TypeError("the second")])])


class Unbound:
    """A stand-in for something that is not there, as some frameworks have them."""

    @property  # type: ignore[misc] # that is the point
    def __class__(self) -> Any:
        raise RuntimeError("nothing is bound")


@app.job("returns.unbound")
def returns_unbound() -> Any:
    return Unbound()


@app.job("odd.log")
async def odd_log(ctx: il.Context) -> str:
    ctx.log("said \udcff", 20)  # type: ignore[arg-type]  # people mix the levels up
    ctx.progress(50, "half \udcff")
    return "fine"


@app.job("exit.task")
async def exit_task() -> None:
    """Ends the event loop from a task of its own, which no handler can catch."""

    async def leave() -> None:
        sys.exit(2)

    task = asyncio.get_running_loop().create_task(leave())
    await asyncio.wait([task])
    await asyncio.Event().wait()


@app.job("forks")
async def forks() -> str:
    if os.fork() == 0:
        return "the copy"
    return "the original"


@app.job("returns.coroutine")
def returns_coroutine() -> Any:
    return echo(1)


@app.job("submits.blocking")
def submits_blocking(times: int) -> list[str]:
    """A blocking handler that uses a loop of its own for each submit."""

    async def submit() -> str:
        return (await app.submit("echo", {"value": 1})).id

    return [asyncio.run(submit()) for _ in range(times)]


@app.job("leaves.process", processes=True)
def leaves_process(ctx: il.Context, folder: str, name: str) -> None:
    """Starts a process, and ends in good order when it is asked to, without ending what it has started."""
    started = subprocess.Popen(["sleep", "600"])
    (Path(folder) / name).write_text(str(started.pid))
    while not ctx.cancelled:
        time.sleep(0.01)


@app.job("innocent", max_crashes=1)
async def innocent(folder: str, name: str) -> str:
    append(Path(folder) / name, "began")
    await go_ahead(folder, name)
    return "done"


@app.job("deaf", grace="100ms")
def deaf(folder: str, name: str) -> None:
    (Path(folder) / name).write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)
