"""The log of the scheduler: the level and the fields of each entry."""

import logging

import pytest

from interlock.engine import logs
from interlock.model.guard import Action, Constraints
from interlock.model.job import Job
from interlock.wire.message import Heartbeat, Held
from tests.core.machine import Machine

WAITS = Job(id="work", constraints=Constraints(max_concurrent_runs=1), on_constraint_violation=Action(action="wait"))


def written(machine: Machine, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str, int]]:
    """Return level, text, state and attempt of each entry about the last pass."""
    caplog.clear()
    logs.write(machine.last)
    return shown(caplog)


def shown(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str, int]]:
    for record in caplog.records:
        fields = vars(record)
        assert (fields["job_id"], fields["scheduled_at"]) == ("work", 1_000_000.0), record
        assert fields["run_id"]
    return [(one.levelname, one.getMessage(), vars(one)["state"], vars(one)["attempt"]) for one in caplog.records]


@pytest.mark.behaviour("RUN-19")
def test_transitions_violations_errors_and_heartbeats_have_a_level_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "interlock.runs")
    machine = Machine(WAITS)
    first = machine.running()
    assert written(machine, caplog)[-1] == ("INFO", "dispatched → running: started", "running", 1)
    machine.submit()
    assert [entry for entry in written(machine, caplog) if entry[0] != "INFO"] == [
        ("WARNING", "run violates max_concurrent_runs: 1 live, 1 allowed", "action_running", 0)
    ]
    caplog.clear()
    logs.beat("w1", Heartbeat([Held(first, 1, True)]), machine.state)
    assert shown(caplog) == [("DEBUG", "heartbeat from w1", "running", 1)]
    machine.finished(first, "failed", error="boom")
    assert [entry for entry in written(machine, caplog) if entry[0] != "INFO"] == [
        ("ERROR", "run ended as failed: boom", "failed", 1)
    ]
