"""What the database says, looked at while everything happens; triggers keep aside what is pruned."""

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.model.run import Transition
from interlock.model.state import HOLDS_SLOT, TERMINAL

ASIDE = """
CREATE TABLE chaos_runs AS SELECT * FROM runs WHERE 0;
CREATE TABLE chaos_history AS SELECT * FROM history WHERE 0;
CREATE INDEX chaos_positions ON chaos_history (position);
CREATE VIEW chaos_entries AS SELECT * FROM chaos_history UNION ALL SELECT * FROM history;
CREATE TRIGGER chaos_keep_runs BEFORE DELETE ON runs BEGIN
  INSERT INTO chaos_runs SELECT * FROM runs WHERE number = old.number;
END;
CREATE TRIGGER chaos_keep_history BEFORE DELETE ON history BEGIN
  INSERT INTO chaos_history SELECT * FROM history WHERE position = old.position;
END;
"""
HISTORY = "SELECT position, run_id, entries FROM chaos_entries WHERE position > ? ORDER BY position"
RUNS = "SELECT id, job_id, idempotency_key, state, attempt, crashes, ended_at, scheduled_at FROM {}"
SLOTS = ", ".join(f"'{state}'" for state in sorted(HOLDS_SLOT))
LANES = f"SELECT lane, count(*) FROM runs WHERE ended_at IS NULL AND state IN ({SLOTS}) GROUP BY lane"


class Run(NamedTuple):
    id: str
    job_id: str
    key: str | None
    state: str
    attempt: int
    crashes: int
    ended_at: float | None
    scheduled_at: float


class Record:
    def __init__(self, database: Path, lanes: dict[str, int]) -> None:
        self._database = database
        self._lanes = lanes
        self._position = 0
        self.ended: dict[str, float] = {}
        """when each run was first seen to have ended, by the monotonic clock"""
        self.looks = 0
        self.overfull: list[str] = []

    def open(self) -> None:
        connection = sqlite3.connect(self._database, timeout=10)
        connection.executescript(ASIDE)
        connection.close()
        name = f"{self._database.as_uri()}?mode=ro"
        self._connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)

    def look(self) -> None:
        """Note which runs have ended since the last look, and how full the lanes are in this instant."""
        with suppress(sqlite3.OperationalError):
            lanes = self._connection.execute(LANES).fetchall()
            rows = self._connection.execute(HISTORY, (self._position,)).fetchall()
            now = time.monotonic()
            self.looks += 1
            self.overfull += [f"{lane}: {held} at {now:.3f}" for lane, held in lanes if held > self._lanes[lane]]
            for position, run_id, entries in rows:
                self._position = position
                if _decode(entries)[-1].after in TERMINAL:
                    self.ended.setdefault(run_id, now)

    def runs(self, is_pruned: bool) -> list[Run]:
        return [Run(*row) for row in self._connection.execute(RUNS.format("chaos_runs" if is_pruned else "runs"))]

    def histories(self) -> dict[str, list[Transition]]:
        """Of every run there ever was."""
        found: dict[str, list[Transition]] = {}
        for _, run_id, entries in self._connection.execute(HISTORY, (0,)):
            found.setdefault(run_id, []).extend(_decode(entries))
        return found

    def damage(self) -> list[str]:
        return [text for (text,) in self._connection.execute("PRAGMA integrity_check") if text != "ok"]


def _decode(entries: bytes) -> list[Transition]:
    return msgspec.msgpack.decode(entries, type=list[Transition])
