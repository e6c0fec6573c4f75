"""Sessions as clients see them: one, and a page of those with live runs."""

from heapq import nsmallest

from interlock.core.sessions.session import Session, Sessions
from interlock.core.state import SchedulerState
from interlock.fields.field import copy_fields
from interlock.model.lane import shown_rate
from interlock.model.session import effective
from interlock.model.session_info import SessionInfo, SessionUsage
from interlock.wire import lane_request as r

MOST_SESSIONS = 1000  # in one answer


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


def page(question: r.AskSessions, state: SchedulerState, now: float) -> r.SessionsReport:
    """Return sessions with live runs in the order of tenant and key."""
    limit = max(1, min(question.limit, MOST_SESSIONS))
    keys = (
        key
        for key in state.of(Sessions)
        if question.tenant in (None, key[0]) and (question.after is None or key > question.after)
    )
    found = nsmallest(limit + 1, keys)
    shown = [session_info(state, state.of(Sessions)[key], now) for key in found[:limit]]
    return r.SessionsReport(question.request, shown, len(found) > limit)
