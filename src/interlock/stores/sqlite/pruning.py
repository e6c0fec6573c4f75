"""Prune ended runs, keys and the services' log: search beside the writer, which then deletes part by part."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from interlock.model.letter import DeadLetter
from interlock.model.record import Record
from interlock.ports.store import HURRIED, MOST_PRUNED, PruneLimits
from interlock.stores.sqlite.database import one_view
from interlock.stores.sqlite.queries import QUERIES
from interlock.stores.sqlite.reader import read_position

MOST_AT_ONCE = 1000
"""rows and pages that one transaction deletes, unless a single run has more: other writes wait as long"""
MOST_IN_A_CALL = 20_000
HURRIED_AT_ONCE = 10  # times more in a hurried transaction: as many runs as one commit of a busy scheduler ends

PARTS = (
    "prune_history", "prune_logs", "prune_checkpoints", "prune_payloads", "prune_records", "prune_runs",
)  # fmt: skip
"""in this order, because the others are found by their runs"""


class Counted(msgspec.Struct, frozen=True):
    """The number of runs when the last one had this number. New runs have the next numbers, so that runs are counted
    only once."""

    runs: int
    last: int


UNCOUNTED = Counted(0, -1)


class Prunable(msgspec.Struct, frozen=True):
    parts: list[list[int]]  # the numbers of runs, by transaction
    more: bool
    counted: Counted


def find_prunable(limits: PruneLimits, counted: Counted, connection: sqlite3.Connection) -> Prunable:
    """Find runs that are too old, or beyond the limit of their job or of all."""
    with one_view(connection):
        first, last = connection.execute(QUERIES["get_number_range"]).fetchone()
        if counted is UNCOUNTED and last - first >= limits.total:
            counted = Counted(connection.execute(QUERIES["count_runs"]).fetchone()[0], last)
        elif counted is not UNCOUNTED:
            counted = Counted(counted.runs + last - counted.last, last)
        found = _find(limits, first, last, counted, connection)
        weights = connection.execute(QUERIES["weigh_runs"], {"numbers": _json(found[: limits.runs])}).fetchall()
    parts = _divided(weights, limits.hurry)
    return Prunable(parts, sum(map(len, parts)) < len(found), counted)


def _find(limits: PruneLimits, first: int, last: int, counted: Counted, connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of all such runs, or more than one call deletes."""
    owner = connection.execute(QUERIES["get_number_at"], {"position": read_position(connection)}).fetchone()
    stays = {last} if owner is None else {last, owner[0]}
    # A workflow is pruned with its steps.
    stays |= {row[0] for row in connection.execute(QUERIES["find_roots"], {"numbers": _json(sorted(stays))})}
    enough = limits.runs + 1 + len(stays)
    unreached = _unreached(connection)

    def find(name: str, limit: int, **values: float | str) -> set[int]:
        values |= {"limit": limit, "occurrences_before": limits.occurrences_before, "unreached": unreached}
        return {row[0] for row in connection.execute(QUERIES[name], values)} - stays

    last_old = _last_created_before(connection, "get_created", limits.ended_before, first, last)
    found = find("find_old_runs", enough, last=last_old, ended_before=limits.ended_before)
    if len(found) <= limits.runs and last - first >= limits.most:
        found |= find("find_surplus_runs", enough + len(found), most=limits.most)
    surplus = counted.runs - len(found) - limits.total
    if len(found) <= limits.runs and surplus > 0:
        surplus -= connection.execute(QUERIES["count_all_live"]).fetchone()[0]
        found |= find("find_oldest_runs", enough, first=first, found=_json(sorted(found)), surplus=max(0, surplus))
    return sorted(found)


def _unreached(connection: sqlite3.Connection, of_letters: bool = False) -> int:
    """Return the number below which retries under way have not looked at runs, or letters."""
    return int(connection.execute(QUERIES["get_unreached"], {"of_letters": of_letters}).fetchone()[0])


def _last_created_before(connection: sqlite3.Connection, query: str, instant: float, low: int, high: int) -> int:
    """Return the number up to which rows may have been created before `instant`. Numbers follow time, except where the
    clock was set back; then some rows are found later."""
    while low < high:
        middle = (low + high + 1) // 2
        row = connection.execute(QUERIES[query], (middle,)).fetchone()
        if row is not None and row[0] < instant:
            low = middle
        else:
            high = middle - 1
    return low


def _divided(weights: Iterable[tuple[int, int]], hurry: bool) -> list[list[int]]:
    """Divide as many runs as one call may delete into transactions."""
    parts: list[list[int]] = []
    total = room = 0
    for number, weight in weights:
        if total >= (MOST_IN_A_CALL * HURRIED if hurry else MOST_IN_A_CALL):
            break
        if weight > room or not parts:
            parts.append([])
            room = MOST_AT_ONCE * HURRIED_AT_ONCE if hurry else MOST_AT_ONCE
        parts[-1].append(number)
        room -= weight
        total += weight
    return parts


def find_old_keys(created_before: float, calls_before: float, connection: sqlite3.Connection) -> list[int]:
    with one_view(connection):
        calls = {"created_before": calls_before, "limit": MOST_PRUNED}
        found = [row[0] for row in connection.execute(QUERIES["find_old_calls"], calls)]
        first, last = connection.execute(QUERIES["get_key_range"]).fetchone()
        last = _last_created_before(connection, "get_key_created", created_before, first, last)
        values = {"last": last, "created_before": created_before, "limit": MOST_PRUNED - len(found)}
        return found + [row[0] for row in connection.execute(QUERIES["find_old_keys"], values)]


def prune_keys(numbers: Sequence[int], connection: sqlite3.Connection) -> int:
    return connection.execute(QUERIES["prune_keys"], {"numbers": _json(numbers)}).rowcount


def prune(numbers: Sequence[int], connection: sqlite3.Connection) -> int:
    """Delete these runs; workflows with all their steps."""
    unreached = _unreached(connection)  # of a retry that may have begun after the search
    values = {"numbers": _json([number for number in numbers if number >= unreached])}
    if steps := [row[0] for row in connection.execute(QUERIES["find_steps"], values)]:
        values = {"numbers": _json([*msgspec.json.decode(values["numbers"]), *steps])}
    for name in PARTS:
        deleted = connection.execute(QUERIES[name], values).rowcount
    return deleted


def prune_records(kind: type[Record], before: float, most: int, connection: sqlite3.Connection) -> int:
    unreached = _unreached(connection, of_letters=kind is DeadLetter)
    values = {"kind": kind.kind, "before": before, "most": most, "limit": MOST_PRUNED, "unreached": unreached}
    keys = connection.execute(QUERIES["find_old_records"], values).fetchall()
    connection.executemany(QUERIES["forget_record"], keys)
    return len(keys)


def find_service_cuts(most_lines: int, most_bytes: int, connection: sqlite3.Connection) -> dict[str, int]:
    """For each service with rows beyond the limits, the position of the newest such row."""
    cuts: dict[str, int] = {}
    for (service,) in connection.execute(QUERIES["get_logged_services"]).fetchall():
        values = {"service": service, "most_lines": min(most_lines, 2**62), "most_bytes": most_bytes}
        # Mostly no row is beyond the limits, which is quick to see.
        if connection.execute(QUERIES["is_beyond"], values).fetchone()[0]:
            cuts.update((service, row[0]) for row in connection.execute(QUERIES["find_cut"], values))
    return cuts


def prune_services(cuts: Mapping[str, int], connection: sqlite3.Connection) -> int:
    newest, pruned = read_position(connection), 0
    for service, cut in cuts.items():
        values = {"service": service, "cut": cut, "newest": newest, "limit": MOST_PRUNED - pruned}
        pruned += connection.execute(QUERIES["prune_service"], values).rowcount
    return pruned


def _json(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()
