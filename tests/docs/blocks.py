"""The examples of a document: its fenced blocks, in order, and a way to run them."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from interlock.bench.server import with_parent

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:8420"
"""where the documents say that HTTP is"""
GOING_TOGETHER = "trap 'trap - TERM; kill 0' TERM\n"
"""a script that is ended takes along what it has started"""


class Block(NamedTuple):
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file it is to be put into, if its first line names one: `# jobs.py`, `# services/web.yaml`."""
        found = re.match(r"# ([a-z_/]+\.(?:py|yaml))\n", self.text)
        return None if found is None else found[1]


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text()
    return [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)]


def of_language(document: str, language: str) -> list[Block]:
    return [block for block in blocks(document) if block.language == language]


def free_address() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def run_shell(script: str, folder: Path, limit: float = 120.0, shell: tuple[str, ...] = ("bash",)) -> str:
    """What a script prints, with HTTP at a port that is free; it must end well, and leave nothing running.

    Nothing of the machine it runs on matters but the commands of this environment."""
    address = free_address()
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    environment = {"PATH": path, "HOME": str(folder), "INTERLOCK_HTTP": address, "COLUMNS": "200", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        [*shell, "-c", GOING_TOGETHER + script.replace(ADDRESS, address)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=with_parent(),
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    assert process.returncode == 0, said
    return said
