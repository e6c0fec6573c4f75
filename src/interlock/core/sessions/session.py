"""A session in memory, and its memo: what its runs do not show, and what outlives them."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.model.run import Run
from interlock.model.state import State

BUSY = 0.6  # share of its window from which a session starts one run at a time
PREFIX = "session:"


class SessionMemo(msgspec.Struct, frozen=True, omit_defaults=True):
    override: dict[str, Any] | None = None  # the options that submits gave, the last ones win
    cutoff: float = 0.0  # wall time; runs stamped before it are stale
    generation: int = 0
    paused: bool = False
    usage: tuple[int, int] = (0, 0)  # used of the window, and the window


NOTHING = SessionMemo()


class Session(msgspec.Struct, eq=False):
    """The runs of one key of a tenant. It is in memory while it has runs that have not ended."""

    tenant: str
    name: str
    memo: SessionMemo
    live: int = 0  # runs that have not ended, those ahead of their time included
    active: dict[str, Run] = {}  # runs that have had their turn, in this order
    waiting: OrderedDict[str, Run] = msgspec.field(default_factory=OrderedDict)
    collector: Run | None = None  # the last waiting run, while others may join it
    window: float = 0.0  # elapsed time until which they may
    arrivals: int = 0
    most: int = 1  # runs that may be active, as of the latest arrival
    rate: tuple[float, int] | None = None  # starts a second, and the burst, as of the latest arrival

    @property
    def is_busy(self) -> bool:
        used, window = self.memo.usage
        return window > 0 and used >= BUSY * window

    @property
    def room(self) -> int:
        return self.room_for(self.most)

    def room_for(self, most: int) -> int:
        return (1 if self.is_busy else most) - len(self.active)

    def not_ended(self) -> list[Run]:
        """Return the active runs without those that ended in this pass, which have not left yet."""
        return [run for run in self.active.values() if run.ended_at is None]

    def collecting(self, elapsed: float) -> Run | None:
        """Return the waiting run that one which arrives now would join."""
        run = self.collector
        return run if run is not None and run.state is State.SCHEDULED and elapsed < self.window else None


def memo_name(tenant: str, name: str) -> str:
    return f"{PREFIX}{tenant}:{name}"


def read_memo(stored: bytes | None) -> SessionMemo:
    return NOTHING if stored is None else msgspec.json.decode(stored, type=SessionMemo)


class Sessions(dict[tuple[str, str], Session]):
    """Those with live runs, by tenant and name."""

    def __init__(self) -> None:
        self.has_memos = False  # whether the store may have memos of others
        self.stepping_back: list[Run] = []  # runs that are held up although their turn has come

    def open(self, tenant: str, name: str, stored: Callable[[str], bytes | None]) -> Session:
        session = self.get((tenant, name))
        if session is None:
            memo = read_memo(stored(memo_name(tenant, name)))
            session = self[tenant, name] = Session(tenant, name, memo)
        return session

    def of(self, run: Run) -> Session | None:
        return None if run.session is None else self.get((run.tenant, run.session))

    def keeps(self, run: Run) -> bool:
        """Return whether a cleared run waits for its turn, and not in its lane."""
        session = self.of(run)
        return session is not None and run.id in session.waiting
