"""A session as it is shown, and the events of acts on it."""

from typing import Annotated, ClassVar

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.job_info import Cursor
from interlock.model.session import Drop, Mode, SessionAction


class SessionUsage(msgspec.Struct, frozen=True, kw_only=True):
    used: Annotated[int, doc("Part of the window in use.")]
    window: Annotated[int, doc("Size of the window.")]


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session, with the options that another run of its latest job would get."""

    key: Annotated[str, doc("Key.")]
    tenant: Annotated[str, doc("Tenant.")]
    active: Annotated[int, doc("Runs that have had their turn and have not ended.")]
    waiting: Annotated[int, doc("Runs that wait for their turn.")]
    oldest_wait: Annotated[float | None, doc("Seconds of the longest wait so far; null if no run waits.")]
    mode: Annotated[Mode, doc("`queue`, `followup` or `interrupt`.")]
    max_concurrent: Annotated[int, doc("Runs that may be active at once.")]
    debounce: Annotated[float, doc("Seconds without a further arrival before a run starts.")]
    cap: Annotated[int, doc("Most runs that wait.")]
    drop: Annotated[Drop, doc("Run to drop at `cap`: `old` cancels the oldest waiting run, `new` refuses the new one.")]
    rate: Annotated[str | None, doc("Maximum start rate, such as `10/s`; null for no limit.")]
    burst: Annotated[int, doc("Starts allowed at once after an idle period.")]
    paused: Annotated[bool, doc("Whether waiting runs stay until it is resumed.")]
    generation: Annotated[int, doc("Number of resets so far.")]
    cutoff: Annotated[
        Time | None, doc("Time of the last `stopall`, until a later message comes; earlier messages are stale.")
    ]
    usage: Annotated[SessionUsage | None, doc("Usage of its window; null if no window is known.")]


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of sessions."""

    sessions: Annotated[list[SessionInfo], doc("Sessions with runs that have not ended, by tenant and key.")]
    next: Cursor


class ActedOnSession(msgspec.Struct, frozen=True, kw_only=True):
    acted: Annotated[bool, doc("Whether there was anything to act on: runs to stop, or a pause to begin or to end.")]
    session: Annotated[SessionInfo, doc("Session after the action.")]


class SessionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An act on a session. The runs that it ended have events of their own."""

    LOGS: ClassVar = "@sessions:"  # beginning of the names of the services' logs that have these events

    session: Annotated[str, doc("Key of the session.")]
    tenant: Annotated[str, doc("Tenant of the session.")]
    at: Annotated[Time, doc("Time.")]
    action: Annotated[SessionAction, doc("`stop`, `stopall`, `reset`, `pause` or `resume`.")]
    actor: Annotated[str, doc("Who asked for it.")]
    after: Annotated[SessionInfo, doc("Session after the act.")]

    @property
    def log(self) -> str:
        return self.LOGS + self.tenant
