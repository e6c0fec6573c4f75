"""Labels of a job: its runs start with them, however they are created."""

import pytest

from interlock.error import BadValue
from interlock.model.job import Job
from interlock.model.schedule.schedule import Schedule
from tests.core.machine import Machine
from tests.core.scheduling import declare, machine_of, pass_time
from tests.core.test_backfill import backfill

LABELS = {"placement.region": "eu", "team": "red"}


@pytest.mark.behaviour("ROU-4")
@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, LABELS),
        ({}, LABELS),
        ({"team": "blue", "more": ""}, {"placement.region": "eu", "team": "blue", "more": ""}),
    ],
)
def test_a_submit_adds_to_them_and_overrides_them(own: dict[str, str] | None, expected: dict[str, str]) -> None:
    machine = Machine(Job(id="work", labels=LABELS))
    run_id = machine.submit(labels=own)
    assert machine.state.runs[run_id].labels == expected
    machine.restart()
    assert machine.state.runs[run_id].labels == expected


@pytest.mark.behaviour("ROU-4")
def test_occurrences_and_backfills_have_them() -> None:
    machine = machine_of(Job(id="work", labels=LABELS, schedule=Schedule(every=60)))
    pass_time(machine, 130)
    backfill(machine, -300, -10)
    runs = machine.store.runs_by_id.values()
    assert len(runs) >= 6
    assert all(run.labels == LABELS for run in runs)


def test_a_run_ahead_of_its_time_gets_those_of_the_new_definition() -> None:
    machine = Machine(Job(id="work", labels=LABELS), Job(id="plain"))
    run_id = machine.submit(delay=100.0, labels={"own": "x"})
    plain = machine.submit(job_id="plain", delay=100.0)
    declare(machine, Job(id="work", labels={"team": "green"}), Job(id="plain", lane="team"))
    assert machine.state.runs[run_id].labels == {"team": "green", "own": "x"}
    assert machine.state.runs[plain].facets is None
    declare(machine, Job(id="work"), Job(id="plain"))
    assert machine.state.runs[run_id].labels == {"own": "x"}


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"two words": "x"}, "labels"),
        ({"safety_bypassed": "true"}, "labels"),
        ({f"n{number}": "" for number in range(17)}, "labels"),
        ({"team": "x" * 257}, "labels.team"),
        ({"team": 5}, "labels.team"),
        (["team"], "labels"),
    ],
)
def test_they_follow_the_rules_of_a_submit(labels: dict[str, str], field: str) -> None:
    with pytest.raises(BadValue) as caught:
        Job(id="work", labels=labels)
    assert caught.value.field == field
