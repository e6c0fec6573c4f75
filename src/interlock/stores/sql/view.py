"""The view of a store's tables that an answer is made from."""

from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]
Key = str | tuple[str, str]
NOTHING: Mapping[str, Any] = {}


class View(Protocol):
    def rows(self, name: str, values: Mapping[str, Any] = NOTHING) -> AsyncIterator[Row]:
        """Yield the rows of a statement. A list among the values is a set of numbers or texts."""

    async def first(self, name: str, values: Mapping[str, Any] = NOTHING) -> Row | None: ...

    def each(self, name: str, keys: Collection[Key], *given: float) -> AsyncIterator[tuple[Any, Row]]:
        """Yield each key with each of its rows in the answer of a statement about one key; `given` are its further
        values."""


async def only(view: View, name: str, values: Mapping[str, Any] = NOTHING) -> Row:
    """Return the row of a statement that always has one."""
    row = await view.first(name, values)
    assert row is not None
    return row


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("it waits")
