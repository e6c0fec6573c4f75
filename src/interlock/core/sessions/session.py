"""A session in memory, its memo (what its runs do not show, and what outlives them), and how clients see it."""

from collections import OrderedDict
from collections.abc import Callable
from heapq import nsmallest
from typing import Any

import msgspec

from interlock.core.policy.judge_state import is_judged
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.field import copy_fields
from interlock.fields.payload import LIMIT
from interlock.model.facets import Collected, Facets, OtherRun
from interlock.model.labels import BYPASSED
from interlock.model.lane import shown_rate
from interlock.model.run import Now, Run
from interlock.model.session import effective
from interlock.model.session_info import SessionInfo, SessionPage, SessionUsage
from interlock.model.state import HOLDS_SLOT, State
from interlock.wire.request import ValueAnswer
from interlock.wire.session_request import AskSessions

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
        """Return the waiting run that a new arrival would join."""
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


def session_info(state: SchedulerState, session: Session, now: float) -> SessionInfo:
    active = session.not_ended()
    latest = next(reversed([*active, *session.waiting.values()]), None)
    of_job = None if latest is None else state.job_of(latest).sessions
    memo = session.memo
    options = effective(state.limits.session_patterns, of_job, memo.override, None, session.name)
    oldest = next(iter(session.waiting.values()), None)
    used, window = memo.usage
    return copy_fields(
        SessionInfo,
        options,
        key=session.name,
        tenant=session.tenant,
        active=len(active),
        waiting=len(session.waiting),
        oldest_wait=None if oldest is None else max(0.0, now - oldest.changed_at),
        rate=shown_rate(options.rate),
        paused=memo.paused,
        generation=memo.generation,
        cutoff=memo.cutoff or None,
        usage=SessionUsage(used=used, window=window) if window else None,
    )


def page(question: AskSessions, state: SchedulerState, now: Now) -> ValueAnswer:
    """Return sessions with live runs in the order of tenant and key."""
    after, tenants = question.after, {question.tenant, question.only_tenant} - {None}
    keys = (key for key in state.of(Sessions) if tenants <= {key[0]} and (after is None or key > after))
    found = nsmallest(question.limit + 1, keys)
    shown = [session_info(state, state.of(Sessions)[key], now.wall) for key in found[: question.limit]]
    following = f"k{shown[-1].tenant}/{shown[-1].key}" if len(found) > question.limit else None
    return ValueAnswer(question.request, SessionPage(sessions=shown, next=following))


MOST_COLLECTED = 16 * LIMIT  # bytes of the payloads that a run collects: they go to a worker in one message


def collapse(p: Pass, into: Run, run: Run) -> bool:
    """End a scheduled run as skipped, and give its payloads to another that waits. Change nothing and return False if
    that one has been dispatched, is of another job, is judged differently by the policy, or has no room for them.
    Workflows do not collapse: a step reads one payload."""
    own = Collected(1, LIMIT if run.payload is None else len(run.payload))
    before = [run.facets.collected for run in (into, run) if run.facets is not None]
    parts = [own, *filter(None, before)]
    total = Collected(sum(part.payloads for part in parts), sum(part.bytes for part in parts))
    if into.state in HOLDS_SLOT or into.job_id != run.job_id or total.bytes > MOST_COLLECTED:
        return False
    if p.state.job_of(run).workflow is not None or (is_judged(p.state) and not _are_alike(into, run)):
        return False
    p.move(run, State.SKIPPED, f"debounced into {into.id}")
    p.set_facet(run, collapsed_into=OtherRun(into.id))
    value = None if run.facets is None else run.facets.limit_value  # of the last payload, as the arguments
    p.set_facet(into, collected=total, limit_value=value)
    p.batch.inputs.copied.append((into.id, run.id, True))
    return True


def _are_alike(into: Run, run: Run) -> bool:
    """Return whether a policy cannot tell two runs apart but by their payloads, and allows both without conditions.
    A run that passed without a verdict is not allowed."""
    if into.judged is not None or run.judged is not None or BYPASSED in into.labels:
        return False
    return _seen_by_policy(into) == _seen_by_policy(run)


def _seen_by_policy(run: Run) -> tuple[Any, ...]:
    facets = run.facets or Facets()
    return run.job_version, run.submitters, run.lane, run.origin, facets.labels, facets.priority
