"""Wait for many runs: `interlock.gather` and `as_completed`, for async and for blocking handles."""

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from interlock.client.handle import RunHandle
from interlock.client.http.sync import finish, iterate
from interlock.error import BadUse, BadValue, InterlockError

if TYPE_CHECKING:  # the blocking client would be loaded with it
    from interlock.client.http.client import BlockingRunHandle

T = TypeVar("T")


@overload
def gather(*handles: RunHandle[T], return_exceptions: Literal[False] = False) -> Coroutine[Any, Any, list[T]]: ...
@overload
def gather(
    *handles: RunHandle[T], return_exceptions: Literal[True]
) -> Coroutine[Any, Any, list[T | InterlockError]]: ...
@overload
def gather(*handles: "BlockingRunHandle[T]", return_exceptions: Literal[False] = False) -> list[T]: ...
@overload
def gather(*handles: "BlockingRunHandle[T]", return_exceptions: Literal[True]) -> list[T | InterlockError]: ...
def gather(*handles: Any, return_exceptions: bool = False) -> Any:
    """Wait for runs and return their results in the order of the handles. Await it, unless the handles are blocking.

    The first run that does not succeed raises its error at once; the others continue. With `return_exceptions`, the
    list holds errors in place of results.
    """
    targets, blocking = _targets(handles)
    if not targets:
        return _Nothing()
    results = _gather(targets, return_exceptions)
    return finish(results) if blocking else results


@overload
def as_completed(handles: Iterable[RunHandle[T]]) -> AsyncIterator[RunHandle[T]]: ...
@overload
def as_completed(handles: Iterable["BlockingRunHandle[T]"]) -> Iterator["BlockingRunHandle[T]"]: ...
def as_completed(handles: Iterable[Any]) -> Any:
    """Yield handles as their runs end; their `result()` then returns at once. Use `async for`, unless the handles are
    blocking."""
    given = list(handles)
    targets, blocking = _targets(given)
    if not targets:
        return _Nothing()
    ended = _as_completed(targets, given)
    return iterate(ended) if blocking else ended


class _Nothing(list[Any]):
    """An empty result that is both async and blocking, for a call without handles."""

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        yield from ()
        return self

    async def __aiter__(self) -> AsyncIterator[Any]:
        for nothing in self:
            yield nothing


def _targets(handles: Sequence[Any]) -> tuple[list[RunHandle[Any]], bool]:
    """Return the async handles, and whether the given ones are blocking."""
    found: list[Any] = [
        handle if isinstance(handle, RunHandle) else getattr(handle, "_target", None) for handle in handles
    ]
    for place, one in enumerate(found):
        if not isinstance(one, RunHandle):
            kind = type(handles[place]).__name__
            raise BadValue(f"handles[{place}]", kind, "a handle; give the values of submit, and a list as *handles")
    kinds = {(type(given), id(one._access)) for given, one in zip(handles, found, strict=True)}
    if len(kinds) > 1:
        raise BadUse("handles", "come from several apps or clients; wait for each group separately")
    return found, bool(found) and found[0] is not handles[0]


async def _as_completed(handles: Sequence[RunHandle[Any]], given: Sequence[T]) -> AsyncGenerator[T, None]:
    """Yield the given values of handles as their runs end."""
    places: dict[str, list[int]] = {}
    for place, handle in enumerate(handles):
        places.setdefault(handle.id, []).append(place)
    async with aclosing(handles[0]._access.endings(places)) as endings:
        async for ending in endings:
            for place in places[ending.run_id]:
                handles[place]._ending = ending
                yield given[place]


async def _gather(handles: Sequence[RunHandle[Any]], return_exceptions: bool) -> list[Any]:
    found: dict[int, Any] = {}
    async with aclosing(_as_completed(handles, range(len(handles)))) as places:
        async for place in places:
            try:
                found[place] = await handles[place].result()
            except InterlockError as error:
                if not return_exceptions:
                    raise
                found[place] = error
    return [found[place] for place in range(len(handles))]
