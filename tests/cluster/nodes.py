"""Nodes of a cluster as real processes, each in a folder of its own, as on machines of their own."""

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.stores.postgres.address import read_address
from tests.helpers.http import Http
from tests.helpers.places import clean_folder
from tests.helpers.postgres import schema
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import JOBS, Command, interlock
from tests.remote.elsewhere import free_port

NO_VARIABLES: Mapping[str, str] = {}
SCHEDULER, GATEWAY, WORKER = "wiring.node:lead", "wiring.gateway:serve", "wiring.worker:run_worker"


class Node(Command):
    def __init__(self, folder: Path, name: str, port: int, settings: dict[str, Any]) -> None:
        folder.mkdir()
        self.name = name
        super().__init__(folder, "interlock.cli", "up", name="node")
        self.configure({"listen_workers": f"127.0.0.1:{port}", **settings})

    def configure(self, settings: dict[str, Any]) -> None:
        file = self.folder / "interlock.yaml"
        file.write_text(json.dumps({**settings, "node_name": self.name}))
        file.chmod(0o600)

    def process_of(self, part: str) -> int:
        """Return the only process of a part."""
        (found,) = [one.pid for one in processes_of(self.folder) if part in one.command]
        return found

    def signal_part(self, part: str, number: signal.Signals) -> None:
        os.kill(self.process_of(part), number)

    @property
    def http(self) -> Http:
        return Http(self.folder / "interlock.http")

    def get(self, path: str) -> Any:
        """Return what its gateway answers; None while it answers nothing."""
        try:
            answer = self.http.get(path)
        except OSError:
            return None
        return answer.json if answer.status == 200 else None

    def submit(self, job: str, **payload: Any) -> str:
        answer = self.http.post("/api/v1/runs", {"job": job, "payload": payload})
        assert answer.status in (200, 201, 202), answer
        run_id: str = answer.json["id"]
        return run_id

    def run(self, run_id: str) -> Any:
        return self.get(f"/api/v1/runs/{run_id}")

    def wait_for(self, run_id: str, state: str) -> Any:
        wait_until(lambda: (self.run(run_id) or {}).get("state") == state, f"{run_id} is {state}", 60.0)
        return self.run(run_id)

    def leader(self) -> str | None:
        return (self.get("/api/v1/cluster") or {}).get("leader")

    def epoch(self) -> int:
        found = re.findall(rf"node {self.name} leads, epoch (\d+)", self.said)
        return int(found[-1]) if found else 0


class Cluster:
    def __init__(self, folder: Path, database: str, names: Sequence[str], **settings: Any) -> None:
        self.folder = folder
        self.schema = read_address(database).schema
        ports = {name: free_port() for name in names}
        made = [self._token("site", "--tenant", "*"), self._token("door", "--role", "gateway")]
        (worker, gateway) = made
        self.tokens = {"worker_token": worker["token"], "gateway_token": gateway["token"]}
        self.settings: dict[str, Any] = {
            "app": JOBS,
            "database": database,
            "http": "local",
            "drain": "2s",
            "nodes": [f"127.0.0.1:{port}" for port in ports.values()],
            "fingerprint": worker["fingerprint"],
            "worker_cert": str(folder / "interlock.db.worker.crt"),
            "worker_key": str(folder / "interlock.db.worker.key"),
            **self.tokens,
            **settings,
            "tokens": [one["entry"] for one in made] + settings.get("tokens", []),
        }
        self.nodes = {name: Node(folder / name, name, port, self.settings) for name, port in ports.items()}

    def _token(self, *arguments: str) -> dict[str, Any]:
        done = interlock(self.folder, "worker-token", *arguments, "--host", "127.0.0.1", "--json")
        assert done.returncode == 0, done.stderr
        made: dict[str, Any] = json.loads(done.stdout)
        return made

    def start(self) -> None:
        for node in self.nodes.values():
            node.begin()
        wait_until(lambda: all(node.leader() for node in self.nodes.values()), "every gateway knows a leader", 60.0)
        wait_until(lambda: len(self.workers()) == len(self.nodes), "every worker has joined")

    def workers(self) -> list[str]:
        found = next(iter(self.nodes.values())).get("/api/v1/workers") or {"workers": []}
        return [worker["id"] for worker in found["workers"] if worker["state"] == "ready"]

    def leading(self) -> Node:
        """Return the node that the others name as the leader."""
        named: list[str] = []

        def is_known() -> bool:
            named[:] = [node.leader() or "" for node in self.nodes.values() if node.process is not None]
            return len(set(named)) == 1 and named[0] != ""

        wait_until(is_known, "one leads", 60.0)
        return self.nodes[named[0]]

    def others(self, node: Node) -> list[Node]:
        return [other for other in self.nodes.values() if other is not node]


@contextmanager
def cluster(server_url: str, *names: str) -> Iterator[Cluster]:
    with schema(server_url) as database, clean_cluster(database, *names) as found:
        yield found


@contextmanager
def clean_cluster(database: str, *names: str, extra: Mapping[str, str] = NO_VARIABLES) -> Iterator[Cluster]:
    with clean_folder() as folder:
        found = Cluster(folder, database, names)
        for node in found.nodes.values():
            node.extra |= extra
        try:
            found.start()
            yield found
            for node in found.nodes.values():
                if node.process is not None:
                    assert node.stop() == 0, node.said
        finally:
            for node in found.nodes.values():
                node.kill()
                # A scheduler that was killed leaves its socket to the next one that leads there.
                (node.folder / "interlock.sock").unlink(missing_ok=True)
