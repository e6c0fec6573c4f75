"""kill -9 of the scheduler while a worker of its own stays: the next scheduler expects it, and goes on with it."""

import signal
from pathlib import Path

import pytest

from tests.helpers.server import JOBS, Command, Server


@pytest.mark.behaviour("ROU-11")
def test_a_run_submitted_before_the_worker_is_back_waits_for_it(folder: Path) -> None:
    server = Server(folder, "--workers", "0", "--http", "local")
    worker = Command(folder, "interlock.cli", "worker", "-A", JOBS, "--socket", str(server.socket), name="worker")
    try:
        server.start()
        worker.begin()
        before = server.local.ended(server.local.submit("echo"))
        worker.send(signal.SIGSTOP)
        server.kill()
        server.start()
        run_id = server.local.submit("echo")
        said = server.local.get(f"/api/v1/runs/{run_id}/explanation").json
        assert [(one["id"], one["obstacle"]) for one in said["workers"]] == [(before["worker_id"], "disconnected")]
        worker.send(signal.SIGCONT)
        run = server.local.ended(run_id)
        assert (run["state"], run["worker_id"], run["attempt"]) == ("succeeded", before["worker_id"], 1)
        history = server.local.get(f"/api/v1/runs/{run_id}/history").json["entries"]
        states = [one["after"] for one in history]
        assert states == ["pending", "scheduled", "dispatched", "running", "terminating", "succeeded"]
        worker.send(signal.SIGINT)
        assert worker.ended() == 0
        assert server.stop() == 0
    finally:
        worker.kill()
        server.kill()
