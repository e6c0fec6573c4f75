"""Deleting runs that have ended: which they are is found beside the writer, which then deletes them part by part."""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from interlock.ports.store import MOST_PRUNED
from interlock.stores.sqlite.queries import QUERIES
from interlock.stores.sqlite.reader import one_view, read_position

MOST_AT_ONCE = 1000
"""rows and pages that one transaction deletes, unless a single run has more: others wait for so long to write"""
MOST_IN_A_CALL = 20_000

PARTS = ("prune_history", "prune_logs", "prune_checkpoints", "prune_keys", "prune_runs")
"""in this order, for the runs tell what belongs to them"""


class Prunable(msgspec.Struct, frozen=True):
    parts: list[list[int]]
    """the numbers of runs, by the transactions that are to delete them"""
    more: bool


def find_prunable(most: int, ended_before: float, connection: sqlite3.Connection) -> Prunable:
    """Runs that are too old, or too many of their job."""
    with one_view(connection):
        found = _find(most, ended_before, connection)
        weights = connection.execute(QUERIES["weigh_runs"], {"numbers": _json(found[:MOST_PRUNED])}).fetchall()
    parts = _divided(weights)
    return Prunable(parts, sum(map(len, parts)) < len(found))


def _find(most: int, ended_before: float, connection: sqlite3.Connection) -> list[int]:
    """Their numbers: all of them, or more than one call deletes."""
    first, last = connection.execute(QUERIES["get_number_range"]).fetchone()
    owner = connection.execute(QUERIES["get_number_at"], {"position": read_position(connection)}).fetchone()
    stays = {last} if owner is None else {last, owner[0]}
    enough = MOST_PRUNED + 1 + len(stays)
    last_old = _last_created_before(connection, ended_before, first, last)
    values = {"last": last_old, "ended_before": ended_before, "limit": enough}
    old = {row[0] for row in connection.execute(QUERIES["find_old_runs"], values)} - stays
    if len(old) > MOST_PRUNED or last - first < most:
        return sorted(old)
    values = {"most": most, "limit": enough + len(old)}
    return sorted(old.union(row[0] for row in connection.execute(QUERIES["find_surplus_runs"], values)) - stays)


def _last_created_before(connection: sqlite3.Connection, instant: float, low: int, high: int) -> int:
    """Up to which number runs may have ended before that, as they were created before it. Numbers follow time, roughly:
    where the clock was set back, some are found later."""
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(QUERIES["get_created"], (middle,)).fetchone()
        if row is not None and row[0] < instant:
            low = middle
        else:
            high = middle - 1
    return low


def _divided(weights: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The numbers of as many runs as one call may delete, in parts that one transaction may."""
    parts: list[list[int]] = []
    total = room = 0
    for number, weight in weights:
        if total >= MOST_IN_A_CALL:
            break
        if weight > room or not parts:
            parts.append([])
            room = MOST_AT_ONCE
        parts[-1].append(number)
        room -= weight
        total += weight
    return parts


def prune(numbers: Sequence[int], connection: sqlite3.Connection) -> int:
    values = {"numbers": _json(numbers)}
    for name in PARTS:
        deleted = connection.execute(QUERIES[name], values).rowcount
    return deleted


def _json(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()
