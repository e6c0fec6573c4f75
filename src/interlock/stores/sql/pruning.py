"""Find the runs, keys and rows of services to prune, beside the writer, which then deletes them part by part."""

from collections.abc import Iterable

import msgspec

from interlock.ports.store import HURRIED, MOST_PRUNED, PruneLimits
from interlock.stores.sql.lookups import read_position
from interlock.stores.sql.view import View, only

MOST_AT_ONCE = 1000
"""rows and pages that one transaction deletes, unless a single run has more: other writes wait as long"""
MOST_IN_A_CALL = 20_000
HURRIED_AT_ONCE = 10  # times more in a hurried transaction: as many runs as one commit of a busy scheduler ends


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


async def find_prunable(limits: PruneLimits, counted: Counted, view: View) -> Prunable:
    """Find runs that are too old, or beyond the limit of their job or of all."""
    first, last = await only(view, "get_number_range")
    if counted is UNCOUNTED and last - first >= limits.total:
        counted = Counted((await only(view, "count_runs"))[0], last)
    elif counted is not UNCOUNTED:
        counted = Counted(counted.runs + last - counted.last, last)
    found = await _find(limits, first, last, counted, view)
    weights = [(row[0], row[1]) async for row in view.rows("weigh_runs", {"numbers": found[: limits.runs]})]
    parts = _divided(weights, limits.hurry)
    return Prunable(parts, sum(map(len, parts)) < len(found), counted)


async def _find(limits: PruneLimits, first: int, last: int, counted: Counted, view: View) -> list[int]:
    """Return the numbers of all such runs, or more than one call deletes."""
    owner = await view.first("get_number_at", {"position": await read_position(view)})
    stays = {last} if owner is None else {last, owner[0]}
    # A workflow is pruned with its steps.
    stays |= {row[0] async for row in view.rows("find_roots", {"numbers": sorted(stays)})}
    enough = limits.runs + 1 + len(stays)
    unreached = await read_unreached(view)

    async def find(name: str, limit: int, **values: float | list[int]) -> set[int]:
        values |= {"limit": limit, "occurrences_before": limits.occurrences_before, "unreached": unreached}
        return {row[0] async for row in view.rows(name, values)} - stays

    last_old = await _last_created_before(view, "get_created", limits.ended_before, first, last)
    found = await find("find_old_runs", enough, last=last_old, ended_before=limits.ended_before)
    if len(found) <= limits.runs and last - first >= limits.most:
        found |= await find("find_surplus_runs", enough + len(found), most=limits.most)
    surplus = counted.runs - len(found) - limits.total
    if len(found) <= limits.runs and surplus > 0:
        surplus -= (await only(view, "count_all_live"))[0]
        found |= await find("find_oldest_runs", enough, first=first, found=sorted(found), surplus=max(0, surplus))
    return sorted(found)


async def read_unreached(view: View, of_letters: bool = False) -> int:
    """Return the number below which retries under way have not looked at runs, or letters."""
    return int((await only(view, "get_unreached", {"of_letters": of_letters}))[0])


async def _last_created_before(view: View, query: str, instant: float, low: int, high: int) -> int:
    """Return the number up to which rows may have been created before `instant`. Numbers follow time, except where the
    clock was set back; then some rows are found later."""
    while low < high:
        middle = (low + high + 1) // 2
        row = await view.first(query, {"number": middle})
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


async def find_old_keys(created_before: float, calls_before: float, view: View) -> list[int]:
    calls = {"created_before": calls_before, "limit": MOST_PRUNED}
    found: list[int] = [row[0] async for row in view.rows("find_old_calls", calls)]
    first, last = await only(view, "get_key_range")
    last = await _last_created_before(view, "get_key_created", created_before, first, last)
    values = {"last": last, "created_before": created_before, "limit": MOST_PRUNED - len(found)}
    return found + [row[0] async for row in view.rows("find_old_keys", values)]


async def find_service_cuts(most_lines: int, most_bytes: int, view: View) -> dict[str, int]:
    """For each service with rows beyond the limits, the position of the newest such row."""
    cuts: dict[str, int] = {}
    for (service,) in [row async for row in view.rows("get_logged_services")]:
        values = {"service": service, "most_lines": min(most_lines, 2**62), "most_bytes": most_bytes}
        # Mostly no row is beyond the limits, which is quick to see.
        if (await only(view, "is_beyond", values))[0]:
            row = await view.first("find_cut", values)
            cuts |= {} if row is None else {service: row[0]}
    return cuts
