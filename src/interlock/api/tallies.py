"""Tallies, read from the store."""

from typing import Any

from interlock.api.call import Handlers, HttpCall, handlers_of, moment_of
from interlock.api.listing import read_page
from interlock.interface.overview_operations import ReadTallies
from interlock.model.record import RecordFilter
from interlock.model.tally import JobTally, LaneTally, Tally, TallyPage, info_of
from interlock.ports.store import Reader, RecordRows


class TallyHandlers:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def tallies(self, call: HttpCall[ReadTallies]) -> TallyPage:
        query = call.request
        kind: type[Tally] = LaneTally if query.by == "lane" else JobTally
        if kind is LaneTally:
            call.caller.need_every_tenant("tallies of lanes")
        if (query.lane if kind is JobTally else query.job or query.tenant) is not None:
            return TallyPage(tallies=[], next=None)  # a tally of a lane has no job, and the other way round
        since, until = moment_of(query.since, "since"), moment_of(query.until, "until")

        async def read(tenant: str | None, before: int | None, limit: int) -> RecordRows[Any]:
            wanted = RecordFilter(tenant=tenant, job=query.job or query.lane, since=since, until=until)
            return await self._reader.records(kind, wanted, before, limit)

        rows, following = await read_page(call, RecordRows[Any]([], None), read)
        return TallyPage(tallies=[info_of(tally) for tally in rows.records], next=following)
