"""The stream of a run, made from its events."""

import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from interlock.error import BadValue, StreamCut
from interlock.interface.run_view import Chunk, ChunkEvent, Event

if TYPE_CHECKING:
    from interlock.client.http.event_stream import EventOptions


async def chunks_of(
    events: Callable[["EventOptions"], AsyncIterator[tuple[str | None, Event]]], run_id: str, after: str | None
) -> AsyncIterator[Chunk]:
    """Yield the chunks of a run after the one with this id, until the run has ended.

    The id of a chunk is that of its event; if others follow in the same event, also its number there: `e120.2`.
    """
    asked: EventOptions = {"run": run_id, "types": "chunk"}
    known, seen = _position(after) if after is not None else (0, 0)
    if after is not None:
        asked["after"] = f"e{known - 1 if seen else known}"
    async for event_id, event in events(asked):
        if not isinstance(event, ChunkEvent):
            continue
        if not event.chunks:
            raise StreamCut(run_id)
        for number, value in enumerate(event.chunks, start=1):
            if number > seen or event_id != f"e{known}":
                is_last = number == len(event.chunks)
                yield Chunk(value, event.attempt, str(event_id) if is_last else f"{event_id}.{number}")


def _position(chunk_id: str) -> tuple[int, int]:
    """Return the position of an event, and how many of its chunks are known; 0 for all of them."""
    found = re.fullmatch(r"e([1-9][0-9]{0,17})(?:\.([1-9][0-9]{0,8}))?", chunk_id)
    if found is None:
        raise BadValue("after", chunk_id, "the id of a chunk")
    return int(found[1]), int(found[2] or 0)
