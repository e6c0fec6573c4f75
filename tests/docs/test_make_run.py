"""`make run` in a fresh clone: it shows work, says what to try, and what it says works as it stands."""

import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

from tests.cli.terminal import Terminal
from tests.docs.blocks import ROOT, free_address
from tests.docs.test_tour import like_a_clone
from tests.helpers.server import environment


class Make(Terminal):
    COMMAND = ("make",)


def elsewhere(command: str, folder: Path) -> str:
    """What a command prints in another terminal, which knows nothing of the first."""
    kept = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    kept["PATH"] = f"{Path(sys.executable).parent}:{kept['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=kept, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps_of(screen: list[str]) -> list[str]:
    """The commands that the table shows."""
    first = next(place for place, line in enumerate(screen) if line.endswith("in this folder, try")) + 1
    return [line.strip() for line in takewhile(lambda line: line.startswith("  "), screen[first:])]


def test_make_run(folder: Path) -> None:
    like_a_clone(folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    address = free_address()
    with Make(folder, "run", size=(100, 50), INTERLOCK_HTTP=address) as terminal:
        steps = steps_of(terminal.wait_for_screen("demo.flaky", f"http://{address}", "worker w1"))
        assert steps == [
            ".venv/bin/interlock submit demo.greet --wait",
            ".venv/bin/interlock timetable",
            ".venv/bin/interlock runs --watch",
            ".venv/bin/interlock show latest",
            f"curl 'http://{address}/api/v1/runs?limit=3'",
        ]
        assert elsewhere(steps[0], folder) == '"hello world"\n'
        assert "Z\ttick\n" in elsewhere(steps[1], folder)
        assert "\tdemo." in elsewhere(f"{steps[2]} | grep --max-count 1 demo", folder)
        assert "state\t" in elsewhere(steps[3], folder)
        assert '{"runs":[{"id":' in elsewhere(steps[4], folder)
        terminal.enter("\x03")
        terminal.ended()
        assert "stopped: " in terminal.text


def test_a_server_that_commands_do_not_find_by_themselves(folder: Path) -> None:
    """The first step says where it is."""
    (folder / "data").mkdir()
    options = ("-A", "tests.helpers.jobs:app", "--db", "data/other.db", "--http", "local")
    with Terminal(folder, "up", *options, size=(80, 24)) as terminal:
        export, submit, *_ = steps_of(terminal.wait_for_screen("in another terminal", "worker w1"))
        assert export == "export INTERLOCK_SOCKET=data/other.db.sock"
        assert submit == "interlock submit echo --wait"
        assert elsewhere(f"{export}; {submit}", folder) == "null\n"
        terminal.enter("\x03")
        assert terminal.ended() == 0
