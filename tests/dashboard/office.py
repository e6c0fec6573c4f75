"""A server in seven situations that need a person, and the runs that led there."""

from pathlib import Path

from tests.helpers.http import Http
from tests.helpers.processes import wait_until
from tests.helpers.server import ROOT, Server

JOBS = "tests.dashboard.jobs:app"
FILE = ROOT / "tests" / "dashboard" / "office.yaml"


def office(folder: Path, *options: str) -> Server:
    if "--http" not in options:
        options = ("--http", "127.0.0.1:0", *options)
    return Server(folder, str(FILE), *options, target=JOBS)


def submit(http: Http, job: str, count: int = 1, **fields: object) -> list[str]:
    ids: list[str] = []
    while len(ids) < count:
        runs = [{"job": job, **fields}] * min(1000, count - len(ids))
        ids += http.post("/api/v1/runs/batch", {"runs": runs}).json["ids"]
    return ids


def ended(http: Http, run_id: str) -> dict[str, object]:
    found: dict[str, object] = http.get(f"/api/v1/runs/{run_id}?wait=25s").json
    assert found["ended_at"], found
    return found


def fill(http: Http, waiting: int = 40) -> None:
    """Bring about the situations: no worker for a pool, full lane, forgotten pause, approval, failing job."""
    submit(http, "report.nightly", 3, lane="night")
    submit(http, "train.net", 12)
    http.post("/api/v1/lanes/batch/pause", {})
    submit(http, "orders.sync", waiting, lane="batch")
    submit(http, "billing.refund", payload={"invoice": 17, "cents": 420000})
    failing = [submit(http, "import.csv", payload={"line": line})[0] for line in (7, 12, 40, 41, 97, 98)]
    done = submit(http, "report.build", 5, payload={"pages": 3})
    hostile = submit(http, "hostile.text", payload={"text": "\u202eevil"}, labels={"team": "<b>red</b>"})
    for run_id in (*failing, *done, *hostile):
        ended(http, run_id)
    wait_until(lambda: len(http.get("/api/v1/runs?state=running&lane=night").json["runs"]) == 2, "the lane is full")
    wait_until(
        lambda: (
            "next try" in str(http.get("/api/v1/services/mailer").json)
            or http.get("/api/v1/services/mailer").json["next_try_at"]
        ),
        "a service is in backoff",
    )
