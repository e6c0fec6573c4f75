"""Refused tokens, on their way to the audit: the gateway cannot write, so it counts them for the scheduler."""

import asyncio

from interlock.api.auth import Scope
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.error import InterlockError
from interlock.model.access import EVERY_TENANT, Caller
from interlock.task_set import TaskSet
from interlock.wire.audit_request import NoteRefusals, Refusal

EVERY = 1.0  # seconds between two reports
NAMED_FOR = 60.0  # seconds
MOST_NAMED = 20  # addresses that are counted apart in this time; any others are counted together
MOST_COUNTED = 100  # counts while the scheduler takes none
OTHERS = "others"
LONGEST = 200  # characters of a subject

RefusalKey = tuple[str, str, str]  # reason, actor, tenant


class Refusals:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._counts: dict[RefusalKey, tuple[str, int]] = {}  # the last subject, and how many
        self._named: set[str] = set()
        self._named_since = 0.0
        self._tasks = TaskSet()
        self._is_reporting = False

    def note(self, error: InterlockError, caller: Caller | None, scope: Scope) -> None:
        """Count a request that was refused to a caller, or to a client whose token is unknown."""
        if caller is None:
            who, tenant = self._name(scope["client"][0] if scope.get("client") else "unknown"), ""
        else:
            who, tenant = caller.name, "" if caller.tenant == EVERY_TENANT else caller.tenant
        self._add((error.code, who, tenant), f"{scope['method']} {scope['path']}"[:LONGEST], 1)

    def _add(self, key: RefusalKey, subject: str, count: int) -> None:
        if key not in self._counts and len(self._counts) >= MOST_COUNTED:
            key = key[0], OTHERS, ""
        self._counts[key] = subject, count + self._counts.get(key, ("", 0))[1]
        if not self._is_reporting:
            self._is_reporting = True
            self._tasks.begin(self._report())

    def _name(self, address: str) -> str:
        """Return the address, or the name for all others: whoever has many must not fill the audit with them."""
        now = asyncio.get_running_loop().time()
        if now - self._named_since > NAMED_FOR:
            self._named, self._named_since = set(), now
        if address not in self._named and len(self._named) >= MOST_NAMED:
            return OTHERS
        self._named.add(address)
        return address

    async def _report(self) -> None:
        """Report at once, and then every second for as long as there is anything to report."""
        while self._counts:
            counts, self._counts = self._counts, {}
            found = [Refusal(*key, subject, count) for key, (subject, count) in counts.items()]
            try:
                await ask(self._connection, NoteRefusals(0, found))
            except InterlockError:
                # The scheduler is away; it gets them with the next report.
                for key, (subject, count) in counts.items():
                    self._add(key, subject, count)
            await asyncio.sleep(EVERY)
        self._is_reporting = False

    def close(self) -> None:
        self._tasks.cancel()
