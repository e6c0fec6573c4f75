"""Commands in processes that have the modules of the command line already, because they are forked from one that has.

Most of what a command costs is loading them, and the tests run hundreds. Run as: preloaded DESCRIPTOR."""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO, Any, NoReturn

LATER = ("importlib.metadata", "interlock.client.http.client", "pydantic.type_adapter", "typer.rich_utils", "uvloop")
"""what commands load only when they need it"""


class Preloaded:
    """The process that is forked; it ends when this is closed, or the process that has this is gone."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self, folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str], limit: float
    ) -> "subprocess.CompletedProcess[str]":
        with (
            tempfile.TemporaryFile() as request,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            request.write(json.dumps([str(folder), dict(environment), arguments]).encode())
            request.seek(0)
            status, theirs = socket.socketpair()
            with status:
                with theirs:
                    files = [one.fileno() for one in (request, output, errors, theirs)]
                    socket.send_fds(self._link, [b"!"], files)
                code = _ended(status, arguments, limit)
            return subprocess.CompletedProcess(arguments, code, _text(output), _text(errors))

    def close(self) -> None:
        self._link.close()
        self._process.wait()


def _ended(status: socket.socket, arguments: tuple[str, ...], limit: float) -> int:
    """The exit code, negative for a signal; which process it is is told first."""
    status.settimeout(limit)
    with status.makefile() as told:
        pid = told.readline()
        assert pid, "what commands are forked from has ended"
        try:
            return int(told.readline())
        except TimeoutError:
            os.kill(int(pid), signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, limit) from None


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


# ── the process itself ──────────────────────────────────────────────────────────────────────────────────────────────


def serve(link: socket.socket) -> bool:
    """True in each new process, which is to be a command now; False in this one, when nobody asks any more."""
    import interlock.cli

    commands = (module.name for module in walk_packages(interlock.cli.__path__, "interlock.cli."))
    for name in (*LATER, *commands):
        if not name.endswith(".__main__"):
            import_module(name)
    # The end of a process would else go through everything that is loaded, and copy it.
    gc.freeze()
    # What it forks is waited for by nobody here.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(link, 1, 4)
        if not asked:
            return False
        if os.fork() == 0:
            link.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _begin(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _begin(request: int, output: int, errors: int, status: int) -> bool:
    """Fork once more and stay to tell how that ends, so that several commands may run at the same time."""
    command = os.fork()
    if command != 0:
        os.write(status, b"%d\n" % command)
        _, code = os.waitpid(command, 0)
        with suppress(BrokenPipeError):  # nobody waits that long
            os.write(status, b"%d\n" % os.waitstatus_to_exitcode(code))
        os._exit(0)
    os.close(status)
    with os.fdopen(request, "rb") as file:
        _become(*json.load(file))
    for number, descriptor in ((1, output), (2, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return True


def _become(folder: str, environment: dict[str, str], arguments: list[Any]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder
    sys.argv = ["interlock", *arguments]


def _command() -> NoReturn:
    """End as Python does, but for the modules: clearing them would copy every page of the first process, which is four
    fifths of what a command costs."""
    try:
        runpy.run_module("interlock.cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
        # Whatever else ends a command shows a traceback, and is left to Python.
    assert isinstance(code, int), code
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if serve(socket.socket(fileno=int(sys.argv[1]))):
        _command()
