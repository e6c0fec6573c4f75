"""Finding the processes that belong to a test by the folder they work in."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Found(NamedTuple):
    pid: int
    parent: int
    state: str
    command: str


def hear_signals() -> None:
    """Stop ignoring signals that whoever started this process in the background may ignore: every process that it
    starts would too."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def wait_until(condition: Callable[[], object], what: str, limit: float = 30.0) -> None:
    """Look again and again until it holds; raise after `limit` seconds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit:g}s: {what}")
        time.sleep(0.01)


def _read(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _status(pid: int) -> tuple[str, int]:
    """The state of a process and its parent; none when it is gone."""
    state, parent, *_ = _read(pid, "stat").rpartition(")")[2].split() or ("", "0")
    return state, int(parent)


def look(pid: int) -> Found | None:
    """What the system says of a process, or None when it is gone."""
    state, parent = _status(pid)
    return Found(pid, parent, state, _read(pid, "cmdline").strip()) if state else None


def descriptors(pid: int | str = "self") -> set[tuple[str, str]]:
    """The open descriptors of a process, by number, and what each leads to.

    Compare those of the test's own process with `<=`: garbage of an earlier test that is collected meanwhile closes
    some that were open before."""
    listed = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            listed.add((number, os.readlink(f"/proc/{pid}/fd/{number}")))
    return listed


def sockets(pid: int | str = "self") -> set[tuple[str, str]]:
    """The open sockets of a process."""
    return {(number, target) for number, target in descriptors(pid) if target.startswith("socket:")}


def alive(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.state not in "ZX"


def every_process() -> list[Found]:
    return [one for one in map(look, _pids()) if one is not None]


def processes_of(folder: Path) -> list[Found]:
    """Every living process that was started with this folder on its command line, in its environment, or as its own."""
    return [
        one for one in every_process() if one.pid != os.getpid() and one.state not in "ZX" and _belongs(one, folder)
    ]


def _belongs(process: Found, folder: Path) -> bool:
    text = str(folder)
    if text in process.command or text in _read(process.pid, "environ"):
        return True
    try:
        return os.readlink(f"/proc/{process.pid}/cwd").startswith(text)
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    status = {one: _status(one) for one in _pids()}
    return [one for one, (state, parent) in status.items() if parent == pid and state not in "ZX"]


def zombies() -> list[int]:
    """Children of this very process that have ended and were not waited for."""
    return [one for one in _pids() if _status(one) == ("Z", os.getpid())]
