"""Supervision: Interlock beside supervisord and circus, each keeping the same small processes up, one at a time."""

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import msgspec

from bench import contest, installed, processes
from interlock.bench.report import ReportRow, percentile, say
from interlock.bench.server import started
from interlock.error import InterlockError

CHILDREN = 50
KILLS = 50
KILLS_OF_A_PEER = 10
IDLE = 5.0  # seconds for which nothing happens while processor time is counted
REST = 2.0  # seconds after the last start until they begin; supervisord watches a start for one
PACE = 0.12  # seconds between two kills on average
PACE_OF_A_PEER = 1.6
"""the same for one that looks only now and then: supervisord does so once a second, and a death that follows sooner
would have it look at the one before"""
LIMIT = 60.0
PROGRAM = """\
echo "$1 $$" > {pipe}
exec sleep 1000
"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one supervisor."""

    restarts: list[float]  # seconds from killing a child until its replacement runs
    memory: int  # bytes of the supervisor's own processes, shared ones in proportion
    processor: float  # seconds of processor time that they use in a second of doing nothing


METRICS = {
    "restart_p50_ms": "child killed to running again, p50, ms",
    "restart_p99_ms": "child killed to running again, p99, ms",
    "memory_mib": "memory of the supervisor, MiB",
    "idle_us_per_second": "its processor time when idle, µs/s",
}


def _interlock(folder: Path, program: Path, children: int) -> list[str]:
    return [sys.executable, "-P", str(Path(__file__).with_name("supervised.py")), str(program), str(children)]


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


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, dict[str, float]]]:
    found: dict[str, list[Kept]] = {name: [] for name, (package, _) in SUPERVISORS.items() if installed(package)}
    for number in range(rounds):
        for name, taken in found.items():
            taken.append(measure(name, folder))
            say(f"round {number + 1}: supervision by {name}: {joined(taken[-1:])}")
    figures = {name: joined(taken) for name, taken in found.items()}
    missing = [name for name in SUPERVISORS if name not in found]
    return list(contest.rows(f"supervision of {CHILDREN}", METRICS, figures, missing)), figures


def joined(rounds: Sequence[Kept]) -> dict[str, float]:
    """Restarts of all rounds together, because the rare ones are looked for; medians of the rest."""
    restarts = [took for one in rounds for took in one.restarts]
    return {
        "kills": len(restarts),
        "restart_p50_ms": round(median(restarts) * 1000, 2),
        "restart_p99_ms": round(percentile(restarts, 0.99) * 1000, 2),
        "memory_mib": round(median(one.memory for one in rounds) / 2**20, 1),
        "idle_us_per_second": round(median(one.processor for one in rounds) * 1e6, 1),
    }


def measure(
    name: str,
    folder: Path,
    *,
    children: int = CHILDREN,
    idle: float = IDLE,
    rest: float = REST,
    kills: int | None = None,
) -> Kept:
    """One supervisor with its children: its memory, then its idle processor time, then restarts."""
    with _running(name, folder, children) as keeper:
        keeper.until_all_run()
        time.sleep(rest)
        used = processes.watch(keeper.own_processes(), idle)
        most, pace = (KILLS, PACE) if name == "interlock" else (KILLS_OF_A_PEER, PACE_OF_A_PEER)
        restarts = keeper.kill_each(most if kills is None else kills, pace)
        return Kept(restarts=restarts, memory=used.memory, processor=used.processor / (used.end - used.start))


class _Keeper:
    def __init__(self, name: str, process: "subprocess.Popen[bytes]", pipe: int, log: Path, children: int) -> None:
        self._name = name
        self._process = process
        self._pipe = pipe
        self._log = log
        self._buffer = b""
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self.pids: dict[int, int] = {}  # of each child, the process that runs now
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
    # A folder of its own, because some leave their sockets behind.
    with tempfile.TemporaryDirectory(prefix="kept-", dir=folder) as temporary:
        place = Path(temporary)
        pipe, program, log = place / "started", place / "child.sh", place / "output"
        os.mkfifo(pipe)
        program.write_text(PROGRAM.format(pipe=pipe))
        # Open for both: it never ends for want of a writer.
        descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        pids: dict[int, int] = {}
        try:
            command = SUPERVISORS[name][1](place, program, children)
            with log.open("wb") as output:
                # Circus does not hear its end while it restarts something, and is killed then.
                with started(
                    command, signal.SIGTERM, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=place
                ) as process:
                    keeper = _Keeper(name, process, descriptor, log, children)
                    pids = keeper.pids
                    yield keeper
        finally:
            os.close(descriptor)
            _end_left_over(pids.values(), program)


def _end_left_over(pids: Iterable[int], program: Path) -> None:
    """Kill the children of a supervisor that had to be killed."""
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if command.startswith(b"sleep\0") or str(program).encode() in command:
                os.kill(pid, signal.SIGKILL)
