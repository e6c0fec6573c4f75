"""`interlock backup` of a server that works, and `interlock restore` while a worker still executes runs."""

import json
import signal
from pathlib import Path

import pytest

from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Command, Server, interlock

JOBS = """
kind: Job
id: long
run: {shell: 'echo $$ >> pids; while [ ! -e one.go ]; do sleep 0.01; done'}
grace: 1s
"""


@pytest.mark.behaviour("REC-7")
def test_a_run_of_the_lost_time_is_stopped_and_not_taken_for_a_new_one(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(JOBS)
    with Server(folder, "jobs.yaml", "--http", "local", "--workers", "0", target=None) as server:
        kept = server.local.submit("long")
        made = interlock(folder, "backup", "copy.db", "--json")
        assert json.loads(made.stdout)["runs"] == 1, made.stderr
        assert interlock(folder, "restore", "copy.db").stderr.endswith("[store_in_use]\n")
        lost = server.local.submit("long")
        worker = Command(folder, "interlock.cli", "worker", "--socket", str(server.socket), name="worker")
        worker.begin()
        wait_until(lambda: len(lines_of(folder / "pids")) == 2, "both execute")
        server.send(signal.SIGTERM)
        assert server.ended() == 0
        restored = json.loads(interlock(folder, "restore", "copy.db", "--json").stdout)
        assert (restored["runs"], restored["live"], restored["lost"]) == (1, 1, 1)
        server.start()
        wait_until(
            lambda: len(lines_of(folder / "pids")) == 3, "the run of the backup executes again, the lost one not"
        )
        assert server.local.get(f"/api/v1/runs/{lost}").status == 404
        tell_to_go(folder, "one")
        run = server.local.ended(kept)
        assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 1, 0)
        assert worker.stop() == 0
    assert len(lines_of(folder / "pids")) == 3
