"""The PostgreSQL store of the scheduler: each write is one call on one connection."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

import asyncpg
from msgspec.structs import replace

from interlock import error as e
from interlock.core.decisions import Batch
from interlock.model.letter import DeadLetter
from interlock.model.record import Record
from interlock.ports.leases import Lease, Leases
from interlock.ports.store import MOST_PRUNED, Pruned, PruneLimits, Snapshot, Store
from interlock.stores.postgres import errors
from interlock.stores.postgres.batch import COMMIT, arguments
from interlock.stores.postgres.database import CONNECT_SECONDS, connect_writer, migrate, migrations
from interlock.stores.postgres.queries import without_nul
from interlock.stores.postgres.reader import LONG_SECONDS, PostgresReader
from interlock.stores.sql.lookups import load, read_position
from interlock.stores.sql.pruning import UNCOUNTED, find_old_keys, find_prunable, find_service_cuts
from interlock.stores.sql.view import View

GONE_SECONDS = 2.0  # time without the holder's session after which its lease may be taken
WRITE_SECONDS = 10.0
"""A write that takes longer has an unknown outcome. No setting of the server ends the wait for a replica."""
WENT_BACK = "the server went back to an earlier state"

_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_ID = "pid || ' ' || extract(epoch FROM backend_start)"
_SESSION = f"(SELECT {_ID} FROM pg_stat_activity WHERE pid = pg_backend_pid())"
_TAKE = f"""
INSERT INTO leases AS stored (name, holder, token, epoch, position, ends_at, session)
VALUES ($1, $2, $3, $7::bigint + 1, (SELECT coalesce(max(position), 0) FROM leases), {_NOW} + $4, {_SESSION})
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, token = excluded.token, epoch = greatest(stored.epoch, $7) + 1, ends_at = {_NOW} + $4,
  session = excluded.session
WHERE stored.token = excluded.token OR ((NOT $6 OR stored.epoch < $7) AND (
  (stored.token = '' AND stored.holder IN ('', excluded.holder)) OR stored.ends_at <= {_NOW} OR stored.session = $5))
RETURNING epoch, position, ends_at
"""
_LOOK = f"""
SELECT nullif(session, (SELECT {_ID} FROM pg_stat_activity WHERE {_ID} = session)), position, epoch
FROM leases WHERE name = $1
"""
_RENEW = f"""
UPDATE leases SET ends_at = {_NOW} + $4, session = {_SESSION}
WHERE name = $1 AND epoch = $2 AND token = $3 AND token <> '' RETURNING ends_at, position
"""
_RELEASE = f"UPDATE leases SET holder = $3, token = '', ends_at = {_NOW} + $4 WHERE name = $1 AND token = $2"


class PostgresStore(PostgresReader, Store, Leases):
    def __init__(self, url: str, write_seconds: float = WRITE_SECONDS) -> None:
        super().__init__(url, connections=2)
        self._write_seconds = write_seconds
        self._turn = asyncio.Lock()
        self._writer: asyncpg.Connection | None = None
        self._is_open = False
        self._warnings: list[str] = []  # of the call under way
        self._position: dict[tuple[str, int], int] = {}  # name and epoch of a lease → the highest position stored
        self._seen = 0  # the highest position that another holder had stored
        self._epochs: dict[str, int] = {}  # name of a lease → its highest epoch that was seen
        self._counted = UNCOUNTED
        self._left: tuple[str, float] | None = None  # a holder's session that is gone, and since when

    async def open(self) -> None:
        self._counted, self._turn, self._position = UNCOUNTED, asyncio.Lock(), {}
        try:
            self._writer = await connect_writer(self._address, self._hear)
            await migrate(self._writer, self._address, migrations())
        except errors.DRIVER as error:
            await self.close()
            raise errors.of_opening(error, self._address.shown, CONNECT_SECONDS) from error
        except BaseException:
            await self.close()
            raise
        self._is_open = True
        self._pool = await self._made_pool()

    async def close(self) -> None:
        await self._stop_reading()
        self._is_open = False
        async with self._turn:
            self._disconnect()

    def _hear(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        if getattr(message, "severity_en", None) == "WARNING":
            self._warnings.append(str(getattr(message, "message", message)))

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    async def _connected_writer(self) -> asyncpg.Connection:
        if not self._is_open:
            raise e.StoreUnavailable("it is closed")
        if self._writer is None or self._writer.is_closed():
            try:
                self._writer = await connect_writer(self._address, self._hear)
            except (*errors.DRIVER, e.CannotOpenDatabase) as error:
                raise e.StoreUnavailable(errors.why(error, CONNECT_SECONDS)) from error
        return self._writer

    async def _write(self, query: str, *values: Any, lease: Lease | None = None) -> asyncpg.Record | None:
        """Call the server once, in the order of the calls. Under a lease, the values follow those of the fence."""
        async with self._turn:
            connection = await self._connected_writer()
            given = list(values)
            if lease is not None:
                expected = self._position.get((lease.name, lease.epoch))  # None: taken elsewhere
                given = [lease.name, lease.epoch, lease.token, expected, *given]
            self._warnings.clear()
            try:
                try:
                    row = await connection.fetchrow(query, *given, timeout=self._write_seconds)
                except asyncpg.CharacterNotInRepertoireError:
                    row = await connection.fetchrow(query, *without_nul(given), timeout=self._write_seconds)
            except errors.DRIVER as error:
                if not errors.is_certain(error):
                    self._disconnect()
                if errors.is_read_only(error):
                    self._disconnect()
                    await self._drop_connections()
                found = errors.of_writing(error, self._write_seconds, lease)
                if lease and isinstance(found, e.StaleEpoch) and found.current < self._epochs.get(lease.name, 0):
                    found = e.OutcomeUnknown(WENT_BACK)
                raise found from error
            except BaseException:
                self._disconnect()
                raise
            if self._warnings:
                # A wait for a replica that was cancelled ends in a commit, and this.
                raise e.OutcomeUnknown(self._warnings[0])
            return row

    # ── store ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, batch: Batch, lease: Lease) -> Awaitable[None]:
        # A caller that gives up must not cut the call off: its outcome would be unknown.
        call = asyncio.ensure_future(self._commit(batch, lease))
        call.add_done_callback(_note_error)
        return asyncio.shield(call)

    async def _commit(self, batch: Batch, lease: Lease) -> None:
        row = await self._write(COMMIT, *arguments(batch), lease=lease)
        assert row is not None
        self._position[lease.name, lease.epoch] = row[0]

    async def load(self, small_payload: int, kinds: Sequence[type[Record]] = ()) -> Snapshot:
        return await self._read(partial(load, small_payload, kinds), seconds=LONG_SECONDS)

    async def prune(self, limits: PruneLimits, lease: Lease) -> Pruned:
        lines = await self._prune_services(limits, lease)
        find = partial(find_old_keys, limits.keys_before, limits.calls_before)
        old = await self._read(find, seconds=LONG_SECONDS)
        keys = await self._prune("prune_keys($1, $2, $3, $4, $5)", lease, old) if old else 0
        records = 0
        for kind, before, most in limits.records:
            values = kind.kind, before, most, kind is DeadLetter, MOST_PRUNED
            records += await self._prune("prune_records($1, $2, $3, $4, $5, $6, $7, $8, $9)", lease, *values)
        found = await self._read(partial(find_prunable, limits, self._counted), seconds=LONG_SECONDS)
        self._counted = found.counted
        deleted = 0
        for part in found.parts:
            pruned = await self._prune("prune_runs($1, $2, $3, $4, $5)", lease, part)
            deleted += pruned
            self._counted = replace(self._counted, runs=self._counted.runs - pruned)
        return Pruned(deleted, found.more, lines=lines, keys=keys, records=records)

    async def _prune_services(self, limits: PruneLimits, lease: Lease) -> int:
        async def find(view: View) -> tuple[dict[str, int], int]:
            return await find_service_cuts(limits.log_lines, limits.log_bytes, view), await read_position(view)

        cuts, newest = await self._read(find, seconds=LONG_SECONDS)
        if not cuts:
            return 0
        values = list(cuts), list(cuts.values()), newest, MOST_PRUNED
        return await self._prune("prune_services($1, $2, $3, $4, $5, $6, $7, $8)", lease, *values)

    async def _prune(self, call: str, lease: Lease, *values: Any) -> int:
        row = await self._write(f"SELECT {call}", *values, lease=lease)
        assert row is not None
        count: int = row[0]
        return count

    # ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_session(self) -> bool:  # type: ignore[override] # elsewhere it always has
        return self._writer is not None and not self._writer.is_closed()

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        now = asyncio.get_running_loop().time()
        left = self._left[0] if self._left is not None and now - self._left[1] >= GONE_SECONDS else None
        known = self._epochs.get(name, 0)
        row = await self._write(_TAKE, name, holder, token, ttl, left, again, known)
        seen = max(self._seen, *self._position.values(), 0)
        if row is None:
            found = await self._write(_LOOK, name)
            session, position, epoch = found or (None, 0, 0)
            self._seen, self._epochs[name] = max(seen, position), max(known, epoch)
            if session is None or self._left is None or self._left[0] != session:
                self._left = None if session is None else (session, now)
            if again and session is not None and epoch < known:
                raise e.StoreUnavailable(f"{WENT_BACK}, in which the lease of a holder that is gone has not ended")
            return None
        self._left = None
        epoch, position, ends_at = row
        self._position, self._seen, self._epochs[name] = {(name, epoch): position}, 0, epoch
        return Lease(
            name=name, holder=holder, token=token, epoch=epoch, granted_at=ends_at - ttl, ends_at=ends_at,
            lost=max(0, seen - position),
        )  # fmt: skip

    async def renew(self, lease: Lease, ttl: float) -> Lease:
        row = await self._write(_RENEW, lease.name, lease.epoch, lease.token, ttl)
        if row is None:
            holder, epoch = await self._write("SELECT holder, epoch FROM leases WHERE name = $1", lease.name) or ("", 0)
            if epoch < self._epochs.get(lease.name, 0):
                raise e.OutcomeUnknown(WENT_BACK)
            raise e.LeaseLost(lease.name, f"now held by {holder or 'nobody'}")
        ends_at, position = row
        if position < self._position.get((lease.name, lease.epoch), 0):
            raise e.OutcomeUnknown(WENT_BACK)
        return replace(lease, granted_at=ends_at - ttl, ends_at=ends_at)

    async def release(self, lease: Lease, to: str = "", within: float = 0.0) -> None:
        await self._write(_RELEASE, lease.name, lease.token, to, within)


def _note_error(call: "asyncio.Future[None]") -> None:
    """Take note of an error that nobody waits for any more."""
    if not call.cancelled():
        call.exception()
