"""Failures by the exception: which are retried, when a handler asks for a delay, and what is kept of them."""

import math
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.error import BadValue, Fatal
from interlock.model.failure import LONGEST_MESSAGE, Failure, RetryAfter, type_name, types_of
from interlock.model.job import Job, Retry
from interlock.model.state import State
from tests.core.machine import Machine, retrying_job

GONE = Failure(["ConnectionError", "OSError", "Exception"], "gone")
WRONG = Failure(["app.Wrong", "ValueError", "Exception"], "wrong")


def job_with(**retry: Any) -> Job:
    return Job(id="work", retry=Retry(max_retries=3, jitter=0.0, **retry))


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize(
    ("retry", "failure", "is_retried"),
    [
        ({}, GONE, True),
        ({}, None, True),
        ({"on": (OSError,)}, GONE, True),
        ({"on": ("OSError",)}, WRONG, False),
        ({"on": ("OSError",)}, None, False),
        ({"on": ("Wrong",)}, WRONG, False),
        ({"on": ("app.Wrong", OSError)}, WRONG, True),
        ({"never": (ValueError,)}, WRONG, False),
        ({"never": (ValueError,)}, GONE, True),
        ({"never": (ValueError,)}, None, True),
        ({"on": (Exception,), "never": (ConnectionError,)}, GONE, False),
        ({"on": (Exception,), "never": (ConnectionError,)}, WRONG, True),
        ({"on": (OSError,), "never": (OSError,)}, GONE, False),
    ],
)
def test_on_and_never_choose_the_failures_that_are_retried(
    retry: dict[str, Any], failure: Failure | None, is_retried: bool
) -> None:
    machine = Machine(job_with(**retry))
    run_id = machine.running()
    machine.finished(run_id, "failed", failure=failure)
    run = machine.run(run_id)
    assert (run.state, run.failures) == (State.RETRYING if is_retried else State.FAILED, 1)
    assert run.failure == failure


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize(
    ("retry", "is_retried"),
    [({"on": (TimeoutError,)}, True), ({"on": (KeyError,)}, False), ({"never": (OSError,)}, False)],
)
@pytest.mark.parametrize("died", [False, True])
def test_an_attempt_that_ran_too_long_counts_as_a_timeout_error(
    retry: dict[str, Any], is_retried: bool, died: bool
) -> None:
    job = Job(id="work", max_runtime=5.0, max_runtime_per_attempt=True, retry=Retry(max_retries=1, **retry))
    machine = Machine(job)
    run_id = machine.running()
    machine.advance(5)
    if died:
        machine.lost(run_id)
    else:
        machine.finished(run_id, "failed", failure=WRONG)
    assert machine.state_of(run_id) is (State.RETRYING if is_retried else State.TIMEOUT)


@pytest.mark.behaviour("RET-2")
@pytest.mark.parametrize("outcome", ["failed_fatal", "cancelled"])
def test_a_fatal_failure_and_a_cancel_are_not_retried_whatever_on_says(outcome: str) -> None:
    machine = Machine(job_with(on=(Exception,)))
    run_id = machine.running()
    machine.finished(run_id, outcome, failure=Failure(["OSError", "Exception"], "", 1.0))
    assert machine.state_of(run_id) is (State.FAILED if outcome == "failed_fatal" else State.CANCELLED)


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize("delay", [0.0, 0.25, 7.0, 86_400.0])
@pytest.mark.parametrize("retry", [{}, {"on": ("KeyError",)}, {"never": ("Exception",)}, {"max_delay": "1s"}])
def test_a_delay_that_the_handler_asked_for_is_exact(delay: float, retry: dict[str, Any]) -> None:
    machine = Machine(Job(id="work", retry=Retry(max_retries=1, **retry)))
    run_id = machine.running()
    machine.finished(run_id, "failed", failure=Failure(["RetryAfter", "Exception"], "rate\nlimited", delay))
    due = machine.wall + delay
    if delay:
        assert (machine.state_of(run_id), machine.run(run_id).due_at) == (State.RETRYING, due)
        machine.advance_to(math.nextafter(due, 0.0))
        assert machine.state_of(run_id) is State.RETRYING
        machine.advance_to(due)
    assert machine.state_of(run_id) is State.DISPATCHED
    reason = next(entry.reason for entry in machine.history(run_id) if entry.after is State.RETRYING)
    assert "rate limited" in reason
    machine.finished(run_id, "failed", failure=Failure(["RetryAfter"], "rate limited", delay))
    run = machine.run(run_id)
    assert (run.state, run.failures) == (State.FAILED, 2), "it counts as a failure, and needs a retry that is left"


@pytest.mark.behaviour("RET-4")
@pytest.mark.parametrize(
    ("step", "left"),
    [(0.0, 3500.0), (50.0, 3450.0), (-40_000.0, 3600.0)],
    ids=["as it was", "later", "the clock was set back"],
)
def test_a_delay_that_the_handler_asked_for_survives_a_restart(step: float, left: float) -> None:
    machine = Machine(retrying_job(1))
    run_id = machine.running()
    machine.finished(run_id, "failed", failure=Failure(["RetryAfter"], "busy", 3600.0))
    machine.advance(100)
    machine.wall += step
    machine.restart_with_worker()
    machine.advance(left - 1)
    assert machine.state_of(run_id) is State.RETRYING
    machine.advance(1)
    assert machine.state_of(run_id) is State.DISPATCHED


def test_the_failure_is_that_of_the_latest_attempt() -> None:
    machine = Machine(retrying_job(2))
    run_id = machine.running()
    for failure in (WRONG, GONE):
        machine.finished(run_id, "failed", failure=failure)
        assert machine.run(run_id).failure == machine.store.runs_by_id[run_id].failure == failure
        machine.advance(31)
    machine.finished(run_id)
    assert (machine.state_of(run_id), machine.store.runs_by_id[run_id].facets) == (State.SUCCEEDED, None)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_lost_attempt_has_no_failure_of_an_earlier_one(restarted: bool) -> None:
    machine = Machine(replace(retrying_job(2), max_crashes=2))
    run_id = machine.running()
    machine.finished(run_id, "failed", error="KeyError", failure=GONE)
    machine.advance(31)
    machine.lost(run_id)
    if restarted:
        machine.restart_with_worker(held=[machine.held(run_id)])
    assert (machine.run(run_id).failure, machine.run(run_id).error) == (None, None)
    machine.lost(run_id, "signal 11")
    run = machine.store.runs_by_id[run_id]
    assert (run.state, run.failure, run.error) == (State.ORPHANED, None, "signal 11")


def test_a_plain_success_has_no_facets(machine: Machine) -> None:
    run_id = machine.running()
    machine.finished(run_id)
    assert machine.store.runs_by_id[run_id].facets is None


class Wrong(ValueError):
    class Inner(Exception):
        pass


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OSError, "OSError"),
        (Wrong, f"{__name__}.Wrong"),
        (Wrong.Inner, f"{__name__}.Wrong.Inner"),
        (type("Late", (Exception,), {"__module__": "__main__"}), "__main__.Late"),
        (type("Late", (Exception,), {"__module__": "__interlock_main__"}), "__main__.Late"),
        (type("Late", (Exception,), {"__module__": "__interlock_main_7__"}), "__main__.Late"),
        (type("Late", (Exception,), {"__module__": 7}), "7.Late"),
    ],
)
def test_a_class_has_one_name_everywhere(kind: type[BaseException], name: str) -> None:
    assert type_name(kind) == name


def test_the_types_of_an_exception_are_bounded() -> None:
    assert types_of(Wrong()) == [f"{__name__}.Wrong", "ValueError", "Exception", "BaseException"]
    kind: type[Exception] = type("N" * 5000, (Exception,), {"__module__": "\udcff"})
    for number in range(100):
        kind = type(f"Sub{number}", (kind,), {})
    found = types_of(kind())
    assert len(found) <= 50
    assert max(map(len, found)) <= LONGEST_MESSAGE
    "".join(found).encode()


@pytest.mark.parametrize(("delay", "seconds"), [("30s", 30.0), (0, 0.0), (timedelta(minutes=1), 60.0), (1.5, 1.5)])
def test_retry_after_takes_durations(delay: Any, seconds: float) -> None:
    assert RetryAfter(delay).delay == seconds
    assert str(RetryAfter(delay, "busy")) == "busy"


@pytest.mark.behaviour("RET-2")
@pytest.mark.parametrize("delay", ["-1s", -1, "soon", "", None, math.nan, math.inf, "1000001d", True, timedelta(-1)])
def test_a_bad_retry_after_is_fatal(delay: Any) -> None:
    with pytest.raises(Fatal, match=r"^RetryAfter: .* is not a duration"):
        RetryAfter(delay)


@pytest.mark.parametrize(
    ("retry", "field"),
    [
        ({"on": OSError}, "retry.on"),
        ({"on": "OSError"}, "retry.on"),
        ({"never": [3]}, "retry.never[0]"),
        ({"on": [int]}, "retry.on[0]"),
        ({"on": [OSError()]}, "retry.on[0]"),
        ({"on": [OSError, "no such"]}, "retry.on[1]"),
        ({"on": [""]}, "retry.on[0]"),
        ({"never": {"OSError": 1}}, "retry.never"),
    ],
)
def test_bad_lists_of_exceptions_are_refused(retry: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as caught:
        Retry(**retry)
    assert caught.value.field == field


def test_classes_are_kept_as_names() -> None:
    assert Retry(on=[OSError, Wrong]) == Retry(on=("OSError", f"{__name__}.Wrong"))
