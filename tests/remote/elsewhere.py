"""`interlock up` that listens for workers, and `interlock worker` in a folder of its own, as on another machine."""

import json
import socket
from pathlib import Path
from typing import Any

from tests.helpers.server import JOBS, Command, Server, interlock


def free_port() -> int:
    """A port that stays the same over restarts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A server without workers of its own, and all that a worker needs to reach it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self.made: dict[str, Any] = self.token("site", "--tenant", "*", "--host", "127.0.0.1")
        settings = {"listen_workers": self.address, "tokens": [self.made["entry"]]}
        (folder / "interlock.yaml").write_text(json.dumps(settings))
        (folder / "interlock.yaml").chmod(0o600)
        self.server = Server(folder, "--workers", "0", *options)
        self.place = folder / "elsewhere"
        self.place.mkdir()

    def token(self, *arguments: str) -> dict[str, Any]:
        done = interlock(self.folder, "worker-token", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        made: dict[str, Any] = json.loads(done.stdout)
        return made

    def worker(self, name: str = "worker") -> Command:
        """A worker, not yet begun."""
        pinned = ("--node", self.address, "--fingerprint", self.made["fingerprint"])
        worker = Command(
            self.place, "interlock.cli", "worker", "-A", JOBS, "--name", name, "--drain", "2s", *pinned, name=name
        )
        worker.extra = {"INTERLOCK_WORKER_TOKEN": self.made["token"]}
        return worker
