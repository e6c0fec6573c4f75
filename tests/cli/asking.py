"""Commands that ask a server."""

import json
import subprocess
from typing import Any

from tests.cli.terminal import Terminal, in_a_terminal
from tests.helpers.server import Server, interlock


def ask(server: Server, *arguments: str, **extra: str) -> "subprocess.CompletedProcess[str]":
    return interlock(server.folder, *arguments, **extra)


def rows(server: Server, *arguments: str) -> list[list[str]]:
    """The fields that a command pipes."""
    ended = ask(server, *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return [line.split("\t") for line in ended.stdout.splitlines()]


def drawn(server: Server, *arguments: str, size: tuple[int, int] = (80, 24)) -> list[str]:
    """The lines that a command draws in a terminal."""
    text = Terminal.plain(in_a_terminal(server.folder, *arguments, size=size))
    return [line.rstrip() for line in text.splitlines()]


def printed(server: Server, *arguments: str) -> Any:
    """The JSON that a command prints."""
    ended = ask(server, *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def refused(server: Server, *arguments: str, exit_code: int, says: str, code: str) -> None:
    ended = ask(server, *arguments)
    assert ended.stderr.startswith("error: ")
    assert says in ended.stderr
    assert ended.stderr.endswith(f" [{code}]\n")
    assert (ended.stderr.count("\n"), ended.stdout, ended.returncode) == (1, "", exit_code)


def detail(server: Server, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = printed(server, "show", run_id, "--json")["run"]
    return found
