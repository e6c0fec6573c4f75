"""Rates and limits as they are given: the lowest rate, and the limit of a job in Python."""

from typing import Any

import pytest

import interlock as il
from interlock.config.job_documents import read_job
from interlock.core.explain import explain
from interlock.error import BadConfig, BadInput
from interlock.fields.field_types import Rate
from interlock.fields.json_form import encode
from interlock.model.job import Job, KeyLimit
from tests.core.machine import Machine


@pytest.mark.behaviour("LAN-8")
def test_one_start_a_year_is_the_lowest_rate() -> None:
    slow = Job(id="slow", rate="0.00274/d")  # type: ignore[arg-type]  # as a document has it
    assert slow.rate is not None
    assert Job(id="slow", rate=Rate().show(slow.rate)).rate == slow.rate  # type: ignore[arg-type]  # as above
    machine = Machine(slow)
    machine.worker_up()
    first, second = machine.submit("slow"), machine.submit("slow")
    assert machine.dispatched() == [first]
    found = explain(machine.state, machine.state.runs[second], machine.now)
    assert found.next_at is not None
    assert 364 < (found.next_at - machine.wall) / 86400 < 366
    assert encode(found)  # its time is a date


@pytest.mark.behaviour("LAN-9")
def test_a_limit_in_python() -> None:
    app = il.App()
    app.job("limited", limit={"key": "who", "max": 2})(lambda who: None)
    assert app.definitions["limited"].job.limit == KeyLimit(key="who", max=2)
    app.job("rated", limit={"key": "who", "rate": "120/m", "burst": 3})(lambda who: None)
    assert app.definitions["rated"].job.limit == KeyLimit(key="who", rate=2.0, burst=3)


@pytest.mark.behaviour("LAN-9")
@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ({"key": "who", "max": 0}, "limit.max: 0 is not"),
        ({"key": "who", "max": "many"}, "limit.max: 'many' is not"),
        ({"key": "", "max": 1}, "limit.key: '' is not"),
        ({"max": 2}, "limit.key: missing"),
        ({"key": "who"}, "limit: needs max, rate or both"),
        ({"key": "who", "max": None}, "limit: needs max, rate or both"),
        ({"key": "who", "rate": "often"}, "limit.rate: 'often' is not"),
        ({"key": "who", "rate": "1/s", "burst": 0}, "limit.burst: 0 is not"),
        ({"key": "who", "max": 2, "most": 3}, "limit: 'most' is not one of key, max, rate, burst"),
        (2, "limit: 2 is not a mapping of key, max, rate, burst"),
    ],
)
def test_a_bad_limit_in_python_is_named(limit: Any, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        il.App().job("limited", limit=limit)(lambda who: None)
    assert str(caught.value).startswith(says)
    with pytest.raises(BadConfig) as refused:
        read_job({"run": {"process": ["true"]}, "limit": limit}, "limited")
    assert str(refused.value).startswith(says.partition(":")[0])
