"""One timetable for all nodes: the leader is killed, and each occurrence still executes once."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.nodes import SCHEDULER, Cluster
from tests.helpers.places import lines_of
from tests.helpers.processes import wait_until

JOB = "/api/v1/jobs/every-second"


@pytest.mark.behaviour("TIM-18")
def test_each_fire_time_executes_once_over_a_kill_of_the_leading_scheduler(two_nodes: Cluster, tmp_path: Path) -> None:
    """Runs may overlap, and all that are late are caught up, so none is skipped."""
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    executed = tmp_path / "executed"
    job = {
        "schedule": {"every": "1s", "catch_up": "all"},
        "run": {"process": ["sh", "-c", f'echo "$INTERLOCK_RUN_ID" >> {executed}']},
        "constraints": {"max_concurrent_runs": 100},
    }
    assert other.http.ask("PUT", JOB, job).status == 200

    def fires() -> Counter[int]:
        return Counter(int(line.rpartition(":")[2]) for line in lines_of(executed))

    wait_until(lambda: len(fires()) >= 2, "it fires")
    before = max(leader.epoch(), other.epoch())
    leader.signal_part(SCHEDULER, signal.SIGKILL)
    wait_until(lambda: max(leader.epoch(), other.epoch()) > before, "one leads again", 60.0)
    after = max(fires()) + 3
    wait_until(lambda: max(fires()) >= after, "it fires again", 60.0)
    two_nodes.leading()
    assert other.http.ask("DELETE", JOB).status == 200
    first, last = min(fires()), max(fires())

    def is_whole() -> bool:
        return all(fires()[time] for time in range(first, last + 1))

    wait_until(is_whole, "each fire time has executed", 60.0)
    assert set(fires().values()) == {1}
