"""The text for each change of a service."""

from typing import Any

import pytest

from interlock.engine.service_book import in_words
from interlock.model.child_info import Change, ChildInfo, Exit, Status

CODE = Exit(at=9.0, code=3)
SIGNAL = Exit(at=9.0, signal=9)
NOT_WELL = Exit(at=9.0, signal=15, error="not well: no answer")
NOT_STARTED = Exit(at=9.0, error="there is no 'web'")


def child(status: Status, **fields: Any) -> ChildInfo:
    return ChildInfo(path="services/web", name="web", kind="process", status=status, **fields)


UP = child(Status.RUNNING, pid=4)


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, child(Status.CREATED), "added"),
        (child(Status.STOPPED), None, "removed"),
        (child(Status.CREATED), child(Status.STARTING), "starting"),
        (child(Status.STARTING), child(Status.STARTING, pid=4), "starting (pid 4)"),
        (child(Status.STARTING), UP, "running (pid 4)"),
        (child(Status.STARTING), child(Status.RUNNING), "running"),
        (UP, child(Status.PENDING, last_exit=CODE, next_try_at=10.2), "ended with exit 3; next try in 0.2s"),
        (UP, child(Status.PENDING, last_exit=SIGNAL, next_try_at=40), "ended by signal 9 (SIGKILL); next try in 30s"),
        (UP, child(Status.PENDING, last_exit=CODE, next_try_at=9.0), "ended with exit 3; next try in 0s"),
        (UP, child(Status.PENDING, last_exit=None, next_try_at=11.5), "next try in 1.5s"),
        (UP, child(Status.STARTING, last_exit=CODE), "ended with exit 3; starting"),
        (child(Status.STARTING, last_exit=CODE), child(Status.RUNNING, pid=5, last_exit=CODE), "running (pid 5)"),
        (
            child(Status.STARTING),
            child(Status.PENDING, last_exit=NOT_STARTED, next_try_at=10.1),
            "ended: there is no 'web'; next try in 0.1s",
        ),
        (
            UP,
            child(Status.FAILED, last_exit=CODE, exhausted=True, restarts=5, reason="exit 3; restarted 5 times"),
            "ended with exit 3; given up after 5 restarts",
        ),
        (
            UP,
            child(Status.FAILED, last_exit=CODE, exhausted=True, restarts=1),
            "ended with exit 3; given up after 1 restart",
        ),
        (UP, child(Status.FAILED, last_exit=CODE, reason="exit 3"), "ended with exit 3; failed"),
        (UP, child(Status.FAILED, reason="a sibling failed"), "failed; a sibling failed"),
        (UP, child(Status.STOPPING, pid=4), "stopping"),
        (UP, child(Status.STOPPING, pid=4, reason="not well: no answer"), "stopping; not well: no answer"),
        (
            child(Status.STOPPING),
            child(Status.PENDING, last_exit=NOT_WELL, next_try_at=10.5),
            "ended by signal 15 (SIGTERM), not well: no answer; next try in 0.5s",
        ),
        (child(Status.STOPPING), child(Status.STOPPED, last_exit=Exit(at=9.0, code=0)), "ended with exit 0; stopped"),
        (child(Status.STOPPING), child(Status.KILLED, last_exit=SIGNAL), "ended by signal 9 (SIGKILL); killed"),
        (UP, child(Status.FINISHED, last_exit=Exit(at=9.0, code=0)), "ended with exit 0; finished"),
        (UP, child(Status.SUSPENDED, pid=4), "suspended"),
    ],
)
def test_a_change_in_words(before: ChildInfo | None, after: ChildInfo | None, words: str) -> None:
    assert in_words(Change(at=10.0, path="services/web", before=before, after=after)) == words


@pytest.mark.parametrize("status", Status)
def test_every_status_has_words(status: Status) -> None:
    assert in_words(Change(at=10.0, path="web", before=UP, after=child(status))) == status.value
