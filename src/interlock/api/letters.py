"""Operations on dead letters: read from the store; replays and drops go to the scheduler."""

from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from interlock.api.call import Handlers, HttpCall, Reply, handlers_of, moment_of
from interlock.api.listing import read_page
from interlock.api.patience import ask
from interlock.api.runs import RunHandlers
from interlock.client.connection import Connection
from interlock.error import BadUse, UnknownLetter
from interlock.interface import record_operations as op
from interlock.interface.letter_view import LetterDetail, LetterPage, letter_info
from interlock.interface.run_view import entries_of
from interlock.model.access import Caller
from interlock.model.bulk import ActedOn, RunAction
from interlock.model.letter import DeadLetter, Dropped, LetterCode, LetterFilter
from interlock.model.run import RunFilter
from interlock.ports.store import Reader, RecordRows
from interlock.wire.letter_request import DropLetters, Replay


class LetterHandlers:
    def __init__(self, reader: Reader, connection: Connection, runs: RunHandlers) -> None:
        self._reader = reader
        self._connection = connection
        self._runs = runs
        self.handlers: Handlers = handlers_of(self)

    async def letters(self, call: HttpCall[op.ReadLetters]) -> LetterPage:
        query, caller = call.request, call.caller
        wanted = _filter(query, caller).records
        counts: dict[str, int] | None = {}

        async def read(tenant: str | None, before: int | None, limit: int) -> RecordRows[DeadLetter]:
            nonlocal counts
            counts = await self._reader.counts(DeadLetter, wanted) if before is None else None
            return await self._reader.records(DeadLetter, wanted, before, limit)

        rows, following = await read_page(call, RecordRows[DeadLetter]([], None), read)
        return LetterPage(letters=[letter_info(letter) for letter in rows.records], counts=counts, next=following)

    async def letter(self, call: HttpCall[op.ReadLetter]) -> LetterDetail:
        found = await self._find(call.request.letter_id, call.caller)
        run, history = None, []
        if found.run_id is not None:
            run = await self._runs.detail(found.run_id, call.caller, 0.0)
            history = entries_of(found.run_id, await self._reader.history(found.run_id))
        return LetterDetail(**asdict(letter_info(found)), run=run, history=history, raw=found.raw)

    async def _find(self, letter_id: str, caller: Caller) -> DeadLetter:
        """Return the letter if the caller may see it; one of another tenant does not exist for them."""
        found = await self._reader.record(DeadLetter, letter_id)
        if found is None or not caller.sees(found.tenant):
            raise UnknownLetter(letter_id)
        return found

    async def replay(self, call: HttpCall[op.ReplayLetter]) -> ActedOn:
        request = call.request
        found = await self._find(request.letter_id, call.caller)
        if found.run_id is None:
            raise BadUse("dead letter", f"{found.id} is a message of a worker, so it has no run to replay")
        arguments = b"" if request.payload is None else msgspec.json.encode(request.payload)
        message = Replay(0, found.run_id, request.reason or "replayed", arguments=arguments)
        caller = {"actor": call.caller.name, "key": call.key or "", "parent": call.parent}
        return await ask(self._connection, message.by(**caller))

    async def replay_many(self, call: HttpCall[op.ReplayLetters]) -> Reply:
        letters = replace(_chosen(call), replayed=False)
        wanted = RunFilter(tenant=letters.tenant, job_id=letters.job_id, letters=letters)
        return await self._runs.start_bulk(call, RunAction.RETRY, wanted)

    async def drop_letter(self, call: HttpCall[op.DropLetter]) -> Dropped:
        return await self._drop(DropLetters(0, (await self._find(call.request.letter_id, call.caller)).id))

    async def drop_letters(self, call: HttpCall[op.DropManyLetters]) -> Dropped:
        return await self._drop(DropLetters(0, None, _chosen(call)))

    async def _drop(self, message: DropLetters) -> Dropped:
        return await ask(self._connection, message)


def _chosen(call: HttpCall[Any]) -> LetterFilter:
    """Return the filter of a request that acts on many letters, which must have one."""
    request, caller = call.request, call.caller
    if request.tenant is not None:
        caller.tenant_for(request.tenant)
    if _filter(request, None) == LetterFilter() and not request.everything:
        raise BadUse("all", "missing, and no filter is given; give one, such as job, or all: true for every letter")
    return _filter(request, caller)


def _filter(given: op.LetterChoice[Any], caller: Caller | None) -> LetterFilter:
    return LetterFilter(
        code=None if given.code is None else LetterCode(given.code),
        job_id=given.job,
        tenant=(None if caller is None else caller.only_tenant) or given.tenant,
        since=moment_of(given.since, "since"),
        until=moment_of(given.until, "until"),
        replayed=given.replayed,
    )
