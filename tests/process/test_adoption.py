"""A program that runs while its scheduler is killed: the next one finds it running, and it is not started again."""

from pathlib import Path

import pytest

from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import alive, wait_until
from tests.helpers.server import Server

JOBS = """
kind: Job
id: long
run: {shell: 'echo $$ >> pids; echo before; while [ ! -e one.go ]; do sleep 0.01; done; echo after; cat'}
"""


@pytest.mark.behaviour("EXE-2", "LIV-4")
def test_it_outlives_a_scheduler_that_is_killed(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(JOBS)
    with Server(folder, "jobs.yaml", "--http", "local", target=None) as server:
        run_id = server.local.submit("long", {"text": "given"})
        wait_until(lambda: lines_of(folder / "pids"), "it has started")
        wait_until(lambda: server.local.get(f"/api/v1/runs/{run_id}").json["state"] == "running", "it is known to run")
        server.kill()
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
