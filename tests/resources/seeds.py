"""What the server of these tests has before anybody asks it."""

from typing import Any, NamedTuple

from tests.api.tokens import as_
from tests.helpers.judged import ASKS
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

DECLARED = """\
kind: Tenant
id: red
max_running: 50
---
kind: Tenant
id: blue
max_running: 50
---
kind: Job
id: nightly
schedule: {at: "2099-12-31T23:00:00Z"}
run: {process: ["true"]}
---
kind: Job
id: manual
run: {process: ["true"]}
---
kind: Workflow
id: naps
steps: [{id: nap, sleep: 1h}]
---
kind: Workflow
id: outer
steps: [{id: inner, workflow: naps}]
"""
JOBS = ["nightly", "manual"]


class Seeds(NamedTuple):
    """Ids, the newest first."""

    runs: dict[str, list[str]]
    approvals: dict[str, list[str]]
    workflows: dict[str, list[str]]
    worker: str
    middle: str
    """when the newest run of red was created"""


def seed(server: Server) -> Seeds:
    boss = as_(server, "boss")
    lane: dict[str, Any] = {"lane": "team", "session_options": {"debounce": 0}}
    fields: list[tuple[str, str, dict[str, Any]]] = [
        ("red", "echo", {"session": "r1", "delay": "1h"}),
        ("red", "hold.thread", {"session": "r2", "delay": "1h", "payload": {"folder": "/nowhere", "name": "x"}}),
        ("red", "echo", {"session": "r1"}),
        ("blue", "echo", {"session": "b1", "delay": "1h"}),
    ]
    runs: dict[str, list[str]] = {"red": [], "blue": []}
    for tenant, job, more in fields:
        run_id = boss.submit(job, tenant=tenant, **{"payload": None, **lane, **more})
        runs[tenant].insert(0, run_id)
        if "delay" not in more:
            boss.ended(run_id)
    approvals: dict[str, list[str]] = {"red": [], "blue": []}
    for tenant, job, payload in (
        ("red", ASKS, {}), ("red", ASKS, {}), ("red", ASKS, {}), ("blue", "count", {"folder": "/nowhere"}),
    ):  # fmt: skip
        approvals[tenant].insert(0, boss.submit(job, payload, tenant=tenant))
    workflows: dict[str, list[str]] = {"red": [], "blue": []}
    for tenant, job in (("red", "naps"), ("red", "naps"), ("blue", "naps"), ("red", "outer")):
        workflows[tenant].insert(0, boss.submit(job, tenant=tenant))
    wait_until(lambda: len(boss.get("/api/v1/workflows?steps=true").json["workflows"]) == 5, "the workflows have begun")
    workers: list[str] = []

    def joined() -> bool:
        workers[:] = [row["id"] for row in boss.get("/api/v1/workers").json["workers"]]
        return len(workers) == 1

    wait_until(joined, "the worker has joined")
    middle = boss.get(f"/api/v1/runs/{runs['red'][0]}").json["created_at"]
    return Seeds(runs, approvals, workflows, workers[0], middle)
