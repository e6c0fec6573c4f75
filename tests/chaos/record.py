"""What the database says, looked at while everything happens; triggers keep aside what is pruned."""

import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlock.model.run import Transition
from interlock.model.state import HOLDS_SLOT, TERMINAL, State

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
LOOK = HISTORY.replace("entries FROM", "entries, (SELECT job_id FROM runs WHERE id = run_id) FROM")
COLUMNS = "id, job_id, idempotency_key, state, attempt, crashes, ended_at, scheduled_at, session, number, worker_id"
RUNS = f"SELECT {COLUMNS} FROM {{}}"
TELLING = "SELECT id FROM {} WHERE job_id = 'telling' AND state = 'succeeded'"
TELLING = f"{TELLING.format('runs')} UNION ALL {TELLING.format('chaos_runs')}"
SLOTS = ", ".join(f"'{state}'" for state in sorted(HOLDS_SLOT))
HELD = f"SELECT lane, tenant, job_id FROM runs WHERE ended_at IS NULL AND state IN ({SLOTS})"


class Run(NamedTuple):
    id: str
    job_id: str
    key: str | None
    state: str
    attempt: int
    crashes: int
    ended_at: float | None
    scheduled_at: float
    session: str | None
    number: int
    worker_id: str | None


class Look(NamedTuple):
    before: float
    after: float
    paced: int
    """starts of the paced job since the look before"""


class Away(Exception):
    """The database cannot be read at the moment."""


class Database(ABC):
    @abstractmethod
    def prepare(self) -> None:
        """Connect, and keep aside from now on what is pruned."""

    @abstractmethod
    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return what a query finds; raise `Away`."""

    @abstractmethod
    def damage(self) -> list[str]: ...


class SqliteDatabase(Database):
    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self) -> None:
        connection = sqlite3.connect(self._path, timeout=10)
        connection.executescript(ASIDE)
        connection.close()
        name = f"{self._path.as_uri()}?mode=ro"
        self._connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)

    def rows(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            raise Away from error

    def damage(self) -> list[str]:
        return [text for (text,) in self.rows("PRAGMA integrity_check") if text != "ok"]


class Record:
    def __init__(self, database: Database, limits: dict[str, dict[str, int]]) -> None:
        """`limits` are the most runs that may hold a slot at once: of lanes, tenants and jobs, by name."""
        self.database = database
        self._limits = limits
        self._position = 0
        self.ended: dict[str, float] = {}
        """when each run was first seen to have ended, by the monotonic clock"""
        self.looks: list[Look] = []
        self.overfull: dict[str, list[str]] = {kind: [] for kind in limits}

    def look(self) -> None:
        """Note which runs have ended since the last look, and how full the lanes are in this instant."""
        with suppress(Away):
            before, paced = time.monotonic(), 0
            held = self.database.rows(HELD)
            rows = self.database.rows(LOOK, self._position)
            now = time.monotonic()
            for place, (kind, limits) in enumerate(self._limits.items()):
                counts = Counter(row[place] for row in held)
                wrong = [f"{name}: {counts[name]} at {now:.3f}" for name, most in limits.items() if counts[name] > most]
                self.overfull[kind] += wrong
            for position, run_id, found, job_id in rows:
                self._position = position
                entries = _decode(found)
                if entries[-1].after in TERMINAL:
                    self.ended.setdefault(run_id, now)
                paced += sum(entry.after is State.DISPATCHED for entry in entries) if job_id == "paced" else 0
            self.looks.append(Look(before, now, paced))

    def runs(self, is_pruned: bool) -> list[Run]:
        return [Run(*row) for row in self.database.rows(RUNS.format("chaos_runs" if is_pruned else "runs"))]

    def told(self) -> set[str]:
        """The runs that a webhook reports: they succeed, and their job has one."""
        with suppress(Away):
            return {run_id for (run_id,) in self.database.rows(TELLING)}
        return set()

    def histories(self) -> dict[str, list[Transition]]:
        """Of every run there ever was."""
        found: dict[str, list[Transition]] = {}
        for _, run_id, entries in self.database.rows(HISTORY, 0):
            found.setdefault(run_id, []).extend(_decode(entries))
        return found


def _decode(entries: bytes) -> list[Transition]:
    return msgspec.msgpack.decode(entries, type=list[Transition])
