"""kill -9 of a scheduler with schedules: every time of a job is a run, once, and is executed once."""

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.invariants import check_database
from tests.helpers.places import lines_of
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

JOBS = """
kind: Job
id: tick
schedule: {every: 1s, catch_up: all}
constraints: {max_concurrent_runs: 50}
run: {shell: 'echo "$INTERLOCK_RUN_ID" >> ticks'}
---
kind: Job
id: minutely
schedule: {cron: "* * * * *"}
run: {shell: 'echo "$INTERLOCK_RUN_ID" >> ticks'}
"""


def occurrences(database: Path) -> list[tuple[int, str]]:
    """The second and the state of each run of the job, in order."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT scheduled_at, state FROM runs WHERE job_id = 'tick' ORDER BY scheduled_at")
        return [(int(at), state) for at, state in rows]


@pytest.mark.behaviour("TIM-18", "REC-6", "RUN-5", "TIM-9")
def test_whenever_the_scheduler_is_killed_every_time_has_its_run(folder: Path) -> None:
    chance = random.Random(folder.name)
    (folder / "jobs.yaml").write_text(JOBS)
    server = Server(folder, "--workers", "1", "jobs.yaml", target=None)
    ticks = folder / "ticks"
    try:
        server.start()
        for _ in range(2):
            goal = len(lines_of(ticks) if ticks.exists() else []) + chance.randint(1, 2)
            wait_until(lambda goal=goal: ticks.exists() and len(lines_of(ticks)) >= goal, "it ticks")  # type: ignore[misc] # the default binds the goal
            server.kill()
            server.start()
        wait_until(lambda: len(lines_of(ticks)) >= 5, "it goes on")
        server.wait_for_strays()
        assert server.stop() == 0, server.said
    finally:
        server.kill()
    check_database(server.database, [])
    found = occurrences(server.database)
    seconds = [at for at, _ in found]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds))), "no second is missing, none is there twice"
    executed = Counter(line for line in lines_of(ticks) if line.startswith("tick:"))
    assert set(executed.values()) == {1}
    done = {f"tick:{at}" for at, state in found if state == "succeeded"}
    assert done <= set(executed)
    assert {state for _, state in found} <= {"succeeded", "prerun", "scheduled", "pending"}
