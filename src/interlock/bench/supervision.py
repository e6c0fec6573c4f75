"""Supervision: Interlock beside supervisord and circus, each keeping the same small processes up, one at a time."""

import importlib.metadata
import importlib.util
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from interlock.bench import processes
from interlock.bench.measures import median, percentile
from interlock.model.error import InterlockError

CHILDREN = 50
KILLS = 50
KILLS_OF_A_PEER = 10
IDLE = 5.0
"""seconds for which nothing happens while processor time is counted"""
REST = 2.0
"""seconds after the last start until they begin; supervisord watches a start for one"""
PACE = 0.12
"""seconds between two kills on average"""
PACE_OF_A_PEER = 1.6
"""the same for one that looks only now and then: supervisord does so once a second, and a death that follows sooner
would have it look at the one before"""
STOP_LIMIT = 10.0
LIMIT = 60.0
PROGRAM = """\
echo "$1 $$" > {pipe}
exec sleep 1000
"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement of one supervisor found."""

    restarts: list[float]
    """seconds from killing a child until its replacement runs"""
    memory: int
    """bytes that the supervisor's own processes have, shared ones in proportion"""
    processor: float
    """seconds of processor time that they use in a second of doing nothing"""


class Supervised(msgspec.Struct, kw_only=True):
    """The same of all rounds, and how Interlock stands to it."""

    version: str
    kills: int
    restart_p50_ms: float
    restart_p99_ms: float
    memory_mib: float
    idle_us_per_second: float
    interlock_restarts_faster: float = 1.0
    interlock_memory_ratio: float = 1.0
    interlock_idle_ratio: float = 1.0


class Supervision(msgspec.Struct, kw_only=True):
    children: int
    idle_seconds: float
    interlock: Supervised
    supervisord: Supervised | None
    circus: Supervised | None


def _interlock(folder: Path, program: Path, children: int) -> list[str]:
    return [sys.executable, "-m", "interlock.bench.supervised", str(program), str(children)]


def _supervisord(folder: Path, program: Path, children: int) -> list[str]:
    """What is on in the settings that it prints as a sample: supervisorctl can reach it."""
    lines = ["[supervisord]", "nodaemon=true", f"logfile={folder}/supervisord.log", f"pidfile={folder}/supervisord.pid"]
    lines += [f"childlogdir={folder}", "[unix_http_server]", f"file={folder}/supervisord.sock"]
    lines += ["[rpcinterface:supervisor]"]
    lines += ["supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface"]
    for number in range(children):
        lines += [f"[program:p{number}]", f"command=/bin/sh {program} {number}"]
    settings = folder / "supervisord.conf"
    settings.write_text("\n".join(lines) + "\n")
    return [sys.executable, "-m", "supervisor.supervisord", "-c", str(settings)]


def _circus(folder: Path, program: Path, children: int) -> list[str]:
    lines = ["[circus]", f"endpoint=ipc://{folder}/circus", f"pubsub_endpoint=ipc://{folder}/circus-events"]
    for number in range(children):
        lines += [f"[watcher:p{number}]", f"cmd=/bin/sh {program} {number}"]
    settings = folder / "circus.ini"
    settings.write_text("\n".join(lines) + "\n")
    return [sys.executable, "-m", "circus.circusd", str(settings)]


SUPERVISORS: dict[str, tuple[str, Callable[[Path, Path, int], list[str]]]] = {
    "interlock": ("interlock", _interlock),
    "supervisord": ("supervisor", _supervisord),
    "circus": ("circus", _circus),
}
"""each with its package and how it is started; all as they come, but for where they write"""


def installed(name: str) -> bool:
    return importlib.util.find_spec(SUPERVISORS[name][0]) is not None


def measure(
    name: str,
    folder: Path,
    *,
    children: int = CHILDREN,
    idle: float = IDLE,
    rest: float = REST,
    kills: int | None = None,
) -> Kept:
    """One supervisor with so many children: its memory, then its idle processor time, then restarts."""
    with _running(name, folder, children) as keeper:
        keeper.until_all_run()
        time.sleep(rest)
        own = keeper.own_processes()
        memory = sum(processes.memory(pid) for pid in own)
        begun, before = time.monotonic(), sum(processes.processor(pid) for pid in own)
        time.sleep(idle)
        used = sum(processes.processor(pid) for pid in own) - before
        processor = used / (time.monotonic() - begun)
        most, pace = (KILLS, PACE) if name == "interlock" else (KILLS_OF_A_PEER, PACE_OF_A_PEER)
        return Kept(
            restarts=keeper.kill_each(most if kills is None else kills, pace), memory=memory, processor=processor
        )


class _Keeper:
    def __init__(self, name: str, process: "subprocess.Popen[bytes]", pipe: int, log: Path, children: int) -> None:
        self._name = name
        self._process = process
        self._pipe = pipe
        self._log = log
        self._buffer = b""
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self.pids: dict[int, int] = {}
        """of each child, the process that runs now"""
        self._children = children

    def until_all_run(self) -> None:
        end = time.monotonic() + LIMIT
        while len(self.pids) < self._children:
            self._hear(time.monotonic() + 0.1)
            if self._process.poll() is not None or time.monotonic() > end:
                raise InterlockError(f"bench: {self._name} did not start its children{self._last_words()}")

    def kill_each(self, kills: int, pace: float) -> list[float]:
        """One after the other, at an uneven pace that does not wait for the replacement: one that only looks now and
        then is hit at any moment between two looks."""
        chance = random.Random()
        killed: dict[int, float] = {}
        took: list[float] = []
        number, when, end = 0, time.monotonic(), time.monotonic() + LIMIT
        while number < kills or killed:
            for one, at in self._hear(when if number < kills else end):
                if one in killed:
                    took.append(at - killed.pop(one))
            now = time.monotonic()
            if number < kills and now >= when:
                killed[number] = now
                os.kill(self.pids[number], signal.SIGKILL)
                number += 1
                when += pace * chance.uniform(0.7, 1.3)
            elif now >= end:
                raise InterlockError(f"bench: {self._name} did not restart {len(killed)} children{self._last_words()}")
        return took

    def _hear(self, until: float) -> list[tuple[int, float]]:
        """Which children have begun, and when; waits for one until then."""
        if not self._poll.poll(max(0.0, until - time.monotonic()) * 1000):
            return []
        at = time.monotonic()
        *lines, self._buffer = (self._buffer + os.read(self._pipe, 65536)).split(b"\n")
        heard = []
        for line in lines:
            number, pid = map(int, line.split())
            self.pids[number] = pid
            heard.append((number, at))
        return heard

    def own_processes(self) -> list[int]:
        """The supervisor and what belongs to it: all below it but its children."""
        return processes.tree(self._process.pid, set(self.pids.values()))

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1]}" if said else ""


@contextmanager
def _running(name: str, folder: Path, children: int) -> Iterator[_Keeper]:
    with tempfile.TemporaryDirectory(prefix="kept-", dir=folder) as place:
        # A folder of its own, because some leave their sockets behind.
        with _started(name, Path(place), children) as keeper:
            yield keeper


@contextmanager
def _started(name: str, folder: Path, children: int) -> Iterator[_Keeper]:
    pipe, program, log = folder / "started", folder / "child.sh", folder / "output"
    os.mkfifo(pipe)
    program.write_text(PROGRAM.format(pipe=pipe))
    # Open for both: it never ends for want of a writer.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        with log.open("wb") as output:
            command = SUPERVISORS[name][1](folder, program, children)
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                preexec_fn=processes.with_parent(),
            )
        keeper = _Keeper(name, process, descriptor, log, children)
        try:
            yield keeper
        finally:
            # Circus does not hear it while it restarts something, and is killed then.
            process.terminate()
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _end_left_over(keeper.pids.values(), program)
    finally:
        os.close(descriptor)


def _end_left_over(pids: Iterable[int], program: Path) -> None:
    """What a supervisor that had to be killed has left behind."""
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if command.startswith(b"sleep\0") or str(program).encode() in command:
                os.kill(pid, signal.SIGKILL)


def summary(found: Mapping[str, Sequence[Kept]], children: int = CHILDREN, idle: float = IDLE) -> Supervision:
    """All rounds of those that were measured, Interlock among them."""
    ours = found["interlock"]
    return Supervision(
        children=children,
        idle_seconds=idle,
        interlock=_joined("interlock", ours, ours),
        supervisord=_joined("supervisord", found["supervisord"], ours) if "supervisord" in found else None,
        circus=_joined("circus", found["circus"], ours) if "circus" in found else None,
    )


def _joined(name: str, rounds: Sequence[Kept], ours: Sequence[Kept]) -> Supervised:
    p50, p99, memory, processor = _middle(rounds)
    our_p50, _, our_memory, our_processor = _middle(ours)
    return Supervised(
        version=importlib.metadata.version(SUPERVISORS[name][0]),
        kills=sum(len(one.restarts) for one in rounds),
        restart_p50_ms=round(p50 * 1000, 2),
        restart_p99_ms=round(p99 * 1000, 2),
        memory_mib=round(memory / 2**20, 1),
        idle_us_per_second=round(processor * 1e6, 1),
        interlock_restarts_faster=round(p50 / our_p50, 1),
        interlock_memory_ratio=round(our_memory / memory, 2),
        interlock_idle_ratio=round(our_processor / processor, 3) if processor else 1.0,
    )


def _middle(rounds: Sequence[Kept]) -> tuple[float, float, float, float]:
    """Restarts of all rounds together, because the rare ones are looked for; medians of the rest."""
    restarts = [took for one in rounds for took in one.restarts]
    return (
        median(restarts),
        percentile(restarts, 0.99),
        median([one.memory for one in rounds]),
        median([one.processor for one in rounds]),
    )


def rows(figures: Supervision) -> Iterator[tuple[str, str, str]]:
    """What, figure and ratio, as the table has them."""
    ours = figures.interlock
    peers: list[tuple[str, Supervised]] = []
    missing: list[str] = []
    for name, peer in (("supervisord", figures.supervisord), ("circus", figures.circus)):
        if peer is None:
            missing.append(name)
        else:
            peers.append((f"  {name} {peer.version}", peer))
    yield "child killed to running again, p50", f"{ours.restart_p50_ms:,.1f} ms", "1"
    for label, peer in peers:
        yield label, f"{peer.restart_p50_ms:,.1f} ms", f"Interlock is {peer.interlock_restarts_faster:,}x"
    yield "the same, p99", f"{ours.restart_p99_ms:,.1f} ms", ""
    for label, peer in peers:
        yield label, f"{peer.restart_p99_ms:,.1f} ms", ""
    yield f"memory of a supervisor of {figures.children}", f"{ours.memory_mib} MiB", "1"
    for label, peer in peers:
        yield label, f"{peer.memory_mib} MiB", f"Interlock has {peer.interlock_memory_ratio} of that"
    yield "its processor time when idle", f"{ours.idle_us_per_second:,} µs/s", "1"
    for label, peer in peers:
        yield label, f"{peer.idle_us_per_second:,} µs/s", f"Interlock takes {peer.interlock_idle_ratio} of that"
    for name in missing:
        yield f"supervision by {name}", "not installed", ""
