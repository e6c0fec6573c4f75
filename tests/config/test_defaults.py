"""The numbers of the contract that are defaults, written out: what holds if nobody says otherwise."""

import inspect
from typing import Any

import pytest

import interlock as il
from interlock.config.settings import Settings
from interlock.core.state import DEFAULT_LANES, CoreLimits
from interlock.engine.engine import EngineSettings
from interlock.interface.job_operations import ReadJobLog
from interlock.model.job import Job
from interlock.model.policy.output import OutputPolicy
from interlock.model.pool import PoolSpec
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionOptions
from interlock.worker.host import HostSettings

DAY = 86_400.0
JOB = inspect.signature(il.App.job).parameters
NUMBERS: tuple[tuple[str, Any, str, object], ...] = (
    ("RUN-6", Settings(), "keep_keys", 30 * DAY),
    ("RUN-11", Job(id="a"), "grace", 10.0),
    ("RUN-11", JOB["grace"], "default", 10.0),
    ("TIM-9", Schedule(every=60.0), "catch_up_window", 60.0),
    ("TIM-9", Schedule(every=60.0), "catch_up_max", 100),
    ("TIM-16", ReadJobLog("a"), "limit", 20),
    ("SES-1", SessionOptions(), "max_concurrent", 1),
    ("SES-3", SessionOptions(), "cap", 10),
    ("SES-4", SessionOptions(), "debounce", 0.8),
    ("RET-1", il.Retry(), "initial_delay", 2.0),
    ("RET-1", il.Retry(), "multiplier", 2.0),
    ("RET-1", il.Retry(), "max_delay", 30.0),
    ("RET-1", il.Retry(), "jitter", 0.25),
    ("RET-5", Job(id="a"), "max_crashes", 3),
    ("RET-5", JOB["max_crashes"], "default", 3),
    ("LIV-1", Settings(), "heartbeat", 10.0),
    ("LIV-1", HostSettings(worker_id="w"), "heartbeat_interval", 10.0),
    ("LIV-1", CoreLimits(), "heartbeat_interval", 10.0),
    ("LIV-2", Settings(), "missed_heartbeats", 3),
    ("REC-1", Settings(), "sweep_interval", 30.0),
    ("LIV-2", CoreLimits(), "missed_heartbeats", 3),
    ("ROU-10", CoreLimits(), "silence", 30.0),
    ("POL-8", Settings(), "approval_timeout", DAY),
    ("POL-8", CoreLimits(), "approval_timeout", DAY),
    ("OUT-3", OutputPolicy(), "timeout", 30.0),
    ("ROU-6", PoolSpec(topics=("a",)), "max_load", 90),
    ("LEA-1", EngineSettings(), "lease_ttl", 10.0),
)


@pytest.mark.parametrize(
    ("owner", "field", "value"),
    [
        pytest.param(owner, field, value, id=f"{behaviour}-{field}", marks=pytest.mark.behaviour(behaviour))
        for behaviour, owner, field, value in NUMBERS
    ],
)
def test_a_default_has_the_number_of_the_contract(owner: Any, field: str, value: object) -> None:
    assert getattr(owner, field) == value


@pytest.mark.behaviour("LAN-1")
def test_the_default_lanes() -> None:
    assert DEFAULT_LANES == {"main": 30, "subagent": 50, "team": 100, "cron": 30}
