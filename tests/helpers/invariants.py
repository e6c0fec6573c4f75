"""What must hold of a database whatever was killed, when, and how often; read from the file itself."""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import msgspec

from interlock.model.letter import CODE_OF
from interlock.model.run import Transition
from interlock.model.state import ALLOWED, TERMINAL, State
from soak.simulation.history import replay

FIRST = (State.PRERUN, State.PENDING)
STARTED = (State.DISPATCHED, State.RUNNING)


def check_database(path: Path, acknowledged: Collection[str]) -> dict[str, State]:
    """Check every run; all of `acknowledged` must be there and have ended. Returns the state of each."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        histories = _histories(connection)
        runs = connection.execute(
            "SELECT id, state, previous, seq, attempt, fence, ended_at, outcome, result, idempotency_key FROM runs"
        ).fetchall()
        keys = connection.execute(
            "SELECT tenant, idempotency_key, run_id FROM idempotency_keys WHERE idempotency_key IS NOT NULL"
        ).fetchall()
        letters = {row[0] for row in connection.execute("SELECT id FROM records WHERE kind = 'letter'")}
    states: dict[str, State] = {}
    for run_id, state, previous, seq, attempt, fence, ended_at, outcome, result, _ in runs:
        history = histories.pop(run_id)
        states[run_id] = State(state)
        assert replay(history) is State(state), run_id
        _check_history(history, seq, attempt, fence)
        assert history[-1].before == previous, run_id
        assert (ended_at is not None) == (State(state) in TERMINAL), run_id
        # The result is stored with the state it ends in, and only with that one.
        assert (result is not None) == (state == State.SUCCEEDED), run_id
        if state == State.SUCCEEDED:
            assert outcome == "succeeded", run_id
    assert histories == {}, "histories without a run"
    lost = set(acknowledged) - set(states)
    assert not lost, f"acknowledged and lost: {lost}"
    unfinished = {run_id: states[run_id] for run_id in acknowledged if states[run_id] not in TERMINAL}
    assert not unfinished, f"acknowledged and not ended: {unfinished}"
    assert not {run_id for run_id in letters if states[run_id] is State.SUCCEEDED}, "a dead letter that succeeded"
    assert letters == {run_id for run_id, state in states.items() if state in CODE_OF}
    with_key = {row[0]: row[9] for row in runs if row[9] is not None}
    assert {run_id: key for _, key, run_id in keys} == with_key
    assert len(set(with_key.values())) == len(with_key), "one key, two runs"
    return states


def _histories(connection: sqlite3.Connection) -> dict[str, list[Transition]]:
    found: dict[str, list[Transition]] = {}
    for run_id, entries in connection.execute("SELECT run_id, entries FROM history ORDER BY run_id, seq"):
        found.setdefault(run_id, []).extend(msgspec.msgpack.decode(entries, type=list[Transition]))
    return found


def _check_history(history: list[Transition], seq: int, attempt: int, fence: int) -> None:
    assert history[0].after in FIRST
    assert [entry.seq for entry in history] == list(range(1, seq + 1))
    for entry in history[1:]:
        assert entry.before is not None
        assert entry.after in ALLOWED[entry.before]
    assert sum(entry.after in TERMINAL for entry in history) <= 1
    dispatches = sum(entry.after is State.DISPATCHED for entry in history)
    assert fence >= dispatches == attempt
    # An attempt runs at most once: a second start needs a new dispatch, under a new fence.
    for before, after in pairwise(history):
        assert not (before.after in STARTED and before.after is after.after)
