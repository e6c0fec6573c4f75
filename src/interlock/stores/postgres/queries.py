"""The statements of PostgreSQL, and its view of the tables."""

import re
from collections.abc import AsyncIterator, Collection, Mapping
from functools import cache
from typing import Any

import asyncpg
import msgspec

from interlock.stores.sql.queries import shared
from interlock.stores.sql.view import NOTHING, Key, Row

AT_ONCE = 1000  # rows that come with one answer of the server

# PostgreSQL keeps no NUL in a text. Unicode reserves these two for use inside a program.
_NUL, _MARK = "\0", "\ufdd0\ufdd1"
_MARK_BYTES = _MARK.encode()

_DIALECT = {
    "least": "least",
    "find": "strpos",
    "log_bytes": "octet_length(replace(logs.text, chr(64976) || chr(64977), '-'))",
    "last_character": "chr(1114111)",
    "numbers": "(SELECT unnest(:numbers))",
    "found": "(SELECT unnest(:found))",
    "states": "(SELECT unnest(:states))",
    "is_call": "idempotency_key LIKE 'call-%'",
    "is_unsuccessful": "unsuccessful",
    "root_id": "split_part(runs.id, '@', 1)",
    "violation_run_id": """substring(text FROM '"run_id":"([^"]*)"')""",
    "violation_job_id": """substring(text FROM '"job_id":"([^"]*)"')""",
    "violation_tenant": """substring(text FROM '"tenant":"([^"]*)"')""",
}
_TYPES = {
    "boolean": "is_due is_step live of_letters",
    "bigint": "after before cut first floor last limit most most_bytes most_lines most_with_prefix newest number "
    "position reach small_payload surplus unreached",
    "bigint[]": "found numbers",
    "double precision": "created_before ended_before now occurrences_before since until",
    "text": "actor created_by id_prefix job job_id kind lane parent queue root run run_id service session state "
    "subject tenant",
    "text[]": "states",
}
_TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_WORD = re.compile(r"'[^']*'|(?<!:):(\w+)|\b(?:INDEXED BY \w+|NOT INDEXED)\b|\bCROSS (?=JOIN)|\?(\d?)")


class Statement(msgspec.Struct, frozen=True):
    text: str
    names: tuple[str, ...]  # of its values, in order


@cache
def statements() -> dict[str, str]:
    own = {
        "get_unreached": "SELECT unreached(:of_letters)",
        "get_positions": "SELECT coalesce(max(position), 0) FROM leases",
    }
    return shared(_DIALECT) | own


@cache
def statement(name: str) -> Statement:
    """Return a statement as PostgreSQL has it: with numbers for its values, and their types."""
    names: dict[str, int] = {}

    def replaced(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0] if match[0].startswith("'") else ""
        return f"${names.setdefault(match[1], len(names) + 1)}::{_TYPE_OF[match[1]]}"

    return Statement(_WORD.sub(replaced, statements()[name]), tuple(names))


@cache
def statement_for_each(name: str, width: int) -> str:
    """Return the statement that answers one about a single key of `width` texts for many keys at once."""
    count = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal count
        if match[2] is None:
            return match[0] if match[0].startswith("'") else ""
        count += not match[2]
        place = int(match[2] or count)
        return f"asked.key{place}" if place <= width else f"${place}::double precision"

    body = _WORD.sub(replaced, statements()[name].rstrip(";"))
    keys = ", ".join(f"key{place}" for place in range(1, width + 1))
    given = ", ".join(f"${place}::text[]" for place in range(1, width + 1))
    return f"SELECT asked.*, answer.* FROM unnest({given}) AS asked ({keys}) CROSS JOIN LATERAL ({body}) AS answer"


class PostgresView:
    def __init__(self, connection: asyncpg.Connection, whole: bool) -> None:
        """`whole`: in a transaction."""
        self._connection = connection
        self._whole = whole

    async def rows(self, name: str, values: Mapping[str, Any] = NOTHING) -> AsyncIterator[Row]:
        found = statement(name)
        given = [without_nul(values[name]) for name in found.names]
        if self._whole:
            async for record in self._connection.cursor(found.text, *given, prefetch=AT_ONCE):
                yield as_stored(record)
        else:
            for record in await self._connection.fetch(found.text, *given):
                yield as_stored(record)

    async def first(self, name: str, values: Mapping[str, Any] = NOTHING) -> Row | None:
        found = statement(name)
        record = await self._connection.fetchrow(found.text, *[without_nul(values[name]) for name in found.names])
        return None if record is None else as_stored(record)

    async def each(self, name: str, keys: Collection[Key], *given: float) -> AsyncIterator[tuple[Any, Row]]:
        if not keys:
            return
        has_pairs = isinstance(next(iter(keys)), tuple)
        columns = [without_nul(list(column)) for column in (zip(*keys, strict=True) if has_pairs else [keys])]
        width = len(columns)
        for record in await self._connection.fetch(statement_for_each(name, width), *columns, *given):
            row = as_stored(record)
            yield row[:width] if has_pairs else row[0], row[width:]


def as_stored(record: asyncpg.Record) -> Row:
    row = tuple(record)
    # Looking through all columns at once takes a third of the time of looking at each text.
    return with_nul(row) if _MARK_BYTES in msgspec.msgpack.encode(row) else row


def with_nul(row: Row) -> Row:
    return tuple(value.replace(_MARK, _NUL) if isinstance(value, str) else value for value in row)


def without_nul(value: Any) -> Any:
    """Return a value of a call, or rows of values, that PostgreSQL can keep."""
    if isinstance(value, str):
        return value.replace(_NUL, _MARK)
    return type(value)(map(without_nul, value)) if isinstance(value, (list, tuple)) else value
