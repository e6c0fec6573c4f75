"""`interlock up` as a real process, with a folder of its own for database and socket."""

import asyncio
import atexit
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from interlock.bench.server import with_parent
from tests.helpers.http import Http
from tests.helpers.preloaded import Preloaded
from tests.helpers.processes import children_of, processes_of, wait_until

ROOT = Path(__file__).resolve().parents[2]
JOBS = "tests.helpers.jobs:app"


def environment(**extra: str) -> dict[str, str]:
    """What a command is started with: this interpreter's, without settings of ours, and these sources and tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    # Unbuffered, Python drops the rest of a write that a signal interrupts: a drawing then ends in the middle.
    kept.pop("PYTHONUNBUFFERED", None)
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "200"} | extra


def interlock(folder: Path, *arguments: str, **extra: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that ends by itself."""
    if all(name.startswith(("INTERLOCK_", "_INTERLOCK_", "COMP_")) for name in extra):
        return _preloaded().run(folder, arguments, environment(**extra), 60)
    # Some variables matter to Python, or to libraries while they are loaded.
    return subprocess.run(
        [sys.executable, "-m", "interlock.cli", *arguments],
        cwd=folder,
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@cache
def _preloaded() -> Preloaded:
    """One for all tests of this process."""
    started = Preloaded(environment())
    atexit.register(started.close)
    return started


class Command:
    """A command that goes on; what it says is kept in a file of the folder."""

    def __init__(self, folder: Path, *arguments: str, name: str) -> None:
        self.folder = folder
        self.arguments = arguments
        self.output = folder / f"{name}.log"
        self.extra: dict[str, str] = {}
        """more of the environment"""
        self.leads_group = False
        """whether it has a process group of its own"""
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *arguments: str) -> None:
        assert self.process is None
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *(arguments or self.arguments)],
                cwd=self.folder,
                env=environment(**self.extra),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0 if self.leads_group else None,
                preexec_fn=with_parent(),
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def said(self) -> str:
        return self.output.read_text()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ended(self, limit: float = 30.0) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        code = self.process.wait(limit)
        self.process = None
        return code

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.send(signal.SIGKILL)
            self.ended()

    def stop(self) -> int:
        """As with Ctrl-C."""
        self.send(signal.SIGINT)
        return self.ended()


class Server(Command):
    def __init__(self, folder: Path, *options: str, target: str | None = JOBS) -> None:
        self.database = folder / "interlock.db"
        self.socket = folder / "interlock.db.sock"
        self.http_socket = folder / "interlock.db.http"
        if "--http" not in options:
            options = ("--http", "off", *options)
        if "--drain" not in options:
            options = ("--drain", "5s", *options)
        self._over_tcp = options[options.index("--http") + 1] not in ("off", "local")
        self._said_before = 0
        app = () if target is None else ("-A", target)
        arguments = ("interlock.cli", "up", *app, "--db", str(self.database), *options)
        super().__init__(folder, *arguments, name="server")

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.process is not None and kind is None:
            assert self.stop() == 0, self.said
        self.kill()

    def start(self, *arguments: str) -> None:
        """Start and wait until it answers; `arguments` run something else in its place."""
        self._said_before = len(self.said) if self.output.exists() else 0
        self.begin(*arguments)
        wait_until(self._answers, "the scheduler answers")

    async def restart(self) -> None:
        """kill -9 and start again, while the event loop of the test goes on and sees it happen."""
        self.kill()
        await asyncio.to_thread(self.start)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}: {self.said}")
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(self.socket))
            return not self._over_tcp or self._served() is not None
        return False

    def _served(self) -> str | None:
        found = re.search(r"interlock: .*(http://[^\s\"]+)", self.said[self._said_before :], re.MULTILINE)
        return None if found is None else found[1]

    @property
    def url(self) -> str:
        """Where it serves HTTP over TCP, as it said at its start."""
        url = self._served()
        assert url is not None, self.said
        return url

    @property
    def http(self) -> Http:
        """A way to ask it over TCP."""
        return Http(self.url)

    @property
    def local(self) -> Http:
        """A way to ask it over its Unix socket, as its owner."""
        return Http(self.http_socket)

    def gateway(self) -> int:
        """The process that serves HTTP, once there is one."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [one.pid for one in processes_of(self.folder) if "interlock.wiring.gateway:serve" in one.command]
            return len(found) == 1

        wait_until(look, "there is a gateway process")
        return found[0]

    def workers(self) -> list[int]:
        """The worker processes, those of an earlier start included."""
        return [one.pid for one in processes_of(self.folder) if "interlock.wiring.worker:run_worker" in one.command]

    def own_workers(self) -> list[int]:
        mine = set(tree_of(self.pid))
        return [pid for pid in self.workers() if pid in mine]

    def wait_for_strays(self) -> None:
        """Until the workers of earlier starts have left."""
        wait_until(lambda: self.own_workers() == self.workers(), "workers of earlier starts have left")


def tree_of(pid: int) -> list[int]:
    """A process and everything below it."""
    return [pid, *(below for child in children_of(pid) for below in tree_of(child))]
