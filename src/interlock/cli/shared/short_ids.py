"""The shortest beginnings of ids, which every command takes in place of the ids."""

import re
import time
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from interlock.client.http.client import Client

T = TypeVar("T", bound=msgspec.Struct)

NEWEST = 200  # runs whose ids are compared
APART = 16  # characters in which two ids always differ: the time, and a number within the millisecond
ID = re.compile(r"[0-9a-f]{28}")  # form of an id, unless it is an occurrence's


def with_short_ids(client: "Client", items: Sequence[T], field: str = "id") -> list[T]:
    """Return the items with the shortest beginning of each run's id that names no other run, now or later."""
    newest = [run.id for run in client.runs(limit=NEWEST)] if items else []
    short = short_ids([getattr(item, field) for item in items], newest, time.time())
    return [msgspec.structs.replace(item, **{field: short[getattr(item, field)]}) for item in items]


def short_ids(ids: Sequence[str], newest: Sequence[str], now: float) -> dict[str, str]:
    """Return the shortest unique beginning of each id. `newest` are the ids of all runs, or of the newest `NEWEST`: of
    an older run, `APART` characters are unique. A later run has a greater id than one made `now`."""
    oldest = min(filter(ID.fullmatch, newest), default="") if len(newest) >= NEWEST else ""
    known = sorted({*newest, *ids, f"{int(now * 1000):012x}"})
    found = {}
    for before, run_id, after in zip(["", *known], known, [*known[1:], ""], strict=False):
        size = 1 + max(_shared(run_id, before), _shared(run_id, after))
        found[run_id] = run_id[: max(size, APART if run_id <= oldest else 0)]
    return {run_id: found[run_id] if ID.fullmatch(run_id) else run_id for run_id in ids}


def short_id(run_id: str) -> str:
    """Return a beginning that is unique whatever other runs there are."""
    return run_id[:APART] if ID.fullmatch(run_id) else run_id


def _shared(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
