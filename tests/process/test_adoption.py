"""A program that runs while its scheduler goes away: the next one finds it running, and it is not started again."""

import signal
from pathlib import Path

import pytest

import interlock as il
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import alive, wait_until
from tests.helpers.server import Command, Server

JOBS = """
kind: Job
id: long
run: {shell: 'echo $$ >> pids; echo before; while [ ! -e one.go ]; do sleep 0.01; done; echo after; cat'}
"""


@pytest.mark.behaviour("EXE-2", "LIV-4", "RUN-28")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_outlives_its_scheduler(folder: Path, number: signal.Signals) -> None:
    (folder / "jobs.yaml").write_text(JOBS)
    with Server(folder, "jobs.yaml", "--http", "local", "--keep-workers", target=None) as server:
        run_id = server.local.submit("long", {"text": "given"})
        wait_until(lambda: lines_of(folder / "pids"), "it has started")
        wait_until(lambda: server.local.get(f"/api/v1/runs/{run_id}").json["state"] == "running", "it is known to run")
        server.send(number)
        assert server.ended() == (0 if number == signal.SIGTERM else -number)
        (pid,) = map(int, lines_of(folder / "pids"))
        assert alive(pid)
        server.start()
        tell_to_go(folder, "one")
        run = server.local.ended(run_id)
        assert (run["state"], run["exit_code"], run["attempt"], run["crashes"]) == ("succeeded", 0, 1, 0)
        assert lines_of(folder / "pids") == [str(pid)]
        lines = server.local.get(f"/api/v1/runs/{run_id}/logs").json["lines"]
        assert [(line["logger"], line["text"]) for line in lines] == [
            ("stdout", "before"), ("stdout", "after"), ("stdout", '{"text":"given"}'),
        ]  # fmt: skip
    # The fixture waits for the end of every process: a kept worker without runs leaves.


@pytest.mark.behaviour("RUN-28")
def test_a_worker_that_was_started_alone_keeps_its_run_over_a_planned_restart(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(JOBS)
    with Server(folder, "jobs.yaml", "--http", "local", "--workers", "0", target=None) as server:
        worker = Command(folder, "interlock.cli", "worker", "--socket", str(server.socket), name="worker")
        worker.begin()
        with il.Client(f"unix:{server.http_socket}") as client:
            run = client.submit("long", {"text": "given"})
            wait_until(lambda: run.info().state == "running", "it is known to run")
            server.send(signal.SIGTERM)
            assert server.ended() == 0
            server.start()
            tell_to_go(folder, "one")
            assert run.wait() == "succeeded"
            assert (run.info().attempt, run.info().crashes) == (1, 0)
        assert worker.stop() == 0
