"""A context that a test builds: it gives the function what it asks for, and keeps what it reports."""

import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest

import interlock as il
from interlock import testing
from interlock.error import BadDuration, BadValue, NotJson


def test_it_is_one_attempt_of_a_run() -> None:
    context = testing.context(run_id="r-7", job_id="report", attempt=3, checkpoint={"page": 2}, state=["pool"])
    assert isinstance(context, il.Context)
    assert (context.run_id, context.job_id, context.attempt, context.deadline) == ("r-7", "report", 3, None)
    assert context.last_checkpoint == {"page": 2}
    assert context.state == ["pool"]
    assert testing.context().last_checkpoint is None
    plain, made = testing.context(), testing.context(tenant="acme", labels={"a": "b"}, parent="r-1")
    assert (plain.tenant, plain.labels, plain.parent) == ("default", {}, None)
    assert (made.tenant, made.labels, made.parent) == ("acme", {"a": "b"}, "r-1")


def test_it_keeps_lines_progress_and_checkpoints() -> None:
    context = testing.context(attempt=2)
    context.log("page 1 written")
    context.log("page 2 is empty", level="warning")
    context.progress(120, "2 of 2")
    context.checkpoint({"page": 1})
    context.checkpoint({"page": 2, "token": il.Secret("hunter2")})
    assert [(line.level, line.text, line.attempt) for line in context.lines] == [
        ("info", "page 1 written", 2),
        ("warning", "page 2 is empty", 2),
    ]
    assert [(report.percent, report.text) for report in context.reports] == [(100.0, "2 of 2")]
    assert context.checkpoints == [{"page": 1}, {"page": 2, "token": il.Secret("hunter2")}]
    assert context.last_checkpoint == context.checkpoints[-1]


@pytest.mark.behaviour("SES-8")
def test_it_keeps_what_a_function_says_of_its_usage() -> None:
    context = testing.context(session="chat:ada")
    context.usage(600, 1000)
    context.usage(0, 0)
    assert context.session == "chat:ada"
    assert context.usages == [(600, 1000), (0, 0)]
    with pytest.raises(BadValue):
        context.usage(1.5, 1000)  # type: ignore[arg-type]  # on purpose
    assert len(context.usages) == 2


def test_it_is_cancelled_by_the_test() -> None:
    context = testing.context()
    assert not context.cancelled
    context.cancel("not needed")
    assert context.cancelled
    assert context.stop_reason == "not needed"


def test_a_deadline_is_an_instant_or_a_duration_from_now() -> None:
    assert testing.context(deadline=datetime(2030, 1, 1, tzinfo=UTC)).deadline == 1893456000.0
    deadline = testing.context(deadline="5m").deadline
    assert deadline is not None
    assert 290 < deadline - time.time() <= 300


@pytest.mark.parametrize(
    ("given", "error", "field"),
    [
        ({"attempt": 0}, BadValue, "attempt"),
        ({"attempt": True}, BadValue, "attempt"),
        ({"session": ""}, BadValue, "session"),
        ({"deadline": "soon"}, BadDuration, "deadline"),
        ({"deadline": datetime(2030, 1, 1)}, BadValue, "deadline"),  # noqa: DTZ001 - without a zone
        ({"checkpoint": object()}, NotJson, "checkpoint"),
    ],
)
def test_a_bad_field_is_named(given: dict[str, Any], error: type[Exception], field: str) -> None:
    with pytest.raises(error, match=f"^{field}"):
        testing.context(**given)


def test_the_fixtures_load_nothing_of_a_scheduler() -> None:
    program = (
        "import sys, interlock.testing.fixtures as f; print([m for m in sys.modules if m.startswith('interlock')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["interlock", "interlock.testing", "interlock.testing.fixtures"])
