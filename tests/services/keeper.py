"""`interlock up` with services that note down what becomes of them, and do what a test wants."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.places import clean_folder, lines_of
from tests.helpers.processes import alive, look, wait_until
from tests.helpers.server import JOBS, Server

PROGRAM = """\
# Notes its start, is ready once nobody holds it up, and lives until it is told to end.
name=$1
note() { echo "$name $*" >> "$FOLDER/notes"; }
trap 'note term; [ -e "$FOLDER/$name.deaf" ] || exit 0' TERM
trap 'exit 3' USR1
note start $$ "$INTERLOCK_RESUME_ID" "$INTERLOCK_PREV_EXIT"
while [ -e "$FOLDER/$name.held" ]; do sleep 0.02; done
note ready
echo "$name is ready"
while :; do sleep 1000 & wait $!; done
"""


class Life(NamedTuple):
    """What a service has noted at its start."""

    pid: int
    resume_id: str
    previous: int
    """exit code"""


def service(name: str, *lines: str, command: str = "") -> str:
    """A document that declares one, with more lines of its own."""
    run = command or f'["sh", "../program.sh", "{name}"]'
    return "\n".join(
        ["---", "kind: Service", f"id: {name}", f"run: {{process: {run}}}", "cwd: .", "env: {FOLDER: ..}", *lines, ""]
    )


def group(name: str, *lines: str) -> str:
    return "\n".join(["---", "kind: Group", f"id: {name}", *lines, ""])


class Keeper(Server):
    """Its services are in the files of a folder."""

    def __init__(self, folder: Path, *options: str, target: str | None = JOBS, workers: int = 1) -> None:
        self.declared = folder / "declared"
        self.declared.mkdir()
        (folder / "program.sh").write_text(PROGRAM)
        given = ("--http", "local", "--workers", str(workers), str(self.declared), *options)
        super().__init__(folder, *given, target=target)

    def declare(self, file: str, *documents: str) -> Path:
        """Write a file; without documents there is none any more."""
        path = self.declared / f"{file}.yaml"
        if documents:
            path.write_text("".join(documents))
        else:
            path.unlink()
        return path

    def hold_up(self, name: str) -> None:
        """Keep a service from getting ready."""
        (self.folder / f"{name}.held").touch()

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.held").unlink()

    def make_deaf(self, name: str) -> None:
        """Have a service that does not end for TERM."""
        (self.folder / f"{name}.deaf").touch()

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def notes(self, *names: str) -> list[str]:
        """What services have noted down, of these or of all, without what comes after the second word."""
        found = [" ".join(line.split()[:2]) for line in lines_of(self.folder / "notes")]
        return [note for note in found if not names or note.split()[0] in names]

    def lives(self, name: str) -> list[Life]:
        found = [line.split() for line in lines_of(self.folder / "notes")]
        return [
            Life(int(pid), resume_id, int(previous))
            for who, what, pid, resume_id, previous in (one for one in found if len(one) == 5)
            if (who, what) == (name, "start")
        ]

    def child(self, name: str) -> dict[str, Any]:
        """How it stands, as the server says."""
        answer = self.local.get(f"/api/v1/services/{name}")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def status(self, name: str) -> str:
        answer = self.local.get(f"/api/v1/services/{name}")
        return "absent" if answer.status == 404 else str(answer.json["status"])

    def pid_of(self, name: str) -> int:
        """The process of a service that runs, once it does."""
        self.until(name, "running")
        pid: int = self.child(name)["pid"]
        if "program.sh" in _command_of(pid):
            # One that has no probe runs before it can do what a test wants.
            wait_until(lambda: self._is_ready(name, pid), f"{name} is ready")
        assert alive(pid)
        return pid

    def _is_ready(self, name: str, pid: int) -> bool:
        own = [line.split() for line in lines_of(self.folder / "notes") if line.startswith(f"{name} ")]
        starts = [place for place, one in enumerate(own) if one[1:3] == ["start", str(pid)]]
        return bool(starts) and [name, "ready"] in own[starts[-1] :]

    def until(self, name: str, *statuses: str) -> None:
        wait_until(lambda: self.status(name) in statuses, f"{name} is {' or '.join(statuses)}")

    def pids(self, *names: str) -> dict[str, int]:
        return {name: self.pid_of(name) for name in names}

    def metric(self, name: str) -> Mapping[str, float]:
        """Its value for every service."""
        text = self.local.get("/metrics").body.decode()
        found = [line.split(" ") for line in text.splitlines() if line.startswith(f"{name}{{")]
        return {labels.split('"')[1]: float(value) for labels, value in found}

    def log(self, name: str) -> list[str]:
        """What is kept of what it said, and of what was said of it."""
        answer = self.local.get(f"/api/v1/services/{name}/logs", limit=10_000)
        assert answer.status == 200, answer
        return [f"{line['stream']}: {line['text']}" for line in answer.json["lines"]]

    # ── doing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def reload(self, kind: str = "services") -> dict[str, list[str]]:
        """What has become of the services, or of the jobs."""
        answer = self.local.post("/api/v1/reload")
        assert answer.status == 200, answer
        found: dict[str, list[str]] = answer.json[kind]
        return found

    def act(self, action: str, name: str) -> dict[str, Any]:
        answer = self.local.post(f"/api/v1/services/{name}/{action}")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def run_one(self) -> None:
        """The scheduler does what it is there for."""
        assert self.local.ended(self.local.submit("echo", {"value": 1}))["state"] == "succeeded"


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)


def _command_of(pid: int) -> str:
    found = look(pid)
    return "" if found is None else found.command


def state_of(pid: int) -> str:
    """As the system says: T is stopped."""
    found = look(pid)
    return "" if found is None else found.state


def gone(*pids: int) -> bool:
    return not any(alive(pid) for pid in pids)


@contextmanager
def kept(*options: str, **documents: str) -> Iterator[Keeper]:
    """A server with these documents in files of these names, for several tests."""
    with clean_folder() as place:
        keeper = Keeper(place, *options)
        for name, text in documents.items():
            keeper.declare(name, text)
        with keeper:
            yield keeper
