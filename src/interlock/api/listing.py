"""A page of a list that is read from the store."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from interlock.api.call import HttpCall
from interlock.api.cursors import cursor_of, read_cursor


class Rows(Protocol):
    @property
    def next(self) -> int | None: ...


R = TypeVar("R", bound=Rows)


async def read_page(
    call: HttpCall[Any], nothing: R, read: Callable[[str | None, int | None, int], Awaitable[R]]
) -> tuple[R, str | None]:
    """Return the rows of a page and the cursor of the next. `read` gets the tenant that the list is limited to, None
    for all, the position at which the page begins, and its size. Things of another tenant do not exist for the caller:
    asked for them, this returns `nothing`."""
    request, caller = call.request, call.caller
    begin = read_cursor(request.cursors, request.cursor)
    if request.tenant is not None and not caller.sees(request.tenant):
        return nothing, None
    rows = await read(caller.only_tenant or request.tenant, begin, request.limit)
    return rows, None if rows.next is None else cursor_of(request.cursors, rows.next)
