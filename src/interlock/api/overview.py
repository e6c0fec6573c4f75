"""The overview: the scheduler's part, and what the store and the tree add to it.

It is made at most once a second for callers with the same view, and only while somebody asks or reads. Dead letters are
counted less often."""

import asyncio
import time
from collections.abc import Callable

from msgspec.structs import replace

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.feed import Feed
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.fields.safe_text import counted
from interlock.interface.overview_operations import ReadOverview
from interlock.model.child_info import ChildInfo, Status
from interlock.model.letter import DeadLetter
from interlock.model.overview import Need, NeedKind, Overview
from interlock.model.record import RecordFilter
from interlock.ports.store import Reader
from interlock.wire.overview_request import AskOverview
from interlock.wire.service_request import AskTree

FRESH = 1.0  # seconds for which an overview is given out again
LETTERS_FRESH = 10.0  # the same for dead letters
LETTERS_FOR = 86_400.0  # age of the oldest dead letters that are counted
WATCHED = {"services": "service", "workers": "worker"}  # children of the top whose descendants must be up
DOWN = frozenset({Status.PENDING, Status.FAILED, Status.KILLED})

View = str | None  # the one tenant that is seen, None for all


class Overviews:
    def __init__(
        self, reader: Reader, connection: Connection, feed: Feed, now: Callable[[], float] = time.time
    ) -> None:
        self._reader = reader
        self._connection = connection
        self._now = now
        self._known: dict[View, tuple[float, asyncio.Task[Overview]]] = {}
        self._letters: dict[View, tuple[float, list[Need]]] = {}
        feed.overview_of = self.of
        self.handlers: Handlers = handlers_of(self)

    async def overview(self, call: HttpCall[ReadOverview]) -> Overview:
        asked = call.request.tenant
        if asked is not None and not call.caller.sees(asked):
            asked = ""  # nobody's: what callers may not see does not exist for them
        return await self.of(call.caller.only_tenant if asked is None else asked)

    async def of(self, view: View) -> Overview:
        loop = asyncio.get_running_loop()
        self._known = {one: found for one, found in self._known.items() if loop.time() < found[0] + FRESH}
        if view not in self._known:
            self._known[view] = loop.time(), loop.create_task(self._make(view))
        return await asyncio.shield(self._known[view][1])

    async def _make(self, view: View) -> Overview:
        found = await ask(self._connection, AskOverview(0, view))
        services = [] if view is not None else await self._services()
        approvals = [need for need in found.needs if need.kind is NeedKind.APPROVAL]
        others = [need for need in found.needs if need.kind is not NeedKind.APPROVAL]
        return replace(found, needs=[*approvals, *await self._letter_needs(view), *others, *services])

    async def _letter_needs(self, view: View) -> list[Need]:
        now = asyncio.get_running_loop().time()
        self._letters = {one: found for one, found in self._letters.items() if now < found[0] + LETTERS_FRESH}
        if view not in self._letters:
            wanted = RecordFilter(tenant=view, since=self._now() - LETTERS_FOR, is_due=True)
            count = sum((await self._reader.counts(DeadLetter, wanted)).values())
            newest = (await self._reader.records(DeadLetter, wanted, None, 1)).records if count else []
            self._letters[view] = now, [_letters(count, letter) for letter in newest]
        return self._letters[view][1]

    async def _services(self) -> list[Need]:
        top = await ask(self._connection, AskTree(0))
        return [
            _down(what, one)
            for child in top.children
            if (what := WATCHED.get(child.name)) is not None
            for one in child.everybody()
            if one.strategy is None and one.status in DOWN
        ]


def _letters(count: int, newest: DeadLetter) -> Need:
    return Need(
        kind=NeedKind.DEAD_LETTER,
        text=f"{counted(count, 'dead letter')} in 24 hours {'was' if count == 1 else 'were'} not replayed",
        detail=": ".join(filter(None, (newest.job_id, newest.error.strip().rpartition("\n")[2][:200]))),
        name=newest.job_id or None,
        count=count,
        since=newest.at,
        run=newest.run_id,
    )


def _down(what: str, child: ChildInfo) -> Need:
    return Need(
        kind=NeedKind.SERVICE,
        text=f"{what} {child.name} is {child.status}, after {counted(child.restarts, 'restart')}",
        detail=child.reason or str(child.last_exit or ""),
        name=child.name,
        until=child.next_try_at,
    )
