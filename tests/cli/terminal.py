"""A command in a terminal: what it draws, what is typed, how it ends."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from types import TracebackType

import pyte

from tests.helpers.processes import wait_until
from tests.helpers.server import environment

HOME = b"\x1b[H"
BACK = "\x1b[?1049l"  # leaves the screen of a program that fills it
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    COMMAND: tuple[str, ...] = (sys.executable, "-m", "interlock.cli")

    def __init__(self, folder: Path, *arguments: str, size: tuple[int, int] | None = None, **extra: str) -> None:
        """`size` is columns and lines; without it what is drawn goes by COLUMNS, and `screen` shows nothing useful."""
        self._ours, theirs = pty.openpty()
        self._screen = pyte.Screen(*(size or (200, 50)))
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        surroundings = environment(TERM="xterm-256color", LINES="50", **extra)
        if size is not None:
            surroundings = {name: one for name, one in surroundings.items() if name not in ("COLUMNS", "LINES")}
            self.resize(*size)
        self._process = subprocess.Popen(
            [*self.COMMAND, *arguments],
            cwd=folder, env=surroundings,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the session's terminal
        )  # fmt: skip
        os.close(theirs)
        self.raw = ""
        self._found = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # the terminal's way of saying that nobody writes to it any more
                return
            with self._lock:
                self._found += piece
                self._stream.feed(piece)
            self.raw = self._found.decode(errors="replace").replace("\r\n", "\n")

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            self._screen.resize(lines, columns)

    @property
    def screen(self) -> list[str]:
        """The lines that a person sees, without blanks at their ends."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    def wait_for_drawings(self, count: int) -> None:
        """Wait for `count` further drawings of the whole screen. Signal a resize each time, so that none is awaited."""
        end = self._found.count(HOME) + count + 1

        def drawn() -> bool:
            self._process.send_signal(signal.SIGWINCH)
            return self._found.count(HOME) >= end

        wait_until(drawn, "the screen is drawn again")

    @property
    def ghosts(self) -> list[str]:
        """Lines on the screen that differ from what the last two drawings leave on an empty one."""
        with self._lock:
            fresh = pyte.Screen(self._screen.columns, self._screen.lines)
            pyte.ByteStream(fresh).feed(HOME + HOME.join(self._found.split(HOME)[-2:]))
            pairs = zip(self._screen.display, fresh.display, strict=True)
            return [shown.rstrip() for shown, drawn in pairs if shown != drawn]

    def resize_everywhere(self) -> None:
        """Resize to all kinds of sizes, and to 80×24 in the end; no line of an earlier drawing may stay."""
        for size in ((80, 24), (160, 50), (40, 12), (20, 4), (1, 1), (120, 10), (80, 24)):
            self.resize(*size)
            self.wait_for_drawings(2)
            assert self.ghosts == [], size

    def wait_for_screen(self, *words: str) -> list[str]:
        """Wait until all of them are on the screen."""
        try:
            wait_until(lambda: all(word in "\n".join(self.screen) for word in words), f"{words} are on the screen")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *self.screen])) from None
        return self.screen

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

    def terminate(self) -> None:
        self._process.terminate()

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


def in_a_terminal(folder: Path, *arguments: str, size: tuple[int, int] | None = None, **extra: str) -> str:
    """What a command that ends by itself writes."""
    with Terminal(folder, *arguments, size=size, **extra) as terminal:
        terminal.ended()
        return terminal.raw
