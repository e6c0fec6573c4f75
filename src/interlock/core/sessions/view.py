"""Sessions as clients see them: one, and a page of those with live runs."""

from heapq import nsmallest

from interlock.core.sessions.session import Session, Sessions
from interlock.core.state import SchedulerState
from interlock.fields.field import copy_fields
from interlock.model.lane import shown_rate
from interlock.model.session import effective
from interlock.model.session_info import SessionInfo, SessionPage, SessionUsage
from interlock.wire.request import ValueAnswer
from interlock.wire.session_request import AskSessions


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


def page(question: AskSessions, state: SchedulerState, now: float) -> ValueAnswer:
    """Return sessions with live runs in the order of tenant and key."""
    after, tenants = question.after, {question.tenant, question.only_tenant} - {None}
    keys = (key for key in state.of(Sessions) if tenants <= {key[0]} and (after is None or key > after))
    found = nsmallest(question.limit + 1, keys)
    shown = [session_info(state, state.of(Sessions)[key], now) for key in found[: question.limit]]
    following = f"k{shown[-1].tenant}/{shown[-1].key}" if len(found) > question.limit else None
    return ValueAnswer(question.request, SessionPage(sessions=shown, next=following))
