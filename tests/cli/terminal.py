"""A command in a terminal: what it draws, what is typed, how it ends."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from tests.helpers.processes import wait_until
from tests.helpers.server import environment

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    COMMAND: tuple[str, ...] = (sys.executable, "-m", "interlock.cli")

    def __init__(self, folder: Path, *arguments: str, **extra: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*self.COMMAND, *arguments],
            cwd=folder, env=environment(TERM="xterm-256color", LINES="50", **extra),
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the session's terminal
        )  # fmt: skip
        os.close(theirs)
        self.raw = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        found = b""
        while True:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # the terminal's way of saying that nobody writes to it any more
                return
            found += piece
            self.raw = found.decode(errors="replace").replace("\r\n", "\n")

    @staticmethod
    def plain(text: str) -> str:
        """Without colours and the moves of the cursor."""
        return ESCAPES.sub("", text)

    @property
    def text(self) -> str:
        return self.plain(self.raw)

    def wait_for(self, *words: str) -> None:
        try:
            wait_until(lambda: all(word in self.text for word in words), f"{words} are shown")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.text}") from None

    def enter(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        code = self._process.wait(60)
        self._reader.join(60)
        return code

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        os.close(self._ours)


def in_a_terminal(folder: Path, *arguments: str, **extra: str) -> str:
    """What a command that ends by itself writes."""
    with Terminal(folder, *arguments, **extra) as terminal:
        terminal.ended()
        return terminal.raw
